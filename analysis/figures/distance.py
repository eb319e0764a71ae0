"""How well a model recalls what it has read, by how far back that stands: every seed by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ablations.store.record import TRAINED
from ablations.store.schema import FAILED
from analysis import lines, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import crossing, listed
from analysis.names import cell_name, short
from analysis.scores import FINE

CAPTION = (
    "Share of questions that are answered right, by the distance of what is asked for. A mark a "
    "seed; short bar: the median, since seeds may end in one of two basins and their mean in "
    "neither; cross: a seed that is stuck or failed, at the foot where it has no score: the median "
    "counts it as nothing. Dotted: what an answer without looking gets; dashed: what claims count "
    "as recalling."
)
MARGINS = lines.MARGINS
FACTOR = "distance"
ROOM = 0.72  # of the way to the next distance, for the arms of one
BROKEN = (*TRAINED[1:], *FAILED)
COLUMNS = [
    *("ablation", "label", "rest", "name", "seed", "x", "value", "status", "chance", "marks"),
]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question that is crossed with the distance, and for its other crossings."""
    rows = [row for name in evidence.loaded.ablations for row in _rows(evidence, name)]
    frame = with_looks(pd.DataFrame(rows, columns=COLUMNS), evidence)
    return lines.by(frame, "ablation", "rest")


def _rows(evidence: Evidence, name: str) -> list[dict[str, Any]]:
    entry = evidence.loaded.ablations[name]
    crossings = {crossing(cell["across"]): cell["across"] for cell in entry["cells"]}
    if not any(FACTOR in across for across in crossings.values()):
        return []
    metric = entry["metric"]
    frame = evidence.loaded.readings
    own = frame[(frame["ablation"] == name) & (frame["split"] == metric["split"])]
    chance = own[own["metric"] == f"trivial_{metric['name']}"].groupby("across")["value"].first()
    scored = own[(own["metric"] == metric["name"]) & own["value"].notna()]
    plain = scored[scored["at"].map(lambda at: FACTOR not in at).astype(bool)]
    scores = {
        (row["label"], row["across"], row["seed"]): float(row["value"])
        for row in listed(plain.sort_values("step", kind="stable"))
    }
    marks = sorted({t for claim in entry["claims"] for t in _thresholds(claim)})
    found = []
    cells = evidence.loaded.cells[evidence.loaded.cells["ablation"] == name]
    for cell in listed(cells):
        value = scores.get((cell["label"], cell["across"], cell["seed"]), math.nan)
        if math.isnan(value) and cell["outcome"] not in BROKEN:
            continue  # it has not ended, or its score is still to be taken
        across = crossings[cell["across"]]
        rest = crossing({k: v for k, v in across.items() if k != FACTOR})
        found.append(
            {
                **{key: cell[key] for key in ("ablation", "label", "seed")},
                "status": cell["outcome"],
                "rest": rest,
                "name": cell_name(cell["label"], rest),
                "x": float(across[FACTOR]),
                "value": value,
                "chance": float(chance.get(cell["across"], math.nan)),
                "marks": marks,
            }
        )
    return found


def _thresholds(claim: dict[str, Any]) -> list[float]:
    return [told["threshold"] for told in claim["predicts"] if told["threshold"] is not None]


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    lines.place(frame, ax)
    distances, labels = sorted(set(frame["x"])), list(dict.fromkeys(frame["label"]))
    step = ROOM / len(labels)
    for number, label in enumerate(labels):
        own = frame[frame["label"] == label]
        first = own.iloc[0]
        shift = (number - (len(labels) - 1) / 2) * step
        middles = []
        for place, distance in enumerate(distances):
            here = own[own["x"] == distance].sort_values("seed")
            spread = np.linspace(-0.3, 0.3, len(here)) * step if len(here) > 1 else np.zeros(1)
            for x, row in zip(place + shift + spread, listed(here), strict=False):
                is_fine = row["status"] == FINE
                ax.plot(
                    x, _height(row), marker=row["marker"] if is_fine else "x", linestyle="",
                    markersize=3.2, mew=0 if is_fine else 0.9, alpha=0.75, color=row["colour"],
                )  # fmt: skip
            if len(here):
                middle = float(np.median([_height(row) for row in listed(here)]))
                ends = [place + shift - 0.42 * step, place + shift + 0.42 * step]
                ax.plot(ends, [middle] * 2, color=first["colour"], linewidth=1.4, zorder=3)
                middles.append((place + shift, middle))
        if len(middles) > 1:
            ax.plot(*zip(*middles, strict=True), color=first["colour"], linewidth=0.5, zorder=0)
    _levels(ax, frame)
    ax.set_xlim(-0.5, len(distances) - 0.5)
    ax.set_ylim(-0.04, 1.04)
    ax.set_xticks(range(len(distances)), [f"{distance:g}" for distance in distances])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.spines["left"].set_visible(True)
    ax.tick_params(axis="y", labelsize=style.SMALL)
    ax.set_xlabel("distance, in tokens", labelpad=1)
    lines.legend(frame, ax)
    first = frame.iloc[0]
    words = ", ".join(part for part in (first["ablation"], first["rest"]) if part)
    lines.head(ax, words, "share of questions answered right")
    return ax


def _height(row: dict[str, Any]) -> float:
    return 0.0 if math.isnan(row["value"]) else float(row["value"])


def _levels(ax: Axes, frame: pd.DataFrame) -> None:
    chance = frame["chance"].dropna()
    if len(chance):
        ax.axhline(chance.iloc[0], color=style.QUIET, linewidth=0.7, linestyle=":", zorder=0)
    for mark in frame["marks"].iloc[0]:
        ax.axhline(mark, color=style.QUIET, linewidth=0.6, linestyle=(0, (4, 3)), zorder=0)


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        for (name, x), own in frame.groupby(["name", "x"], sort=False):
            scores = own["value"].dropna()
            seeds = ", ".join(f"{value:.2f}" for value in sorted(scores)) or "no score"
            failed = int((own["status"] != FINE).sum())
            lost = f" ({failed} of {len(own)} failed)" if failed else ""
            parts.append(f"{short(str(name))} at {x:g}: {seeds}{lost}.")
    return "Share answered right by distance, seed by seed. " + " ".join(parts)
