"""How sure a model is against how often it is right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis.contrasts import Evidence
from analysis.load import listed
from analysis.names import cell_name
from analysis.plots import canvas, style
from analysis.plots.canvas import FACET, Panel
from analysis.scores import FINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "How often single labels are right (up) against how sure the model was (across), by bins of "
    "confidence; below the diagonal it is too sure. Marks: all seeds; thin: single seeds; grey: "
    "share of the labels."
)
FEWEST = 20  # labels, for a bin to be shown
TRIAL = ["ablation", "label", "across", "seed"]
BIN = ["lower", "upper", "confidence", "accuracy", "count"]


def panels(evidence: Evidence) -> list[Panel]:
    frame = evidence.loaded.readings
    shown = frame[(frame["metric"] == "reliability") & frame["values"].notna()]
    shown = shown[shown["status"] == FINE].drop_duplicates(TRIAL, keep="last")
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
    found = []
    whole = pd.DataFrame(rows, columns=[*TRIAL, "name", "error", *BIN])
    for (name, across), own in whole.groupby(["ablation", "across"], sort=False):
        drawn = canvas.dressed(own.reset_index(drop=True), evidence)
        drawn = drawn.assign(value=drawn["accuracy"], **{FACET: drawn["label"]})
        errors = own.drop_duplicates(TRIAL).groupby("label", sort=False)["error"].mean()
        told = ", ".join(f"{canvas.cut(k, 20)} {v:.3g}" for k, v in errors.items())
        across_ = canvas.abreast(own["label"].nunique())
        rows_ = math.ceil(own["label"].nunique() / across_)
        found.append(
            Panel(
                kind="calibration", ablation=str(name), frame=drawn, plot=plot,
                title=canvas.heading(name, across, "accuracy by confidence"),
                subtitle="of single labels in test",
                note=f"calibration error, mean over seeds: {told}",
                size=(style.WIDTH, 1.1 + rows_ * (2.9 / across_ + 0.25)),
            )
        )  # fmt: skip
    return found


def pooled(own: pd.DataFrame) -> pd.DataFrame:
    """The bins of all seeds together, without those of too few labels."""
    known = own[own["count"] > 0]
    sums = known.assign(
        confidence=known["confidence"] * known["count"], accuracy=known["accuracy"] * known["count"]
    ).groupby("lower")[["confidence", "accuracy", "count"]]
    sums = sums.sum()
    sums = sums[sums["count"] >= FEWEST]
    return sums.assign(
        confidence=sums["confidence"] / sums["count"], accuracy=sums["accuracy"] / sums["count"]
    )


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`seed`, `lower`, `upper`, `confidence`, `accuracy`, `count`: of one variant."""
    import seaborn as sns

    first = frame.iloc[0]
    counts = frame.groupby(["lower", "upper"])["count"].sum().reset_index()
    ax.bar(
        counts["lower"], counts["count"] / counts["count"].sum(), align="edge", color=style.RULE,
        width=counts["upper"] - counts["lower"], linewidth=0.3, edgecolor="white", zorder=0,
    )  # fmt: skip
    ax.plot([0, 1], [0, 1], color=style.TEXT, linewidth=0.7, ls=":", zorder=1)
    sns.lineplot(
        data=frame[frame["count"] >= FEWEST], x="confidence", y="accuracy", units="seed",
        estimator=None, errorbar=None, color=first["colour"], linewidth=0.5, alpha=0.5, ax=ax,
    )  # fmt: skip
    whole = pooled(frame)
    ax.plot(whole["confidence"], whole["accuracy"], color=first["colour"], lw=1.2,
            marker=first["marker"], ms=3.4, mew=0)  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="", xlabel="confidence")
    ax.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    ax.set_yticks([0, 0.5, 1], ["0", "½", "1"])
    return ax
