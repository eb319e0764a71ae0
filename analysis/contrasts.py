"""Each variant against its control, seed by seed, and the mark of each difference.

A difference is taken over the seeds where both sides were trained to the end with status ok. What
failed is counted beside it and never averaged away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.store.record import TRAINED
from analysis import stats
from analysis.arms import Arm, arms
from analysis.load import FINE, Loaded, load
from analysis.scores import difference
from analysis.speed import speeds

HIGHER, LOWER = "higher", "lower"
"""Of models that nobody has trained: nothing that is read off first weights is good or bad."""
DIFFERS = (stats.BETTER, stats.WORSE, HIGHER, LOWER)
COLUMNS = [
    *("ablation", "task", "label", "across", "name", "control"),
    *("metric", "split", "metric_label", "unit", "better", "trained", "matters"),
    *("parameters", "flops_per_token", "control_parameters", "control_flops_per_token"),
    *("mean", "mean_low", "mean_high", "mean_n"),
    *("control_mean", "control_low", "control_high", "control_n"),
    *("n", "planned", "seeds", "differences", "difference", "low", "high", "sd"),
    *("failures", "control_failures", "mark", "note"),
]


def contrasts(loaded: Loaded) -> pd.DataFrame:
    """One row per variant, crossing and question, beside its control at the same crossing."""
    rows: list[dict[str, Any]] = []
    for name, entry in loaded.ablations.items():
        everyone = arms(loaded, name)
        controls = {arm.across: arm for arm in everyone if arm.label == entry["control"]}
        rows += [
            _row(loaded, entry, arm, controls.get(arm.across))
            for arm in everyone
            if arm.label != entry["control"]
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(loaded: Loaded, entry: dict[str, Any], arm: Arm, control: Arm | None) -> dict[str, Any]:
    metric = entry["metric"]
    is_alike = control is not None and arm.unit == control.unit
    held = control.scores if control and is_alike else {}
    seeds = [seed for seed in arm.scores if seed in held]
    pair, place = (arm.label, entry["control"]), (arm.across, metric["name"], metric["split"])
    found = difference(loaded, arm.ablation, pair, *place, {}, seeds)
    low, high = found.ends()
    matters = metric.get("matters", entry["metrics"].get(metric["name"], {}).get("matters"))
    matters = math.nan if matters is None else float(matters)
    return {
        "ablation": arm.ablation,
        "task": str(entry["task"]),
        "control": str(entry["control"]),
        "metric": metric["name"],
        "split": metric["split"],
        "metric_label": str(metric["label"]),
        "better": metric["better"],
        "matters": matters,
        "label": arm.label,
        "across": arm.across,
        "name": arm.name,
        "trained": arm.trained,
        "unit": arm.unit or (control.unit if control else ""),
        "parameters": arm.parameters,
        "flops_per_token": arm.flops_per_token,
        **_mean("mean", "mean", arm),
        **_mean("control_mean", "control", control),
        "control_parameters": control.parameters if control else math.nan,
        "control_flops_per_token": control.flops_per_token if control else math.nan,
        "failures": arm.failures,
        "control_failures": control.failures if control else "",
        "n": len(seeds),
        "planned": len(arm.outcomes),
        "seeds": seeds,
        "differences": [arm.scores[seed] - held[seed] for seed in seeds],
        "difference": found.value,
        "low": low,
        "high": high,
        "sd": found.sd,
        "mark": mark(arm, control, found, metric["better"], matters),
        "note": _note(arm, control, found, low),
    }


def mark(
    arm: Arm,
    control: Arm | None,
    found: stats.Estimate | stats.SeedAndItemEstimate,
    better: str,
    matters: float = math.nan,
) -> str:
    """Better or worse where the 95 % interval excludes 0, a tie where it lies within what matters,
    else not resolved."""
    if control is None or not arm.started or not control.started:
        return stats.NOT_RUN
    is_lost, is_control_lost = arm.ended(*TRAINED[1:]), control.ended(*TRAINED[1:])
    if control.is_undertrained or (found.n == 0 and (arm.failures or control.failures)):
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
    if (is_lost and word in (stats.BETTER, stats.TIE)) or (
        is_control_lost and word in (stats.WORSE, stats.TIE)
    ):
        return stats.FAILED
    if word in DIFFERS and not arm.trained:
        return HIGHER if low > 0 else LOWER
    return word


def _mean(name: str, prefix: str, arm: Arm | None) -> dict[str, Any]:
    found = stats.mean_of(list(arm.scores.values()) if arm else [])
    low, high = found.ends()
    return {name: found.value, f"{prefix}_low": low, f"{prefix}_high": high, f"{prefix}_n": found.n}


def _note(
    arm: Arm,
    control: Arm | None,
    found: stats.Estimate | stats.SeedAndItemEstimate,
    low: float,
) -> str:
    notes = []
    if found.n > 1 and math.isnan(low):
        same = "no difference" if found.value == 0 else "the same difference"
        notes.append(f"{same} in every seed, so its spread cannot be estimated")
    finished = sum(outcome == FINE for outcome in arm.outcomes.values())
    if len(arm.scores) < finished:
        lacking = finished - len(arm.scores)
        notes.append(f"{lacking} of {finished} ok trials have no score that this code has taken")
    if control and control.is_undertrained:
        notes.append(f"the control is undertrained: {control.failures}")
    if control and arm.scores and control.scores:
        if arm.unit != control.unit:
            notes.append(f"units differ: {arm.unit} against {control.unit}")
        if len(arm.numerics | control.numerics) > 1:
            told = "; ".join(sorted(arm.numerics | control.numerics))
            notes.append(f"trained in different environments: {told}")
        if arm.steps != control.steps:
            notes.append("variant and control were trained for different numbers of steps")
    return "; ".join(notes)


@dataclass(frozen=True)
class Evidence:
    """A results folder with its contrasts of quality and of speed."""

    loaded: Loaded
    contrasts: pd.DataFrame
    speeds: pd.DataFrame


def gather(root: str | Path) -> Evidence:
    """Read a results folder and compare every variant with its control."""
    loaded = load(root)
    return Evidence(loaded, contrasts(loaded), speeds(loaded))
