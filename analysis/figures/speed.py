"""Times against the control's, on a log axis, over the noise of the session."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from analysis import rows, stats, style
from analysis.curves import on_curves
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short
from analysis.speed import SAME

CAPTION = (
    "Times relative to the control, taken in the same blocks, of what was timed at few places. "
    "Bar: 95 % interval over processes; shaded: what the control shows against itself, the noise "
    "floor. n: processes."
)
MARGINS = rows.MARGINS
COLOURS = {stats.SLOWER: style.VERMILION, stats.FASTER: style.BLUE}
STEPS = (2.0, 4.0, 10.0, 100.0, 1000.0)


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """One panel a question and machine: times from different machines share no axis."""
    frame = evidence.speeds
    timed = frame[(frame["verdict"] != SAME) & (frame["n"] > 0) & ~on_curves(evidence)]
    return [panel for _, panel in timed.groupby(["ablation", "machine"], sort=False)]


def describe(frames: list[pd.DataFrame]) -> str:
    """Each ratio in words."""
    told = [
        f"{short(row['name'])} takes {row['ratio']:.2f} times as long as {short(row['against'])} "
        f"({_where(row['metric'], row['at'])}): {row['verdict']}."
        for frame in frames
        for row in listed(frame)
    ]
    return "Times relative to the control. " + " ".join(told)


def inches(frame: pd.DataFrame) -> float:
    return rows.inches(_groups(frame), MARGINS)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    """One panel: ratios of one machine, with the A/A band shaded."""
    groups = _groups(frame)
    ends = [*frame["ratio"], *frame["low"].dropna(), *frame["high"].dropna()]
    bands = frame["floor"].dropna()
    reach = math.log(max(1.02, *ends, *bands)), math.log(min(0.98, *ends, *(1 / bands)))
    pad = 0.06 * (reach[0] - reach[1])
    ax.set_xscale("log")
    ax.set_xlim(math.exp(reach[1] - pad), math.exp(reach[0] + pad))
    device = frame["machine"].iloc[0].split(",")[0].removeprefix("device ")
    rows.label(ax, groups, f"Times, {device}", "faster", "slower")
    for group in groups:
        for span in group.spans():
            ax.plot([1, 1], span, color=style.INK, linewidth=0.6, zorder=1)
        for row in group.rows:
            _draw_row(ax, row)
    ax.set_xlabel("time, variant / control", labelpad=2)
    ax.xaxis.set_major_locator(FixedLocator(_ticks(*ax.get_xlim())))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}×"))
    return ax


def _groups(frame: pd.DataFrame) -> list[rows.Group]:
    groups = []
    keys = ["ablation", "against", "metric", "at"]
    for (name, against, metric, at), members in frame.groupby(keys, sort=False):
        group = rows.Group(str(name), str(against), _where(str(metric), str(at)))
        several = members["name"].duplicated().any()
        for data in listed(members):
            label = f"{data['name']}, seed {data['seed']}" if several else data["name"]
            remark = "" if not math.isnan(data["floor"]) else "no A/A pair: nothing is resolved"
            group.rows.append(rows.LabelledRow(label, str(data["n"]), data, remark))
        groups.append(group)
    return groups


def _where(metric: str, at: str) -> str:
    return f"{metric.replace('_', ' ')}, {at}"


def _draw_row(ax: Axes, row: rows.LabelledRow) -> None:
    data, y = row.data, row.y
    colour = COLOURS.get(data["verdict"], style.QUIET)
    if not math.isnan(data["floor"]):
        band = [1 / data["floor"], data["floor"]]
        ax.fill_betweenx([y - 0.5, y + 0.5], *band, color=style.SKY, alpha=0.3, linewidth=0)
    single = math.isnan(data["low"])
    if not single:
        ax.plot([data["low"], data["high"]], [y, y], color=colour, linewidth=1.3, zorder=2)
    face = "none" if single else colour
    ax.plot(data["ratio"], y, "o", ms=3.4, mew=0.9, color=colour, mfc=face, zorder=3)


def _ticks(low: float, high: float) -> list[float]:
    """Round ratios, at most six, 1 among them: evenly spaced over a short range, else powers."""
    if high / low < 4:
        even = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
        return [float(tick) for tick in even if low <= tick <= high]
    for step in STEPS:
        first, last = (math.log(end) / math.log(step) for end in (low, high))
        powers = range(math.ceil(first), math.floor(last) + 1)
        if len(powers) <= 5:
            return [step**power for power in powers]
    return [1.0]
