"""The loss of one label against the right word's probability, smoothed and not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis import lines, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name, short
from analysis.sentences import number

CAPTION = (
    "The training loss of one label against the probability of the right word, the rest spread "
    "evenly over a vocabulary of ten: the formula. Mark: where the loss was found to turn; bar at "
    "the right end: how far it was found to rise from there. A loss that never turns has neither."
)
MARGINS = lines.MARGINS
WORDS = 10  # in the vocabulary of the measure
MOST, SURE = 0.5, 1e-6  # doubt: where the curves begin, and at which the rise is measured
TICKS = {0.5: "0.5", 0.1: "0.9", 0.01: "0.99", 1e-3: "0.999", 1e-4: "0.9999", SURE: "1 − 10⁻⁶"}
COLUMNS = [
    *("ablation", "label", "across", "name", "x", "value", "turning", "rise", "along"),
]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question that looked for the turning point; x is the doubt, 1 − p."""
    frame = evidence.loaded.readings
    rows: list[dict[str, Any]] = []
    turned = frame[(frame["metric"] == "turning_probability") & frame["value"].notna()]
    for row in listed(turned.drop_duplicates(["ablation", "label", "across"])):
        train = evidence.loaded.records[row["trial"]].config.get("train", {})
        doubt = np.geomspace(MOST, SURE, 121)
        own = {name: row[name] for name in ("ablation", "label", "across")}
        rises = frame[(frame["metric"] == "rise") & (frame["trial"] == row["trial"])]["value"]
        own |= {"name": cell_name(row["label"], row["across"]), "turning": float(row["value"])}
        own |= {"rise": float(rises.iloc[0]) if len(rises) else math.nan, "along": "probability"}
        told = loss(doubt, train.get("smoothing", 0.0), train.get("smoothing_over", "all"))
        rows += [
            {**own, "x": x, "value": value}
            for x, value in zip(doubt.tolist(), told.tolist(), strict=True)
        ]
    whole = with_looks(pd.DataFrame(rows, columns=COLUMNS), evidence)
    return lines.by(whole, "ablation", "across")


def loss(doubt: NDArray[np.float64], smoothing: float, over: str) -> NDArray[np.float64]:
    """−(1 − ε') log p − ε' log((1 − p) / (V − 1)), where ε' is what the other words get of ε."""
    others = smoothing if over == "other" else smoothing * (WORDS - 1) / WORDS
    found: NDArray[np.float64] = -(1 - others) * np.log1p(-doubt)
    return found - others * np.log(doubt / (WORDS - 1))


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    import seaborn as sns  # not before something is drawn: it loads pyplot

    lines.place(frame, ax)
    ax.set_xscale("log")
    ax.set_xlim(MOST * 1.3, SURE / 1.6)
    for _, own in frame.groupby("label", sort=False):
        first = own.iloc[0]
        sns.lineplot(
            data=own, x="x", y="value", ax=ax, errorbar=None, legend=False, estimator=None,
            color=first["colour"], linewidth=1.2, linestyle=(0, first["dash"] or ()),
        )  # fmt: skip
        if first["turning"] < 1:
            _turn(ax, own)
    ax.set_xticks(list(TICKS), list(TICKS.values()))
    ax.minorticks_off()
    ax.spines["left"].set_visible(True)
    ax.tick_params(axis="y", labelsize=style.SMALL)
    ax.tick_params(axis="x", labelsize=style.SMALL)
    ax.set_xlabel("probability of the right word", labelpad=1)
    ax.set_ylabel("")
    lines.legend(frame, ax)
    first = frame.iloc[0]
    words = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, words, "training loss of one label (nats)")
    return ax


def _turn(ax: Axes, own: pd.DataFrame) -> None:
    """The measured turning point on its curve, and the measured rise at the end."""
    first = own.iloc[0]
    doubt = 1 - first["turning"]
    least = float(np.interp(-math.log(doubt), -np.log(own["x"].to_numpy()), own["value"]))
    look: dict[str, Any] = {"color": first["colour"], "zorder": 4}
    ax.plot(doubt, least, marker=first["marker"], markersize=4.5, mew=0, linestyle="", **look)
    if not math.isnan(first["rise"]):
        ax.plot([SURE] * 2, [least, least + first["rise"]], linewidth=2.2, alpha=0.45, **look)


def describe(frames: list[pd.DataFrame]) -> str:
    told = [
        f"{short(row['name'])}: {_turned(row)}."
        for frame in frames
        for row in listed(frame.drop_duplicates("name"))
    ]
    return "The loss of one label by its probability. " + " ".join(told)


def _turned(row: dict[str, Any]) -> str:
    if not row["turning"] < 1:
        return "the loss never turns"
    return f"the loss turns at {number(row['turning'])} and rises by {number(row['rise'])} nats"
