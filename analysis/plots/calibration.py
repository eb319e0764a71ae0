"""Reliability diagrams: accuracy by confidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis.contrasts import Evidence
from analysis.load import FINE, VARIANT
from analysis.plots import canvas, style
from analysis.plots.canvas import FACET, Panel
from analysis.wording import variant_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 20  # labels, for a bin to be shown
TRIAL = [*VARIANT, "seed"]
BIN = ["lower", "upper", "confidence", "accuracy", "count"]


def panels(evidence: Evidence) -> list[Panel]:
    frame = evidence.loaded.measurements
    shown = frame[(frame["metric"] == "reliability") & frame["values"].notna()]
    shown = shown[shown["status"] == FINE].drop_duplicates(TRIAL, keep="last")
    errors = frame[frame["metric"] == "calibration_error"].drop_duplicates("trial", keep="last")
    known = errors.set_index("trial")["value"]
    rows = [
        {
            **{key: row[key] for key in TRIAL},
            "name": variant_name(row["variant"], row["factors"]),
            "error": known.get(row["trial"], math.nan),
            **dict(zip(BIN, (math.nan if v is None else v for v in each), strict=True)),
        }
        for row in shown.to_dict("records")
        for each in row["values"]
    ]
    found = []
    whole = pd.DataFrame(rows, columns=[*TRIAL, "name", "error", *BIN])
    for (name, across), own in whole.groupby(["experiment", "factors"], sort=False):
        drawn = canvas.dressed(own.reset_index(drop=True), evidence)
        drawn = drawn.assign(value=drawn["accuracy"], **{FACET: drawn["variant"]})
        means = own.drop_duplicates(TRIAL).groupby("variant", sort=False)["error"].mean()
        columns = canvas.abreast(len(means))
        found.append(
            Panel(
                kind="calibration", experiment=str(name), frame=drawn, plot=plot,
                title=canvas.heading(name, across, "accuracy by confidence"),
                subtitle="of single labels in test",
                note="calibration error, mean over seeds: "
                + ", ".join(f"{canvas.cut(label, 20)} {mean:.3g}" for label, mean in means.items()),
                size=(style.WIDTH, 1.1 + math.ceil(len(means) / columns) * (2.9 / columns + 0.25)),
            )
        )  # fmt: skip
    return found


def pooled(own: pd.DataFrame) -> pd.DataFrame:
    """The bins of all seeds together, without bins of too few labels."""
    known = own[own["count"] > 0]
    weighted = known[["confidence", "accuracy"]].mul(known["count"], axis=0)
    sums = weighted.assign(count=known["count"]).groupby(known["lower"]).sum()
    sums = sums[sums["count"] >= FEWEST]
    shares = sums[["confidence", "accuracy"]].div(sums["count"], axis=0)
    return shares.assign(count=sums["count"])


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
