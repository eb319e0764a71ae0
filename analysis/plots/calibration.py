"""How sure a model is against how often it is right, and its loss against its score."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name
from analysis.plots import canvas, style
from analysis.plots.canvas import FACET, Panel
from analysis.plots.coordinates import mean_of
from analysis.scores import FINE, final_readings
from analysis.units import after_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "How often single labels are right (up) against how sure the model was (across), by bins of "
    "confidence; below the diagonal it is too sure. Marks: all seeds; thin: single seeds; grey: "
    "share of the labels. Or the score of each seed against its loss in test, which is never "
    "smoothed; thin lines join one seed's; large marks: means with 95 % intervals."
)
FEWEST = 20  # labels, for a bin to be shown
TRIAL = ["ablation", "label", "across", "seed"]
BIN = ["lower", "upper", "confidence", "accuracy", "count"]


def panels(evidence: Evidence) -> list[Panel]:
    return [*_reliability(evidence), *_likelihood(evidence)]


def _reliability(evidence: Evidence) -> list[Panel]:
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
                kind="calibration", ablation=str(name), frame=drawn, plot=plot_reliability,
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


def plot_reliability(frame: pd.DataFrame, ax: Axes) -> Axes:
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


def _likelihood(evidence: Evidence) -> list[Panel]:
    """Score and loss of each seed, of questions that ask how sure a model should be."""
    frame, found = evidence.loaded.readings, []
    for name in dict.fromkeys(frame[frame["metric"] == "calibration_error"]["ablation"]):
        metric = evidence.loaded.ablations[name]["metric"]
        keys = ["ablation", "label", "across", "seed"]
        losses, scores = (
            final_readings(evidence.loaded, name, each, metric["split"], {})[[*keys, "value"]]
            for each in ("loss", metric["name"])
        )
        both = losses.rename(columns={"value": "loss"}).merge(scores, on=keys)
        for across, own in both.groupby("across", sort=False):
            if own["label"].nunique() < 2:
                continue
            told = own.assign(loss=own["loss"].astype(float), value=own["value"].astype(float))
            drawn = canvas.dressed(told.assign(name=told["label"]).reset_index(drop=True), evidence)
            n = drawn.groupby("label")["seed"].size()
            note = canvas.counted(pd.DataFrame({"n": n}))
            found.append(
                Panel(
                    kind="calibration", ablation=str(name), frame=drawn, plot=plot_likelihood,
                    title=canvas.heading(name, across, f"{metric['label']} against loss"),
                    subtitle=metric["label"] + after_heading(metric["unit"]), note=note,
                )
            )  # fmt: skip
    return found


def plot_likelihood(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`label`, `seed`, `loss`, `value`."""
    import seaborn as sns
    from matplotlib.ticker import MaxNLocator

    looks = frame.drop_duplicates("label").set_index("label")
    for _, pair in frame.groupby("seed", sort=False):
        ax.plot(pair["loss"], pair["value"], color=style.TIE, lw=0.5, alpha=0.6, zorder=1)
    sns.scatterplot(
        data=frame, x="loss", y="value", hue="label", palette=looks["colour"].to_dict(), s=9,
        alpha=0.75, linewidth=0, legend=False, ax=ax, zorder=2,
    )  # fmt: skip
    ends: list[dict[str, Any]] = []
    for label, own in frame.groupby("label", sort=False):
        x, y, look = mean_of(own["loss"]), mean_of(own["value"]), looks.loc[label]
        ax.plot([x["low"], x["high"]], [y["value"]] * 2, color=look["colour"], lw=style.BAR)
        ax.plot([x["value"]] * 2, [y["low"], y["high"]], color=look["colour"], lw=style.BAR)
        ax.plot(x["value"], y["value"], marker=look["marker"], ms=style.MEAN, color=look["colour"])
        ends.append({**look.to_dict(), "name": label, "value": y["value"]})
    canvas.scale_values(ax, "", log=False)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    ax.set_xlabel("loss in test (nats/token)")
    canvas.name_lines(ax, pd.DataFrame(ends), 1.6)
    return ax
