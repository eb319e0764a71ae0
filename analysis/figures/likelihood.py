"""Likelihood against error: what smoothing makes worse, beside what it may make better."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import lines, stats, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name, short
from analysis.scores import final_readings
from analysis.sentences import number
from analysis.units import after_heading

CAPTION = (
    "The score of each seed (up) against its loss in test, which is never smoothed (across). Small "
    "marks: single seeds; thin grey lines join those of one seed; large marks: means, with 95 % "
    "intervals (Student's t) in both directions where there are three seeds or more."
)
MARGINS = lines.MARGINS
LOSS = "loss"
CALIBRATED = "calibration_error"  # taken by the questions that ask how sure a model should be
COLUMNS = ["ablation", "label", "across", "name", "seed", "loss", "value", "metric", "unit"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question about smoothing, and for each of its crossings."""
    frame = evidence.loaded.readings
    asked = dict.fromkeys(frame[frame["metric"] == CALIBRATED]["ablation"])
    rows = [row for name in asked for row in _rows(evidence, str(name))]
    whole = with_looks(pd.DataFrame(rows, columns=COLUMNS), evidence)
    found = lines.by(whole, "ablation", "across")
    return [panel for panel in found if panel["label"].nunique() > 1]


def _rows(evidence: Evidence, name: str) -> list[dict[str, Any]]:
    metric = evidence.loaded.ablations[name]["metric"]
    sides = [
        final_readings(evidence.loaded, name, each, metric["split"], {}).set_index(
            ["label", "across", "seed"]
        )
        for each in (LOSS, metric["name"])
    ]
    both = sides[1][sides[1].index.isin(sides[0].index)].reset_index()
    return [
        {
            **{"ablation": name, "label": row["label"], "across": row["across"]},
            "name": cell_name(row["label"], row["across"]),
            "seed": row["seed"],
            "loss": float(sides[0].loc[(row["label"], row["across"], row["seed"]), "value"]),
            "value": float(row["value"]),
            "metric": metric["label"],
            "unit": row["unit"],
        }
        for row in listed(both)
    ]


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    lines.place(frame, ax)
    for _, pair in frame.groupby("seed", sort=False):
        ax.plot(pair["loss"], pair["value"], color=style.QUIET, lw=0.4, alpha=0.5, zorder=0)
    for _, own in frame.groupby("label", sort=False):
        _arm(ax, own)
    ax.set_xlabel("loss in test (nats/token)", labelpad=1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=2))
    ax.margins(0.08)
    ax.spines["left"].set_visible(True)
    ax.tick_params(axis="y", labelsize=style.SMALL)
    lines.legend(frame, ax)
    first = frame.iloc[0]
    words = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, words, first["metric"] + after_heading(first["unit"]))
    return ax


def _arm(ax: Axes, own: pd.DataFrame) -> None:
    first = own.iloc[0]
    look: dict[str, Any] = {"color": first["colour"], "marker": first["marker"], "linestyle": ""}
    ax.plot(own["loss"], own["value"], markersize=2.4, mew=0, alpha=0.5, zorder=1, **look)
    across, up = (stats.mean_of(own[side].to_numpy(float)) for side in ("loss", "value"))
    ax.plot(across.value, up.value, markersize=5.0, mew=0, zorder=3, **look)
    if across.n >= stats.LEAST:
        wide, tall = list(across.ends()), list(up.ends())
        ax.plot(wide, [up.value] * 2, color=first["colour"], linewidth=0.9, zorder=2)
        ax.plot([across.value] * 2, tall, color=first["colour"], linewidth=0.9, zorder=2)


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        for name, own in frame.groupby("name", sort=False):
            loss, value = (math.fsum(own[side]) / len(own) for side in ("loss", "value"))
            first = own.iloc[0]
            told = f"loss {number(loss)}, {first['metric']} {number(value)}, n = {len(own)}"
            parts.append(f"{short(str(first['ablation']))}, {short(str(name))}: {told}.")
    return "Score against loss, means over seeds. " + " ".join(parts)
