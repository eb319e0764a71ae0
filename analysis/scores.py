"""What an arm scored, seed by seed: one metric at one place, of trials that ended well."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.load import Loaded
from analysis.lookup import Scored, lookup, place

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
    arms = lookup(loaded).scores.get((ablation, metric), {})
    rows = [
        score.row
        for by_place in arms.values()
        for score in _last(by_place.get(place(at), []), split, ended).values()
        if score.value is not None
    ]
    return loaded.readings.loc[sorted(rows)]


def _last(held: list[Scored], split: str, ended: Collection[str] = (FINE,)) -> dict[Any, Scored]:
    """Seed → its reading at the last step, of this part of the data or of none."""
    found: dict[Any, Scored] = {}
    for score in held:
        if score.split in (None, split) and score.status in ended:
            before = found.get(score.seed)
            if before is None or score.step >= before.step:
                found[score.seed] = score
    return found


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
    arms = lookup(loaded).scores.get((ablation, metric), {})
    held = arms.get((ablation, label, across), {}).get(place(at), [])
    final = _last(held, split)
    return {seed: score.value for seed, score in final.items() if score.value is not None}


def outcomes(loaded: Loaded, ablation: str, label: str, across: str) -> dict[Any, str]:
    """Seed → how its trial ended, of those that have."""
    return dict(lookup(loaded).ended.get((ablation, label, across), {}))


def curves(loaded: Loaded, ablation: str, label: str, across: str) -> dict[Any, pd.Series]:
    """Seed → validation loss by step, of trials that ended well."""
    arms = lookup(loaded).scores.get((ablation, "loss"), {})
    points: dict[Any, list[tuple[float, float]]] = {}
    for held in arms.get((ablation, label, across), {}).values():
        for score in held:
            is_point = score.split == "valid" and score.step < math.inf
            if is_point and score.status == FINE and score.value is not None:
                points.setdefault(score.seed, []).append((score.step, score.value))
    return {
        seed: pd.Series([y for _, y in own], index=[x for x, _ in own]).sort_index()
        for seed, own in points.items()
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
    found = {}
    held = scores(loaded, ablation, label, across, metric, "test", {})
    for seed, trial in lookup(loaded).trials.get((ablation, label, across), {}).items():
        items = loaded.records[trial].items.get(metric) if seed in held else None
        if not items or None in items:
            continue
        errors = np.array(items, dtype=np.float64)
        mean = float(errors.mean())
        found[seed] = errors * (held[seed] / mean) if mean else errors
    return found
