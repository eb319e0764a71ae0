"""What a variant scored, seed by seed: one metric at one place, of trials that ended well."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import stats
from analysis.load import FINE as FINE
from analysis.load import Loaded, place


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
    frame = loaded.readings.iloc[loaded.rows.get((ablation, metric), [])]
    own = frame[
        ((frame["split"] == split) | frame["split"].isna())
        & (frame["place"] == place(at))
        & frame["status"].isin(ended)
        & frame["session"].isna()
    ]
    last = own.sort_values("step", kind="stable", na_position="last")
    last = last.drop_duplicates(["label", "across", "seed"], keep="last").sort_index()
    return last[last["value"].notna()]


def scores(
    loaded: Loaded,
    ablation: str,
    label: str,
    across: str,
    metric: str,
    split: str,
    at: Mapping[str, Any],
    step: float | None = None,
) -> dict[int, float]:
    """Seed → what one variant scored in the end, or at a step."""
    found: dict[int, float] = {}
    for part in (None, split):  # a number may belong to no part of the data
        key = ablation, label, across, metric, part, place(at)
        for seed, by_step in loaded.scores.get(key, {}).items():
            value = by_step[max(by_step)] if step is None else by_step.get(step, math.nan)
            if value == value:
                found[seed] = float(value)
    return found


def outcomes(loaded: Loaded, ablation: str, label: str, across: str) -> dict[int, str]:
    """Seed → how its trial ended, of those that have."""
    return loaded.outcomes.get((ablation, label, across), {})


def curves(loaded: Loaded, ablation: str, label: str, across: str) -> dict[int, pd.Series]:
    """Seed → validation loss by step."""
    held = loaded.scores.get((ablation, label, across, "loss", "valid", ""), {})
    by_seed = {
        seed: pd.Series({x: y for x, y in by_step.items() if x < math.inf and y == y}, dtype=float)
        for seed, by_step in held.items()
    }
    return {seed: curve.sort_index() for seed, curve in by_seed.items() if len(curve)}


def steps_to_reach(
    loaded: Loaded, ablation: str, label: str, across: str, level: float
) -> dict[int, float]:
    """Seed → the first evaluation at which the validation loss is at most this; inf if none is.

    A seed that failed never arrived.
    """
    arrived = dict.fromkeys(outcomes(loaded, ablation, label, across), math.inf)
    for seed, curve in curves(loaded, ablation, label, across).items():
        past = curve.index[curve <= level]
        arrived[seed] = float(past[0]) if len(past) else math.inf
    return arrived


def difference(
    loaded: Loaded,
    ablation: str,
    pair: tuple[str, str],
    across: str,
    metric: str,
    split: str,
    at: Mapping[str, Any],
    seeds: Sequence[int],
) -> stats.Estimate | stats.SeedAndItemEstimate:
    """The mean of variant − control over these seeds, which both have.

    Where scores are stored item by item, its error counts the test items as well as the seeds.
    """
    sides = [scores(loaded, ablation, label, across, metric, split, at) for label in pair]
    values = [[side[seed] for seed in seeds] for side in sides]
    found = stats.paired_mean(*values)
    if not found.error > 0 or at or split != "test":
        return found
    items = [
        _items(loaded.records[loaded.trials[ablation, label, across][seed]].items.get(metric), mean)
        for label, side in zip(pair, values, strict=True)
        for seed, mean in zip(seeds, side, strict=True)
    ]
    known = [each for each in items if each is not None]
    if len(known) < len(items) or len({each.size for each in known}) != 1:
        return found
    one, two = np.array(known[: len(seeds)]), np.array(known[len(seeds) :])
    return stats.seeds_and_items(one - two)


def _items(counts: list[float | None] | None, score: float) -> NDArray[np.float64] | None:
    """What each test item adds to the score, of which it is the mean."""
    if not counts or None in counts:
        return None
    errors = np.array(counts, dtype=np.float64)
    mean = float(errors.mean())
    return errors * (score / mean) if mean else errors
