"""Each variant against its control, seed by seed: the numbers behind every verdict.

A difference is taken over the seeds where both sides were trained to the end with status ok. What
failed is counted beside it and never averaged away.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ablations.store.record import TRAINED
from analysis import stats
from analysis.arms import Arm, arms
from analysis.load import Loaded

UNDERTRAINED = "undecided: undertrained"
HIGHER, LOWER = "higher", "lower"
"""Of models that nobody has trained: nothing that is read off first weights is good or bad."""


def contrasts(loaded: Loaded) -> pd.DataFrame:
    """One row per declared contrast; Holm's family is one ablation's contrasts and no others."""
    rows: list[dict[str, Any]] = []
    for name, ablation in loaded.ablations.items():
        everyone = arms(loaded, name)
        controls = {arm.across: arm for arm in everyone if arm.label == ablation["control"]}
        variants = [arm for arm in everyone if arm.label != ablation["control"]]
        pairs = [(arm, controls.get(arm.across), *_paired(arm, controls)) for arm in variants]
        adjusted = stats.holm([difference.p for *_, difference in pairs])
        for (arm, control, seeds, difference), p_holm in zip(pairs, adjusted, strict=True):
            word, verdict = judge(arm, control, difference, p_holm, ablation["metric"]["better"])
            rows.append(
                {
                    **_plan_columns(name, ablation),
                    **_arm_columns(arm, control),
                    "n": difference.n,
                    "planned": len(arm.outcomes),
                    "seeds": seeds,
                    "differences": [arm.scores[s] - control.scores[s] for s in seeds]
                    if control
                    else [],
                    "difference": difference.mean,
                    "low": difference.low,
                    "high": difference.high,
                    "sd": difference.sd,
                    "effect": difference.effect,
                    "correlation": difference.correlation,
                    "p": difference.p,
                    "p_holm": p_holm,
                    "detectable": _detectable(difference, len(pairs)),
                    "word": word,
                    "verdict": verdict,
                    "note": _note(arm, control, difference),
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def judge(
    arm: Arm, control: Arm | None, difference: stats.Difference, p_holm: float, better: str
) -> tuple[str, str]:
    """The verdict in a word, and in full with its failures."""
    if control is None or not arm.started or not control.started:
        return stats.NOT_RUN, stats.NOT_RUN
    if control.is_undertrained:
        return UNDERTRAINED, UNDERTRAINED
    word = stats.verdict(difference, p_holm, better)
    told = word
    if word in (stats.BETTER, stats.WORSE) and not arm.trained:
        told = HIGHER if difference.mean > 0 else LOWER
    failures = [arm.failures, control.failures and f"control: {control.failures}"]
    lost = [failure for failure in failures if failure]
    # Seeds that broke down are missing because they were bad: what is left flatters that side.
    flattered = (word == stats.BETTER and arm.ended(*TRAINED[1:])) or (
        word == stats.WORSE and control.ended(*TRAINED[1:])
    )
    if lost and (flattered or difference.n == 0):
        return "failed", ", ".join(lost)
    return word, ", ".join([told, *lost])


def _paired(arm: Arm, controls: dict[str, Arm]) -> tuple[list[Any], stats.Difference]:
    control = controls.get(arm.across)
    if control is None or arm.unit != control.unit:
        return [], stats.Difference(0)
    seeds = [seed for seed in arm.scores if seed in control.scores]
    return seeds, stats.paired(
        [arm.scores[seed] for seed in seeds], [control.scores[seed] for seed in seeds]
    )


def _detectable(difference: stats.Difference, family: int) -> float:
    """What 80 % power could have shown at Holm's first, strictest step."""
    if not difference.sd > 0:
        return math.nan
    return difference.sd * stats.detectable(difference.n, stats.ALPHA / family)


def _note(arm: Arm, control: Arm | None, difference: stats.Difference) -> str:
    notes = []
    if difference.sd == 0.0:
        same = "no difference" if difference.mean == 0 else "the same difference"
        notes.append(f"{same} in every seed, so its spread cannot be estimated")
    finished = sum(outcome == "ok" for outcome in arm.outcomes.values())
    if len(arm.scores) < finished:
        lacking = finished - len(arm.scores)
        notes.append(f"{lacking} of {finished} ok trials have no score that this code has taken")
    if control and arm.scores and control.scores:
        if arm.unit != control.unit:
            notes.append(f"units differ: {arm.unit} against {control.unit}")
        if len(arm.numerics | control.numerics) > 1:
            found = "; ".join(sorted(arm.numerics | control.numerics))
            notes.append(f"trained in different environments: {found}")
        if arm.steps != control.steps:
            notes.append("variant and control were trained for different numbers of steps")
    return "; ".join(notes)


def _plan_columns(name: str, ablation: dict[str, Any]) -> dict[str, Any]:
    metric = ablation["metric"]
    return {
        "ablation": name,
        "task": str(ablation["task"]),
        "control": str(ablation["control"]),
        "metric": metric["name"],
        "split": metric["split"],
        "metric_label": str(metric["label"]),
        "better": metric["better"],
    }


def _arm_columns(arm: Arm, control: Arm | None) -> dict[str, Any]:
    own = stats.interval(list(arm.scores.values()))
    base = stats.interval(list(control.scores.values()) if control else [])
    return {
        "label": arm.label,
        "across": arm.across,
        "name": arm.name,
        "trained": arm.trained,
        "unit": arm.unit or (control.unit if control else ""),
        "parameters": arm.parameters,
        "flops_per_token": arm.flops_per_token,
        "mean": own.mean,
        "mean_low": own.low,
        "mean_high": own.high,
        "mean_n": own.n,
        "control_mean": base.mean,
        "control_low": base.low,
        "control_high": base.high,
        "control_n": base.n,
        "control_parameters": control.parameters if control else math.nan,
        "control_flops_per_token": control.flops_per_token if control else math.nan,
        "failures": arm.failures,
        "control_failures": control.failures if control else "",
    }


COLUMNS = [
    *("ablation", "task", "label", "across", "name", "control"),
    *("metric", "split", "metric_label", "unit", "better", "trained"),
    *("parameters", "flops_per_token", "control_parameters", "control_flops_per_token"),
    *("mean", "mean_low", "mean_high", "mean_n"),
    *("control_mean", "control_low", "control_high", "control_n"),
    *("n", "planned", "seeds", "differences", "difference", "low", "high", "sd"),
    *("effect", "correlation", "p", "p_holm", "detectable"),
    *("failures", "control_failures", "word", "verdict", "note"),
]
