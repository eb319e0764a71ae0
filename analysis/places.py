"""What was read off models at several places along a coordinate: mean, interval, single seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis import stats
from analysis.contrasts import Evidence
from analysis.curves import walked
from analysis.load import FINE, listed
from analysis.names import cell_name

CELL = ["ablation", "label", "across", "metric", "unit"]
PANEL = ["ablation", "across", "metric", "split", "along", "series"]
PLACE = [*PANEL, "label", "x"]
COLUMNS = [*PLACE, "unit", "name", "heading", "value", "low", "high", "n", "seeds", "reason"]


def points(evidence: Evidence, coordinates: Sequence[str]) -> pd.DataFrame:
    """One row for each place of a curve, of trials that ended well: where a seed has no number,
    there is no mean of the others either, but why."""
    seen = pd.DataFrame(
        _readings(evidence, coordinates),
        columns=[*PLACE, "unit", "seed", "step", "value", "reason"],
    )
    seen = seen.sort_values("step", kind="stable").drop_duplicates([*PLACE, "seed"], keep="last")
    rows = []
    for _, own in seen.sort_index().groupby(PLACE, sort=False):
        first, lost = own.iloc[0], own[own["value"].isna()]
        mean = stats.mean_of(own["value"].to_numpy(float))
        low, high = mean.ends() if mean.n >= stats.LEAST else (math.nan, math.nan)
        rows.append(
            {
                **first[[*PLACE, "unit"]].to_dict(),
                "name": cell_name(first["label"], first["across"]),
                "heading": heading(evidence, first["ablation"], first["metric"]),
                **{"value": mean.value, "low": low, "high": high, "n": mean.n},
                "seeds": own["value"].dropna().tolist(),
                "reason": "" if lost.empty else str(lost["reason"].iloc[0]),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def heading(evidence: Evidence, ablation: str, metric: str) -> str:
    """What a metric is called where a question is told."""
    known = evidence.loaded.ablations[ablation]["metrics"].get(metric, {})
    return known.get("label") or metric.replace("_", " ")


def _readings(evidence: Evidence, coordinates: Sequence[str]) -> list[dict[str, Any]]:
    """Every number that was neither timed nor is one of an array, at such a place."""
    frame = evidence.loaded.readings
    single = frame["values"].isna() & frame["samples"].isna() & frame["session"].isna()
    placed = frame[[name for name in coordinates if name in frame]].notna().any(axis=1)
    found = []
    for row in listed(frame[single & placed & (frame["status"] == FINE)]):
        at = {name: value for name, value in row["at"].items() if name != "step"}
        told = {k: f"{k}: {v}" if isinstance(v, str) else v for k, v in at.items()}
        place = walked(told, coordinates)
        if place is None or isinstance(place["x"], str):
            continue
        own = {name: row[name] for name in (*CELL, "seed", "reason", "value")}
        split = row["split"] if isinstance(row["split"], str) else ""
        step = row["at"].get("step", math.inf)
        found.append({**own, **place, "split": split, "step": step})
    return found
