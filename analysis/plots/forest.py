"""Each variant beside its baseline, a row each: differences of scores, and ratios of times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from ablations.store.record import TRAINED
from analysis.contrasts import Evidence
from analysis.curves import on_curves
from analysis.load import Loaded, listed
from analysis.names import after_heading
from analysis.plots import canvas, style
from analysis.plots.canvas import Panel
from analysis.scores import FINE, final_readings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Difference of each variant from the baseline, paired by seed. Large dot: mean; bar: 95 % "
    "interval, from three seeds on; small dots: seeds; ×: a seed that failed, at what it came to. "
    "Orange: worse, blue: better, ink: differs where nothing was trained; hollow: a tie, or not "
    "resolved; diamond: one seed."
)
SPEED_CAPTION = (
    "Time over the baseline's, taken in the same blocks. Large dot: mean over processes; bar: 95 % "
    "interval, at least as wide as the baseline's beside itself. Orange: slower, blue: faster."
)
COLOURS = {"worse": style.WORSE, "better": style.BETTER, "higher": style.INK, "lower": style.INK}
SILENT = ("not run", "not resolved", "few seeds", "failed", *COLOURS)
LETTERS = 22  # of a name


def panels(evidence: Evidence) -> list[Panel]:
    """Differences of every table that has some."""
    found = []
    for (name, unit), own in evidence.contrasts.groupby(["ablation", "unit"], sort=False):
        if not (own["n"] > 0).any():
            continue
        first = own.iloc[0]
        lost = _lost(evidence.loaded, str(name))
        is_even = len(set(zip(own["n"], own["planned"], strict=True))) == 1
        frame = own.assign(
            value=own["difference"],
            lost=[lost.get((row["label"], row["across"]), []) for row in listed(own)],
            beside=[beside(row, is_even) for row in listed(own)],
        ).reset_index(drop=True)
        frame = without_thin_intervals(frame.rename(columns={"differences": "points"}))
        frame.attrs |= {
            "x_label": f"difference{after_heading(str(unit))}",
            "sides": ("worse", "better") if first["better"] == "higher" else ("better", "worse"),
        }
        if not own["trained"].any():
            frame.attrs["sides"] = ("lower", "higher")
        where = " on ".join(str(first[key]) for key in ("metric_label", "task"))
        found.append(
            Panel(
                kind="forest", ablation=str(name), frame=frame, plot=plot,
                title=canvas.heading(name, where),
                subtitle=f"difference from {canvas.cut(first['control'], 40)}",
                note=canvas.counted(frame),
                size=(style.WIDTH, 1.25 + 0.17 * len(frame)),
            )
        )  # fmt: skip
    return found


def _lost(loaded: Loaded, ablation: str) -> dict[tuple[str, str], list[float]]:
    """(label, crossing) → what its failed seeds came to, less the baseline's same seed."""
    entry = loaded.ablations[ablation]
    metric = entry["metric"]
    ended = final_readings(loaded, ablation, metric["name"], metric["split"], {}, ended=TRAINED)
    rows = listed(ended)
    base = {
        (row["across"], row["seed"]): row["value"]
        for row in rows
        if row["label"] == entry["control"] and row["status"] == FINE
    }
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        control = base.get((row["across"], row["seed"]))
        if row["status"] != FINE and control is not None:
            own = found.setdefault((row["label"], row["across"]), [])
            own.append(float(row["value"]) - float(control))
    return found


def beside(row: dict[str, Any], is_even: bool) -> str:
    """What dots and bars cannot show: a tie, what failed, what is still to be run."""
    control = row["control_failures"] and f"baseline: {row['control_failures']}"
    words = [each for each in (row["failures"], control) if each]
    if row["mark"] not in SILENT:
        words.append(row["mark"])
    if not words and row["n"] == 0:
        words.append("not run")
    elif not words and not is_even and row["n"] < row["planned"]:
        words.append(f"n = {row['n']} of {row['planned']}")
    return "; ".join(words)


def without_thin_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """No interval from fewer than three."""
    is_thin = frame["n"] < canvas.LEAST
    return frame.assign(**{end: frame[end].mask(is_thin) for end in ("low", "high")})


def speed_panels(evidence: Evidence) -> list[Panel]:
    """Ratios of every table and machine that was timed at few places."""
    frame = evidence.speeds
    is_itself = (frame["label"] == frame["control"]) & (frame["against"] == frame["control"])
    timed = frame[~is_itself & (frame["n"] > 0) & ~on_curves(evidence)]
    found = []
    for (name, machine), own in timed.groupby(["ablation", "machine"], sort=False):
        several = own.duplicated(["name", "against", "metric", "at"], keep=False)
        seeds = [
            f", seed {seed}" * bool(many) for seed, many in zip(own["seed"], several, strict=True)
        ]
        rows = own.assign(
            value=own["ratio"], name=own["name"] + seeds, lost=[[]] * len(own), beside="",
            points=[[math.exp(log) for log in logs] for logs in own["logs"]],
            mark=["worse" if row["low"] > 1 else "better" if row["high"] < 1 else "not resolved"
                  for row in listed(own)],
        ).reset_index(drop=True)  # fmt: skip
        rows = without_thin_intervals(rows)
        where = rows["metric"].str.replace("_", " ") + ", " + rows["at"]
        elsewhere = (" over " + rows["against"]).mask(rows["against"] == rows["control"], "")
        rows["group"] = where + elsewhere
        rows = rows.sort_values("group", kind="stable").reset_index(drop=True)
        groups = rows["group"].unique()
        rows.attrs |= {"x_label": "times the baseline's time", "sides": ("faster", "slower")}
        rows.attrs["ratio"] = True
        device = str(machine).split(",")[0].removeprefix("device ")
        found.append(
            Panel(
                kind="speed", ablation=str(name), frame=rows, plot=plot,
                title=canvas.heading(name, "time over the baseline's"),
                subtitle=groups[0] if len(groups) == 1 else "",
                note=f"{device}; {canvas.counted(rows, 'processes')}",
                size=(style.WIDTH, 1.25 + 0.17 * (len(rows) + len(groups))),
            )
        )  # fmt: skip
    return found


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """A row for each variant, downwards; where `group` says so, under headings."""
    base = 1.0 if frame.attrs.get("ratio") else 0.0
    places, headings = _places(frame)
    _scale(frame, ax, base)
    ax.axvline(base, color=style.INK, linewidth=0.9, zorder=1)
    _points(frame, ax, places)
    for row, y in zip(listed(frame), places, strict=True):
        _row(ax, row, y)
    for y, words in headings:
        ax.text(
            0.0, y, canvas.cut(words, 60), transform=ax.get_yaxis_transform(), size=style.NOTE,
            color=style.TEXT, va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    ax.set_yticks(
        places, [canvas.cut(name, frame.attrs.get("letters", LETTERS)) for name in frame["name"]]
    )
    ax.tick_params(axis="y", labelcolor=style.INK)
    ax.set_ylim(max(places) + 0.6, min([*places, *(y for y, _ in headings)]) - 0.6)
    left, right = frame.attrs.get("sides", ("", ""))
    ax.set_title(f"← {left}", color=style.TEXT, size=style.NOTE, pad=3)
    ax.set_title(f"{right} →", loc="right", color=style.TEXT, size=style.NOTE, pad=3)
    ax.set_xlabel(frame.attrs.get("x_label", ""))
    ax.set_ylabel("")
    return ax


def _places(frame: pd.DataFrame) -> tuple[list[float], list[tuple[float, str]]]:
    """The height of each row, and of each heading with its words."""
    if "group" not in frame or frame["group"].nunique() == 1:
        return [float(y) for y in range(len(frame))], []
    places, headings, y, before = [], [], 0.0, None
    for group in frame["group"]:
        if group != before:
            headings.append((y, group))
            y, before = y + 1, group
        places.append(y)
        y += 1
    return places, headings


def _points(frame: pd.DataFrame, ax: Axes, places: list[float]) -> None:
    """Every seed, a little below its mean."""
    import seaborn as sns

    rows = [
        {"x": x, "y": y + 0.3, "mark": row["mark"]}
        for row, y in zip(listed(frame), places, strict=True)
        for x in row["points"]
        if len(row["points"]) > 1
    ]
    if rows:
        seeds = pd.DataFrame(rows)
        palette = {mark: COLOURS.get(mark, style.TIE) for mark in set(seeds["mark"])}
        sns.scatterplot(
            data=seeds, x="x", y="y", hue="mark", palette=palette, s=style.SEED**2, alpha=0.75,
            linewidth=0, legend=False, ax=ax, zorder=3,
        )  # fmt: skip


def _row(ax: Axes, row: dict[str, Any], y: float) -> None:
    """Mean and interval; crosses for seeds that failed; a word at the right where one is needed."""
    colour = COLOURS.get(row["mark"], style.TIE)
    ax.plot([row["low"], row["high"]], [y, y], color=colour, lw=style.BAR, zorder=4)
    if row["n"] != 2:
        is_one = row["n"] == 1
        face = "white" if is_one or row["mark"] not in COLOURS else colour
        ax.plot(
            row["value"], y, marker="D" if is_one else "o", ms=style.MEAN - is_one, mew=1.0,
            color=colour, mfc=face, ls="", zorder=5,
        )  # fmt: skip
    for value in row["lost"]:
        ax.plot(value, y + 0.3, "x", ms=3.5, mew=0.9, color=style.WORSE, zorder=4)
    if row["beside"]:
        ax.text(
            1.02, y, canvas.cut(row["beside"], 24), transform=ax.get_yaxis_transform(),
            size=style.NOTE, color=style.TEXT, va="center",
        )  # fmt: skip


def _scale(frame: pd.DataFrame, ax: Axes, base: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = _ends(frame, base)
    far = frame.attrs.get("linear_to")
    ax.grid(axis="x")
    if far:
        ax.set_xscale("symlog", linthresh=far)
        ax.set_xlim(min(1.5 * low, -far), max(1.5 * high, far))
        ticks = [
            x for x in (-10 * far, -far, 0.0, far, 10 * far) if low <= x <= high or abs(x) <= far
        ]
        canvas.put_ticks(ax, ticks, list(map(canvas.signed, ticks)))
        return
    even = MaxNLocator(4, steps=[1, 2, 5, 10])
    if not frame.attrs.get("ratio"):
        room = 0.06 * (high - low or 1.0)
        ax.set_xlim(low - room, high + room)
        ax.xaxis.set_major_locator(even)
        ax.xaxis.set_major_formatter(FuncFormatter(canvas.signed))
        return
    low, high = min(low, 0.9), max(high, 1.1)
    room, wide = (high / low) ** 0.06, high / low
    ax.set_xscale("log")
    ax.set_xlim(low / room, high * room)
    logarithmic = LogLocator(10, (1, 2, 5) if wide < 40 else (1,))
    ax.xaxis.set_major_locator(even if wide < 4 else logarithmic)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.3g}×"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _ends(frame: pd.DataFrame, base: float) -> tuple[float, float]:
    """The least and the most of all that is drawn."""
    ends = [base, *frame["value"], *frame["low"], *frame["high"]]
    lists = [frame[column] for column in ("points", "lost") if column in frame]
    ends += [x for column in lists for own in column for x in own]
    known = [x for x in ends if math.isfinite(x)]
    return min(known), max(known)
