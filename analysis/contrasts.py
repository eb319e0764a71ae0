"""The scores of each variant, and its difference from the baseline with a mark.

A difference is paired by seed, over the seeds that ended well on both sides. Failed seeds are
counted and never averaged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ablations.store.record import TRAINED
from analysis import stats
from analysis.load import FINE, WAITING, Loaded, Row, Variant, crossing, load, scores
from analysis.timing import speeds
from analysis.wording import variant_name

HIGHER, LOWER = "higher", "lower"
"""Marks for untrained models, whose numbers are neither good nor bad."""
DIFFERS = (stats.BETTER, stats.WORSE, HIGHER, LOWER)
OF_VARIANT = [
    "parameters", "flops_per_token", "mean", "mean_low", "mean_high", "mean_n",
    "failures", "tuned_to",
]  # fmt: skip
"""Columns that a contrast repeats for its baseline, as `baseline_mean` and so on."""
VARIANTS = [
    "experiment", "variant", "factors", "name", "baseline", "task",
    "metric", "split", "metric_title", "unit", "better", "matters",
    *OF_VARIANT,
    "planned", "outcomes", "scores", "steps", "numerics", "trained", "settings", "trial",
]  # fmt: skip
CONTRASTS = [
    *VARIANTS[:12],
    "trained", *OF_VARIANT, *(f"baseline_{name}" for name in OF_VARIANT),
    "n", "planned", "seeds", "differences", "difference", "low", "high", "sd", "mark", "note",
]  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """A results folder with its variants, their contrasts and its ratios of times."""

    loaded: Loaded
    variants: pd.DataFrame
    contrasts: pd.DataFrame
    speeds: pd.DataFrame

    @classmethod
    def of(cls, loaded: Loaded) -> Evidence:
        """Every variant of a folder compared with its baseline."""
        of_each = variants(loaded)
        return cls(loaded, of_each, contrasts(loaded, of_each), speeds(loaded))


def gather(root: str | Path) -> Evidence:
    """Read a results folder and compare every variant with its baseline."""
    return Evidence.of(load(root))


def variants(loaded: Loaded) -> pd.DataFrame:
    """A row for each variant, the baseline included, at each level of the factors."""
    return pd.DataFrame(
        [row for name in loaded.experiments for row in _variants(loaded, name)], columns=VARIANTS
    )


def _variants(loaded: Loaded, experiment: str) -> list[Row]:
    entry = loaded.experiments[experiment]
    metric = entry["metric"]
    matters = metric.get("matters", entry["metrics"].get(metric["name"], {}).get("matters"))
    tuned = {(c["variant"], crossing(c["factors"])): c["tuned"] for c in entry["trials"]}
    shared = {
        **{
            "experiment": experiment,
            "baseline": str(entry["baseline"]),
            "task": str(entry["task"]),
        },
        **{"metric": metric["name"], "metric_title": str(metric["title"])},
        **{"split": metric["split"], "better": metric["better"]},
        "matters": math.nan if matters is None else float(matters),
    }
    final = final_scores(loaded, experiment, metric["name"], metric["split"])
    final = final[final["status"] == FINE]
    by_variant = dict(list(final.groupby(["variant", "factors"], sort=False)))
    trials = loaded.trials[loaded.trials["experiment"] == experiment]
    found = []
    for (label, across), rows in trials.groupby(["variant", "factors"], sort=False):
        own = by_variant.get((label, across), final[:0])
        units = list(dict.fromkeys(own["unit"]))  # scores in another unit do not count
        own = own[own["unit"].isin(units[:1])]
        held = dict(zip(own["seed"], own["value"].astype(float), strict=True))
        records = [loaded.records[trial] for trial in rows["trial"] if trial in loaded.records]
        mean = stats.mean_of(list(held.values()))
        low, high = mean.ends()
        outcomes = dict(zip(rows["seed"], rows["outcome"], strict=True))
        found.append(
            {
                **shared,
                **{"variant": str(label), "factors": str(across)},
                "name": variant_name(str(label), str(across)),
                "unit": str(units[0]) if units else "",
                "parameters": float(pd.to_numeric(rows["parameters"]).max()),
                "flops_per_token": float(pd.to_numeric(rows["flops_per_token"]).max()),
                **{"mean": mean.value, "mean_low": low, "mean_high": high, "mean_n": mean.n},
                **{"outcomes": outcomes, "scores": held, "planned": len(outcomes)},
                "failures": failures(outcomes.values()),
                "steps": frozenset(own["step"].dropna()),
                "numerics": frozenset(rows[rows["outcome"] == FINE]["numerics"].dropna()),
                "trained": any(record.trained for record in records),
                "tuned_to": tuned.get((label, across), {}),
                **{"settings": rows["settings"].iloc[0], "trial": rows["trial"].iloc[0]},
            }
        )
    return found


def failures(outcomes: Iterable[str]) -> str:
    """`2 of 3 diverged`, or nothing."""
    counts = Counter(outcomes)
    failed = [kind for kind in counts if kind not in (FINE, WAITING)]
    return ", ".join(f"{counts[kind]} of {counts.total()} {kind}" for kind in failed)


def mostly_stuck(outcomes: Iterable[str]) -> bool:
    """Whether most seeds learnt nothing, so that nothing can be compared with them."""
    ended = [outcome for outcome in outcomes if outcome != WAITING]
    return 2 * ended.count("stuck") > len(ended)


def final_scores(loaded: Loaded, experiment: str, metric: str, split: str) -> pd.DataFrame:
    """The final value of a metric in each trial, whatever its outcome, without coordinates."""
    final = loaded.final
    is_own = (final["experiment"] == experiment) & (final["metric"] == metric)
    own = final[is_own & final["split"].isin(("", split)) & (final["where"] == "")]
    return own.drop_duplicates(["variant", "factors", "seed"], keep="last")


def contrasts(loaded: Loaded, of_each: pd.DataFrame) -> pd.DataFrame:
    """A row for each variant and level of the factors, compared with the baseline at that level."""
    rows = of_each.to_dict("records")
    baselines = {(r["experiment"], r["factors"]): r for r in rows if r["variant"] == r["baseline"]}
    compared = [
        _contrast(loaded, row, baselines.get((row["experiment"], row["factors"])))
        for row in rows
        if row["variant"] != row["baseline"]
    ]
    return pd.DataFrame(compared, columns=CONTRASTS)


def _contrast(loaded: Loaded, variant: Row, baseline: Row | None) -> Row:
    held = baseline["scores"] if baseline and baseline["unit"] == variant["unit"] else {}
    seeds = [seed for seed in variant["scores"] if seed in held]
    pair = variant_of(variant), (variant["experiment"], variant["baseline"], variant["factors"])
    found = difference(loaded, pair, variant["metric"], variant["split"], {}, seeds)
    low, high = found.ends()
    other = baseline or {**dict.fromkeys(OF_VARIANT, math.nan), "failures": "", "tuned_to": {}}
    return {
        **variant,
        "unit": variant["unit"] or (baseline["unit"] if baseline else ""),
        **{f"baseline_{name}": other[name] for name in OF_VARIANT},
        **{"n": len(seeds), "seeds": seeds},
        "differences": [variant["scores"][seed] - held[seed] for seed in seeds],
        **{"difference": found.value, "low": low, "high": high, "sd": found.sd},
        "mark": mark(variant, baseline, found),
        "note": _note(variant, baseline, found, low),
    }


def variant_of(row: Mapping[str, Any]) -> Variant:
    """The key of the variant that a row describes."""
    return row["experiment"], row["variant"], row["factors"]


def difference(
    loaded: Loaded,
    pair: tuple[Variant, Variant],
    metric: str,
    split: str,
    at: Mapping[str, Any],
    seeds: Sequence[int],
) -> stats.Estimate:
    """The mean of variant − baseline over seeds that both have.

    If the score of every test item is stored, the error counts test items as well as seeds.
    """
    sides = [scores(loaded, variant, metric, split, at) for variant in pair]
    values = [[side[seed] for seed in seeds] for side in sides]
    found = stats.paired_mean(*values)
    if not found.error > 0 or at or split != "test":
        return found
    items = [
        _items(loaded.records[loaded.ids[variant][seed]].per_example.get(metric), mean)
        for variant, side in zip(pair, values, strict=True)
        for seed, mean in zip(seeds, side, strict=True)
    ]
    known = [each for each in items if each is not None]
    if len(known) < len(items) or len({each.size for each in known}) != 1:
        return found
    one, two = np.array(known[: len(seeds)]), np.array(known[len(seeds) :])
    return stats.seeds_and_items(one - two)


def _items(counts: list[float | None] | None, score: float) -> NDArray[np.float64] | None:
    """The contribution of each test item, scaled so that their mean is the score."""
    if not counts or None in counts:
        return None
    errors = np.array(counts, dtype=np.float64)
    mean = float(errors.mean())
    return errors * (score / mean) if mean else errors


def word_of(n: int, low: float, high: float, better: str, matters: float) -> str:
    """Better or worse if the 95 % interval excludes 0, a tie if it lies within what matters."""
    if n < stats.LEAST:
        return stats.FEW
    if low > 0 or high < 0:
        return stats.BETTER if (high < 0) == (better == "lower") else stats.WORSE
    return stats.TIE if max(-low, high) < matters else stats.NOT_RESOLVED


def mark(variant: Row, baseline: Row | None, found: stats.Estimate) -> str:
    """The mark of a variant: that of its interval, unless seeds failed or are still missing."""
    sides = [side["outcomes"].values() for side in (variant, baseline) if side]
    if baseline is None or any(set(outcomes) <= {WAITING} for outcomes in sides):
        return stats.NOT_RUN
    is_failed = found.n == 0 and (variant["failures"] or baseline["failures"])
    if is_failed or mostly_stuck(baseline["outcomes"].values()):
        return stats.FAILED
    if found.n == 0:
        return stats.NOT_RUN
    low, high = found.ends()
    word = word_of(found.n, low, high, variant["better"], variant["matters"])
    # Failed seeds are missing because they were bad, so the rest makes that side look better.
    is_lost, is_baseline_lost = (bool({*outcomes} & {*TRAINED[1:]}) for outcomes in sides)
    if (is_lost and word in (stats.BETTER, stats.TIE)) or (
        is_baseline_lost and word in (stats.WORSE, stats.TIE)
    ):
        return stats.FAILED
    if word != stats.FEW and any(WAITING in outcomes for outcomes in sides):
        return stats.UNFINISHED  # judged once, when every planned seed has ended
    if word in DIFFERS and not variant["trained"]:
        return HIGHER if low > 0 else LOWER
    return word


def _note(variant: Row, baseline: Row | None, found: stats.Estimate, low: float) -> str:
    notes = []
    if found.n >= stats.LEAST and math.isnan(low):
        same = "no difference" if found.value == 0 else "the same difference"
        notes.append(f"{same} in every seed, so its spread cannot be estimated")
    finished = [*variant["outcomes"].values()].count(FINE)
    if missing := finished - len(variant["scores"]):
        notes.append(f"{missing} of {finished} ok trials have no score from this code")
    if baseline and mostly_stuck(baseline["outcomes"].values()):
        notes.append(f"the baseline is undertrained: {baseline['failures']}")
    if baseline and variant["scores"] and baseline["scores"]:
        if variant["unit"] != baseline["unit"]:
            notes.append(f"units differ: {variant['unit']} against {baseline['unit']}")
        if len(environments := variant["numerics"] | baseline["numerics"]) > 1:
            notes.append(f"trained in different environments: {'; '.join(sorted(environments))}")
        if variant["steps"] != baseline["steps"]:
            notes.append("variant and baseline were trained for different numbers of steps")
    return "; ".join(notes)
