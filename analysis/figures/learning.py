"""How the loss on validation data falls while a model is trained."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ablations.store.schema import FAILED
from analysis import lines, spread
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name
from analysis.units import after_heading

CAPTION = (
    "Learning curves: the loss on validation data, unsmoothed, after so many steps. Line: mean "
    "over the seeds that ended well; band: 95 % interval (Student's t) from three of them on; "
    "faint: single seeds; a cross: where a seed that failed ended, or on top. The loss before the "
    "first step may lie above the axis."
)
MARGINS = lines.MARGINS
ARM = ["ablation", "label", "across"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing that was trained."""
    frame = spread.over_seeds(_points(evidence), ARM)
    found = lines.by(with_looks(frame, evidence), "ablation", "across")
    return [panel for panel in found if panel["value"].notna().any()]


def _points(evidence: Evidence) -> pd.DataFrame:
    """The validation loss of every trial; one that broke down before it had any has no number."""
    frame = evidence.loaded.readings
    told = (frame["metric"] == "loss") & (frame["split"] == "valid") & frame["step"].notna()
    rows = []
    for row in listed(frame[told]):
        value = math.nan if row["value"] is None else float(row["value"])
        rows.append({**{name: row[name] for name in (*ARM, "seed", "status", "unit")},
                     "x": float(row["step"]), "value": value})  # fmt: skip
    seen = {tuple(row[name] for name in (*ARM, "seed")) for row in rows}
    for cell in listed(evidence.loaded.cells):
        if cell["outcome"] in FAILED and tuple(cell[name] for name in (*ARM, "seed")) not in seen:
            rows.append({**{name: cell[name] for name in (*ARM, "seed")}, "unit": "",
                         "status": cell["outcome"], "x": 0.0, "value": math.nan})  # fmt: skip
    points = pd.DataFrame(rows, columns=[*ARM, "seed", "status", "unit", "x", "value"])
    points["name"] = [cell_name(row["label"], row["across"]) for row in listed(points)]
    points["place"] = [f"step {x:g}" for x in points["x"]]
    return points


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    scales = lines.Scales("linear", "log" if _is_wide(frame) else "linear", _written)
    spread.begin(frame, ax, scales)
    past_start = frame[frame["x"] > 0]
    if past_start["value"].notna().any():
        ax.set_ylim(*spread.limits(past_start, scales.y == "log"))
    spread.bands(frame, ax)
    spread.finish(frame, ax, scales)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel("steps", labelpad=1)
    first = frame[frame["unit"] != ""].iloc[0]
    title = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, title, "loss on validation data" + after_heading(first["unit"]))
    return ax


def _is_wide(frame: pd.DataFrame) -> bool:
    """Whether the means span a decade, past the start."""
    mean = frame[(frame["mark"] == spread.MEAN) & (frame["x"] > 0)]["value"]
    return bool(len(mean) and mean.min() > 0 and mean.max() > 10 * mean.min())


def _written(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def describe(frames: list[pd.DataFrame]) -> str:
    return "Learning curves: validation loss by step. " + spread.told(
        frames, lambda frame: f"{frame['ablation'].iloc[0]}"
    )
