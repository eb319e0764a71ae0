"""Whether a model is right as often as it is sure to be: accuracy against confidence, by bin."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import insets, lines, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name, short
from analysis.scores import FINE
from analysis.sentences import number

CAPTION = (
    "How often single labels are right (up) against how sure the model was of them (across), by "
    "bins of confidence; below the diagonal it is too sure. Marks: all seeds together; thin lines: "
    "single seeds; bins of fewer than twenty labels are left out. Below: the share of labels in "
    "each bin. Error: the mean distance from the diagonal, over labels; mean over seeds."
)
MARGINS = style.Margins(left=0.32, right=0.08, above=0.32, below=0.36)
ACROSS = 3  # arms beside each other
GAP, OVER, BETWEEN = 0.14, 0.27, 0.3  # inches: across, for two lines over each, down
TALL, APART = 0.26, 0.05  # inches: of the histogram, and between it and its diagram
HINTED = 0.03  # inches by which letters on a screen may be wider than measured
FEWEST = 20  # labels, for a bin to be shown
TRIAL = ["ablation", "label", "across", "seed"]
BIN = ["lower", "upper", "confidence", "accuracy", "count"]
COLUMNS = [*TRIAL, "name", "error", *BIN]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing; a row for each seed and bin, the control first."""
    frame = evidence.loaded.readings
    shown = frame[
        (frame["metric"] == "reliability") & frame["values"].notna() & (frame["status"] == FINE)
    ]
    shown = shown.drop_duplicates(TRIAL, keep="last")
    errors = frame[frame["metric"] == "calibration_error"].drop_duplicates("trial", keep="last")
    known = dict(zip(errors["trial"], errors["value"], strict=True))
    rows = [
        {
            **{name: row[name] for name in TRIAL},
            "name": cell_name(row["label"], row["across"]),
            "error": known.get(row["trial"], math.nan),
            **dict(zip(BIN, (math.nan if v is None else v for v in each), strict=True)),
        }
        for row in listed(shown)
        for each in row["values"]
    ]
    whole = with_looks(pd.DataFrame(rows, columns=COLUMNS), evidence)
    return [panel.copy() for _, panel in whole.groupby(["ablation", "across"], sort=False)]


def inches(frame: pd.DataFrame) -> float:
    rows = math.ceil(frame["label"].nunique() / ACROSS)
    side = _side(style.WIDTH - MARGINS.left - MARGINS.right, frame["label"].nunique())
    return MARGINS.above + rows * _each(side) + (rows - 1) * BETWEEN + MARGINS.below


def _side(room: float, count: int) -> float:
    """Of a diagram, in inches: one is as large as two."""
    across = min(max(2, count), ACROSS)
    return (room - GAP * (across - 1)) / across


def _each(side: float) -> float:
    return OVER + side + APART + TALL


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    ax.set_axis_off()
    room, _ = insets.size(ax)
    labels = list(dict.fromkeys(frame["label"]))
    side = _side(room, len(labels))
    for index, label in enumerate(labels):
        row, column = divmod(index, ACROSS)
        left, top = column * (side + GAP), OVER + row * (_each(side) + BETWEEN)
        own = frame[frame["label"] == label]
        diagram = insets.place(ax, left, top, side, side)
        _diagram(diagram, own, beside=column == 0)
        below = index + ACROSS >= len(labels)
        _histogram(insets.place(ax, left, top + side + APART, side, TALL), own, below)
        insets.title(diagram, str(label), side - HINTED, above=9)
        mean = own.groupby("seed")["error"].first().mean()
        insets.title(diagram, f"error {number(mean) or 'unknown'}", side, quiet=True)
    first = frame.iloc[0]
    words = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, words, "accuracy by confidence, of single labels in test")
    low = -72 * (MARGINS.below - 0.1)
    ax.annotate(
        "confidence", (0.5, 0), xycoords="axes fraction", xytext=(0, low), ha="center",
        textcoords="offset points", size=style.BODY, annotation_clip=False,
    )  # fmt: skip
    return ax


def _diagram(ax: Axes, own: pd.DataFrame, beside: bool) -> None:
    look = own.iloc[0]
    ax.plot([0, 1], [0, 1], color=style.INK, linewidth=0.6, zorder=0)
    for _, seed in own[own["count"] >= FEWEST].groupby("seed", sort=False):
        ax.plot(seed["confidence"], seed["accuracy"], color=look["colour"], lw=0.5, alpha=0.5)
    whole = pooled(own)
    ax.plot(
        whole["confidence"], whole["accuracy"], color=look["colour"], marker=look["marker"],
        markersize=3.2, markeredgewidth=0, linewidth=1.0,
    )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_xticks([0, 0.5, 1], [""] * 3)
    ax.set_yticks([0, 0.5, 1], ["0", "½", "1"] if beside else [""] * 3)


def pooled(own: pd.DataFrame) -> pd.DataFrame:
    """The bins of all seeds together, without those of too few labels."""
    known = own[own["count"] > 0]
    weighted = known.assign(
        confidence=known["confidence"] * known["count"], accuracy=known["accuracy"] * known["count"]
    )
    sums = weighted.groupby("lower")[["confidence", "accuracy", "count"]].sum()
    sums = sums[sums["count"] >= FEWEST]
    return sums.assign(
        confidence=sums["confidence"] / sums["count"], accuracy=sums["accuracy"] / sums["count"]
    )


def _histogram(ax: Axes, own: pd.DataFrame, below: bool) -> None:
    counts = own.groupby(["lower", "upper"])["count"].sum().reset_index()
    shares = counts["count"] / counts["count"].sum()
    widths = counts["upper"] - counts["lower"]
    ax.bar(
        counts["lower"], shares, width=widths, align="edge", color=own["colour"].iloc[0],
        edgecolor="white", linewidth=0.3,
    )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, float(np.max(shares)) * 1.08))
    ax.set_yticks([])
    ax.set_xticks([0, 0.5, 1], ["0", "½", "1"] if below else [""] * 3)


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        for name, own in frame.groupby("name", sort=False):
            error = own.groupby("seed")["error"].first().mean()
            parts.append(
                f"{_whose(own)} {short(str(name))}: {_leaning(own)}, error {number(error)}."
            )
    return "Accuracy against confidence. " + " ".join(parts)


def _whose(own: pd.DataFrame) -> str:
    return f"{short(str(own['ablation'].iloc[0]))},"


def _leaning(own: pd.DataFrame) -> str:
    """On the whole: more sure than right, or less."""
    known = own[own["count"] > 0]
    gap = float(((known["confidence"] - known["accuracy"]) * known["count"]).sum())
    gap /= float(known["count"].sum()) or math.nan
    return f"{'too sure' if gap > 0 else 'not sure enough'} by {number(abs(gap))} on average"
