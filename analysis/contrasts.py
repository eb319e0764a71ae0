"""Each variant against its baseline, seed by seed, and the mark of each difference.

A difference is taken over the seeds where both sides were trained to the end with status ok. What
failed is counted and never averaged away.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ablations.store.record import TRAINED
from analysis import stats
from analysis.load import FINE, WAITING, Loaded, Row, Variant, load, scores
from analysis.timing import speeds
from analysis.wording import variant_name

HIGHER, LOWER = "higher", "lower"
"""Of untrained models: a number read off first weights is neither good nor bad."""
DIFFERS = (stats.BETTER, stats.WORSE, HIGHER, LOWER)
COLUMNS = [
    *("experiment", "task", "variant", "factors", "name", "baseline"),
    *("metric", "split", "metric_title", "unit", "better", "trained", "matters"),
    *("parameters", "flops_per_token", "baseline_parameters", "baseline_flops_per_token"),
    *("mean", "mean_low", "mean_high", "mean_n"),
    *("baseline_mean", "baseline_low", "baseline_high", "baseline_n"),
    *("n", "planned", "seeds", "differences", "difference", "low", "high", "sd"),
    *("failures", "baseline_failures", "mark", "note"),
]
Difference = stats.Estimate | stats.SeedAndItemEstimate


@dataclass(frozen=True)
class Evidence:
    """A results folder with its contrasts of scores and of times."""

    loaded: Loaded
    contrasts: pd.DataFrame
    speeds: pd.DataFrame


def gather(root: str | Path) -> Evidence:
    """Read a results folder and compare every variant with its baseline."""
    loaded = load(root)
    return Evidence(loaded, contrasts(loaded), speeds(loaded))


@dataclass(frozen=True)
class Scored:
    """One variant at one level of the factors: its seeds, their outcomes and final scores."""

    key: Variant
    outcomes: dict[int, str]
    """By seed."""
    scores: dict[int, float]
    """By seed, of trials that ended well and have the metric."""
    unit: str
    steps: frozenset[float]
    parameters: float
    flops_per_token: float
    numerics: frozenset[str]
    """What the last digits depend on besides the code."""
    trained: bool
    """Or its numbers are read off first weights."""

    @property
    def name(self) -> str:
        return variant_name(*self.key[1:])

    @property
    def failures(self) -> str:
        """`2 of 3 diverged`, or nothing."""
        counts = Counter(self.outcomes.values())
        failed = [kind for kind in counts if kind not in (FINE, WAITING)]
        return ", ".join(f"{counts[kind]} of {counts.total()} {kind}" for kind in failed)

    @property
    def is_undertrained(self) -> bool:
        """Whether most of its seeds learnt nothing: the budget is too small to compare."""
        ended = [outcome for outcome in self.outcomes.values() if outcome != WAITING]
        return 2 * ended.count("stuck") > len(ended)

    def ended(self, *outcomes: str) -> bool:
        return any(outcome in outcomes for outcome in self.outcomes.values())


def scored(loaded: Loaded, experiment: str) -> list[Scored]:
    """The variants of one experiment in the order of the plan, the baseline among them."""
    cells = loaded.cells[loaded.cells["experiment"] == experiment]
    metric = loaded.experiments[experiment]["metric"]
    final = final_scores(loaded, experiment, metric["name"], metric["split"])
    final = final[final["status"] == FINE]
    by_variant = dict(list(final.groupby(["variant", "factors"], sort=False)))
    found = []
    for (label, across), rows in cells.groupby(["variant", "factors"], sort=False):
        own = by_variant.get((label, across), final[:0])
        units = list(dict.fromkeys(own["unit"]))
        own = own[own["unit"].isin(units[:1])]
        records = [loaded.records[trial] for trial in rows["trial"] if trial in loaded.records]
        found.append(
            Scored(
                key=(experiment, str(label), str(across)),
                outcomes=dict(zip(rows["seed"], rows["outcome"], strict=True)),
                scores=dict(zip(own["seed"], own["value"].astype(float), strict=True)),
                unit=str(units[0]) if units else "",
                steps=frozenset(own["step"].dropna()),
                parameters=float(pd.to_numeric(rows["parameters"]).max()),
                flops_per_token=float(pd.to_numeric(rows["flops_per_token"]).max()),
                numerics=frozenset(rows[rows["outcome"] == FINE]["numerics"].dropna()),
                trained=any(record.trained for record in records),
            )
        )
    return found


def final_scores(loaded: Loaded, experiment: str, metric: str, split: str) -> pd.DataFrame:
    """The final value of a metric in each trial, whatever became of it; a value at other
    coordinates (a longer input, one bucket) is another measurement."""
    final = loaded.final
    is_own = (final["experiment"] == experiment) & (final["metric"] == metric)
    own = final[is_own & final["split"].isin(("", split)) & (final["where"] == "")]
    return own.drop_duplicates(["variant", "factors", "seed"], keep="last")


def contrasts(loaded: Loaded) -> pd.DataFrame:
    """One row per variant and factors, compared with the baseline at the same factors."""
    rows: list[Row] = []
    for name, entry in loaded.experiments.items():
        variants = scored(loaded, name)
        baselines = {each.key[2]: each for each in variants if each.key[1] == entry["baseline"]}
        rows += [
            _contrast(loaded, entry, each, baselines.get(each.key[2]))
            for each in variants
            if each.key[1] != entry["baseline"]
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _contrast(loaded: Loaded, entry: Row, variant: Scored, baseline: Scored | None) -> Row:
    experiment, label, across = variant.key
    metric = entry["metric"]
    held = baseline.scores if baseline and baseline.unit == variant.unit else {}
    seeds = [seed for seed in variant.scores if seed in held]
    pair = variant.key, (experiment, entry["baseline"], across)
    found = difference(loaded, pair, metric["name"], metric["split"], {}, seeds)
    low, high = found.ends()
    matters = metric.get("matters", entry["metrics"].get(metric["name"], {}).get("matters"))
    matters = math.nan if matters is None else float(matters)
    return {
        **{"experiment": experiment, "variant": label, "factors": across, "name": variant.name},
        **{"task": str(entry["task"]), "baseline": str(entry["baseline"])},
        **{key: metric[key] for key in ("split", "better")},
        **{"metric": metric["name"], "metric_title": str(metric["title"]), "matters": matters},
        "trained": variant.trained,
        "unit": variant.unit or (baseline.unit if baseline else ""),
        "parameters": variant.parameters,
        "flops_per_token": variant.flops_per_token,
        **_mean("mean", "mean", variant),
        **_mean("baseline_mean", "baseline", baseline),
        "baseline_parameters": baseline.parameters if baseline else math.nan,
        "baseline_flops_per_token": baseline.flops_per_token if baseline else math.nan,
        "failures": variant.failures,
        "baseline_failures": baseline.failures if baseline else "",
        **{"n": len(seeds), "planned": len(variant.outcomes), "seeds": seeds},
        "differences": [variant.scores[seed] - held[seed] for seed in seeds],
        **{"difference": found.value, "low": low, "high": high, "sd": found.sd},
        "mark": mark(variant, baseline, found, metric["better"], matters),
        "note": _note(variant, baseline, found, low),
    }


def difference(
    loaded: Loaded,
    pair: tuple[Variant, Variant],
    metric: str,
    split: str,
    at: Mapping[str, Any],
    seeds: Sequence[int],
) -> Difference:
    """The mean of variant − baseline over these seeds, which both have.

    Where scores are stored item by item, its error counts the test items as well as the seeds.
    """
    sides = [scores(loaded, variant, metric, split, at) for variant in pair]
    values = [[side[seed] for seed in seeds] for side in sides]
    found = stats.paired_mean(*values)
    if not found.error > 0 or at or split != "test":
        return found
    items = [
        _items(loaded.records[loaded.trials[variant][seed]].per_example.get(metric), mean)
        for variant, side in zip(pair, values, strict=True)
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


def mark(
    variant: Scored, baseline: Scored | None, found: Difference, better: str, matters: float
) -> str:
    """Better or worse where the 95 % interval excludes 0, a tie where it lies within what matters,
    else not resolved."""
    sides = [side for side in (variant, baseline) if side]
    if len(sides) < 2 or any(set(side.outcomes.values()) <= {WAITING} for side in sides):
        return stats.NOT_RUN
    assert baseline is not None
    if baseline.is_undertrained or (found.n == 0 and (variant.failures or baseline.failures)):
        return stats.FAILED
    if found.n == 0:
        return stats.NOT_RUN
    if found.n < stats.LEAST:
        return stats.FEW
    low, high = found.ends()
    word = stats.NOT_RESOLVED
    if low > 0 or high < 0:
        is_better = (high < 0) == (better == "lower")
        word = stats.BETTER if is_better else stats.WORSE
    elif max(-low, high) < matters:
        word = stats.TIE
    # Seeds that broke down are missing because they were bad: what is left flatters that side.
    is_lost, is_baseline_lost = (side.ended(*TRAINED[1:]) for side in (variant, baseline))
    if (is_lost and word in (stats.BETTER, stats.TIE)) or (
        is_baseline_lost and word in (stats.WORSE, stats.TIE)
    ):
        return stats.FAILED
    if word in DIFFERS and not variant.trained:
        return HIGHER if low > 0 else LOWER
    return word


def _mean(name: str, prefix: str, variant: Scored | None) -> Row:
    found = stats.mean_of(list(variant.scores.values()) if variant else [])
    low, high = found.ends()
    return {name: found.value, f"{prefix}_low": low, f"{prefix}_high": high, f"{prefix}_n": found.n}


def _note(variant: Scored, baseline: Scored | None, found: Difference, low: float) -> str:
    notes = []
    if found.n > 1 and math.isnan(low):
        same = "no difference" if found.value == 0 else "the same difference"
        notes.append(f"{same} in every seed, so its spread cannot be estimated")
    finished = sum(outcome == FINE for outcome in variant.outcomes.values())
    if len(variant.scores) < finished:
        missing = finished - len(variant.scores)
        notes.append(f"{missing} of {finished} ok trials have no score from this code")
    if baseline and baseline.is_undertrained:
        notes.append(f"the baseline is undertrained: {baseline.failures}")
    if baseline and variant.scores and baseline.scores:
        if variant.unit != baseline.unit:
            notes.append(f"units differ: {variant.unit} against {baseline.unit}")
        if len(variant.numerics | baseline.numerics) > 1:
            found_in = "; ".join(sorted(variant.numerics | baseline.numerics))
            notes.append(f"trained in different environments: {found_in}")
        if variant.steps != baseline.steps:
            notes.append("variant and baseline were trained for different numbers of steps")
    return "; ".join(notes)
