"""What an arm scored, seed by seed: one metric at one place, of trials that ended well."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.load import READING, WAITING, Loaded

FINE = "ok"


def final_readings(
    loaded: Loaded,
    ablation: str,
    metric: str,
    split: str,
    at: Mapping[str, Any],
    ended: Collection[str] = (FINE,),
) -> pd.DataFrame:
    """A metric at the last step of each trial that ended so; a null there is no score.

    A score at other coordinates (a longer input, one bucket) is another measurement: those in `at`
    must be there, and no others.
    """
    frame = loaded.readings
    mine = frame[
        (frame["ablation"] == ablation)
        & frame["status"].isin(ended)
        & (frame["metric"] == metric)
        & (frame["split"].isna() | (frame["split"] == split))
    ]
    if set(at) - set(frame.columns):
        return mine.iloc[:0]
    for name in frame.columns.difference(READING):
        there = mine[name] == at[name] if name in at else mine[name].isna()
        mine = mine[there]
    order = pd.to_numeric(mine["step"]).fillna(math.inf).sort_values(kind="stable").index
    last = mine.loc[order].groupby(["label", "across", "seed"], sort=False).tail(1)
    return last[last["value"].notna()]


def scores(
    loaded: Loaded,
    ablation: str,
    label: str,
    across: str,
    metric: str,
    split: str,
    at: Mapping[str, Any],
) -> dict[Any, float]:
    """Seed → what one arm scored in the end."""
    final = final_readings(loaded, ablation, metric, split, at)
    own = final[(final["label"] == label) & (final["across"] == across)]
    return dict(zip(own["seed"], own["value"].astype(float), strict=True))


def outcomes(loaded: Loaded, ablation: str, label: str, across: str) -> dict[Any, str]:
    """Seed → how its trial ended, of those that have."""
    mine = _own(loaded.cells, ablation, label, across)
    ended = mine[mine["outcome"] != WAITING]
    return dict(zip(ended["seed"], ended["outcome"], strict=True))


def _own(frame: pd.DataFrame, ablation: str, label: str, across: str) -> pd.DataFrame:
    """The rows of one arm."""
    is_own = (frame["ablation"] == ablation) & (frame["label"] == label)
    return frame[is_own & (frame["across"] == across)]


def curves(loaded: Loaded, ablation: str, label: str, across: str) -> dict[Any, pd.Series]:
    """Seed → validation loss by step, of trials that ended well."""
    own = _own(loaded.readings, ablation, label, across)
    mine = own[
        (own["status"] == FINE)
        & (own["metric"] == "loss")
        & (own["split"] == "valid")
        & own["value"].notna()
        & own["step"].notna()
    ]
    return {
        seed: pd.Series(
            own["value"].astype(float).to_numpy(), index=own["step"].astype(float).to_numpy()
        ).sort_index()
        for seed, own in mine.groupby("seed", sort=False)
    }


def steps_to_reach(
    loaded: Loaded, ablation: str, label: str, across: str, level: float
) -> dict[Any, float]:
    """Seed → the first evaluation at which the validation loss is at most this; inf if none is.

    A seed that failed never arrived.
    """
    ended = outcomes(loaded, ablation, label, across)
    arrived = dict.fromkeys(ended, math.inf)
    for seed, curve in curves(loaded, ablation, label, across).items():
        past = curve.index[curve <= level]
        arrived[seed] = float(past[0]) if len(past) else math.inf
    return arrived


def errors_by_item(
    loaded: Loaded, ablation: str, label: str, across: str, metric: str
) -> dict[Any, NDArray[np.float64]]:
    """Seed → what each test item adds to the score, of which it is the mean."""
    mine = _own(loaded.cells, ablation, label, across)
    mine = mine[mine["outcome"] == FINE]
    found = {}
    held = scores(loaded, ablation, label, across, metric, "test", {})
    for seed, trial in zip(mine["seed"], mine["trial"], strict=True):
        items = loaded.records[trial].items.get(metric)
        if seed not in held or not items or None in items:
            continue
        errors = np.array(items, dtype=np.float64)
        mean = float(errors.mean())
        found[seed] = errors * (held[seed] / mean) if mean else errors
    return found
