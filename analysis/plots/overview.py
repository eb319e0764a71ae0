"""The largest differences of the six axes on one page, in per cent of the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.evidence import Evidence
from analysis.load import listed
from analysis.plots import canvas, style
from analysis.plots.canvas import Panel
from analysis.plots.forest import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "What changing one piece does to a score: the largest differences of each axis, in per cent of "
    "the baseline. Large dot: mean; bar: 95 % interval; small dots: seeds. Orange: worse, blue: "
    "better, hollow: a tie or not resolved. Linear up to ± 10 %, logarithmic beyond."
)
AXES = {
    "position": "Positions",
    "norm": "Norm",
    "heads": "Heads",
    "scale": "√d scaling",
    "smoothing": "Label smoothing",
    "recurrent": "RNN instead",
}
"""What a claim's id begins with, and what its axis is called."""
MOST = 6  # rows of an axis
LINEAR = 10.0  # per cent
TICKS = (-100, -30, -10, 0, 10, 30, 100, 300, 1000)


def panels(evidence: Evidence) -> list[Panel]:
    rows = [row for axis in AXES for row in _rows(evidence, axis)]
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    return [
        Panel(
            kind="overview", ablation=None, frame=frame, plot=plot,
            title="Change one piece of a transformer and train it again",
            subtitle="change of the score, in per cent of the baseline's",
            note=f"{canvas.counted(frame)}; the {MOST} largest differences of each axis",
            size=(8.0, 1.3 + 0.19 * len(frame)),
        )
    ]  # fmt: skip


def _rows(evidence: Evidence, axis: str) -> list[dict[str, Any]]:
    """The largest differences of the questions about an axis, a variant of a task once."""
    known = evidence.loaded.ablations
    about = [
        name
        for name, entry in known.items()
        if any(claim["id"].split(".")[0] == axis for claim in entry["claims"])
    ]
    frame = evidence.contrasts
    is_shown = frame["ablation"].isin(about) & frame["trained"] & (frame["n"] >= canvas.LEAST)
    shown = frame[is_shown & (frame["control_mean"] > 0)]
    rows = []
    for row in listed(shown):
        share = 100 / row["control_mean"]
        told = {key: row[key] for key in ("ablation", "task", "label", "across", "control", "n",
                                          "planned", "mark", "metric_label")}  # fmt: skip
        told |= {"value": share * row["difference"], "axis": AXES[axis]}
        told |= {"low": share * row["low"], "high": share * row["high"]}
        told["points"] = [share * each for each in row["differences"]]
        name = f"{row['name']}, {row['metric_label']}"
        rows.append({**told, "name": name, "lost": []})
    rows.sort(key=lambda row: -abs(row["value"]))
    once = {(row["name"], row["task"]): row for row in reversed(rows)}
    return sorted(once.values(), key=lambda row: -abs(row["value"]))[:MOST]


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`axis`, `name`, `value`, `low`, `high`, `points`, `mark`: a row each, shaded by axis."""
    import seaborn as sns

    ends = [
        *frame["value"],
        *frame["low"],
        *frame["high"],
        *(x for p in frame["points"] for x in p),
    ]
    low, high = min([*ends, -LINEAR]), max([*ends, LINEAR])
    ax.set_xscale("symlog", linthresh=LINEAR)
    ax.set_xlim(1.4 * low, 2.5 * high)
    ax.grid(axis="x")
    ax.axvline(0, color=style.INK, linewidth=1.0, zorder=2)
    seeds = [
        {"x": x, "y": y + 0.27, "mark": row["mark"]}
        for y, row in enumerate(listed(frame))
        for x in row["points"]
    ]
    sns.scatterplot(
        data=pd.DataFrame(seeds), x="x", y="y", hue="mark", s=9, alpha=0.75, linewidth=0, ax=ax,
        palette={mark: COLOURS.get(mark, style.TIE) for mark in set(frame["mark"])},
        legend=False, zorder=3,
    )  # fmt: skip
    for y, row in enumerate(listed(frame)):
        colour = COLOURS.get(row["mark"], style.TIE)
        face = colour if row["mark"] in COLOURS else "white"
        ax.plot([row["low"], row["high"]], [y, y], color=colour, lw=style.BAR, zorder=4)
        ax.plot(row["value"], y, "o", ms=style.MEAN, mew=1.0, color=colour, mfc=face, zorder=5)
        if row["mark"] in COLOURS or row["mark"] == "tie":
            words = "= tie" if row["mark"] == "tie" else f"{row['value']:+.0f} %"
            at = (max(row["high"], *row["points"]), y)
            ax.annotate(words.replace("-", "−"), at, (5, 0), textcoords="offset points",
                        va="center", size=style.NOTE, color=colour)  # fmt: skip
    top = 0
    for i, (axis, own) in enumerate(frame.groupby("axis", sort=False)):
        if i % 2 == 0:
            ax.axhspan(top - 0.5, top + len(own) - 0.5, color=style.BAND, linewidth=0, zorder=0)
        control = "; ".join(dict.fromkeys(own["control"]))
        words = f"{axis}\n" if len(own) > 1 else f"{axis}: "
        ax.text(1.05, top - 0.3, f"{words}baseline: {canvas.cut(control, 30)}", va="top", linespacing=1.4,
                transform=ax.get_yaxis_transform(), size=style.TICK)  # fmt: skip
        top += len(own)
    shown = [tick for tick in TICKS if ax.get_xlim()[0] <= tick <= ax.get_xlim()[1]]
    ax.set_xticks(shown, [canvas.signed(tick) for tick in shown])
    ax.set_xticks([], minor=True)
    ax.set_yticks(range(len(frame)), [canvas.cut(name, 46) for name in frame["name"]])
    ax.tick_params(axis="y", labelcolor=style.INK)
    ax.set_ylim(len(frame) - 0.5, -0.5)
    ax.set(xlabel="per cent; linear to ± 10, logarithmic beyond", ylabel="")
    return ax
