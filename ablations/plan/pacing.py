"""Equal time instead of equal steps: how many steps an arm takes while the control takes its own.

How long a step of each arm lasts is timed where the question is run, on the task's own batches,
beside the control's; the arms then train with steps in inverse proportion, and their schedules end
with them. What was timed is kept in the results folder, and holds for what is trained there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ablations.plan.merge import PlannedArm
from ablations.plan.question import Ablation
from ablations.plan.tree import get, replaced
from ablations.store.files import write_atomic
from ablations.store.frozen import freeze
from ablations.store.results import Results
from ablations.store.seeds import DECIDING
from model.config import ConfigError, validate

MEASURE, METRIC = "pace", "pace_time"


@dataclass(frozen=True)
class Pace:
    """How long a step of one arm takes, beside the control's."""

    label: str
    across: dict[str, str]
    settings: str
    """What the arm is, in twelve hex digits."""
    ratio: float
    """To the control's time: the geometric mean over processes."""
    error: float
    """The standard error of its logarithm."""
    processes: int

    @property
    def key(self) -> str:
        return freeze([self.label, self.across, self.settings])


def settings_of(arm: PlannedArm) -> str:
    """What an arm is before it is paced: timed, not trained."""
    return replace(arm, trained=False).cells(DECIDING[:1])[0].settings


def question_of_pace(ablation: Ablation) -> Ablation:
    """The question that times the arms of another one, and nothing else."""
    asked = f"How long does a step take? ({ablation.question})"
    return replace(
        ablation,
        question=asked,
        measures=[MEASURE],
        metric=METRIC,
        claims=[],
        points={},
        tune={},
        equal="steps",
    )


def paced(arms: Sequence[PlannedArm], known: Mapping[str, Pace]) -> list[PlannedArm] | None:
    """The arms with as many steps as they have time for; None where a pace is not known."""
    found = []
    for arm in arms:
        pace = known.get(freeze([arm.label, arm.across, settings_of(arm)]))
        if pace is None:
            return None
        tree = arm.tree
        for path in ("train.steps", "train.schedule.warmup"):
            with suppress(KeyError):  # not every schedule warms up
                tree = replaced(tree, path, max(1, round(get(arm.config, path) / pace.ratio)))
        found.append(replace(arm, tree=tree, before=arm))
    return found


def kept(results: Results, name: str) -> Path:
    return results.root / "paces" / f"{name}.json"


def paces(results: Results | None, name: str) -> dict[str, Pace]:
    """What a folder has timed of a question's arms."""
    if results is None or not kept(results, name).exists():
        return {}
    path = kept(results, name)
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        found = [validate(Pace, each, f"{index}") for index, each in enumerate(plain)]
    except (ValueError, TypeError) as error:
        raise ConfigError([f"{path}: cannot be used ({error}); remove it and run again"]) from None
    return {pace.key: pace for pace in found}


def keep_paces(results: Results, name: str, made: Sequence[Pace]) -> None:
    """Write them beside what was timed here for other arms."""
    held: dict[str, Any] = {**paces(results, name), **{pace.key: pace for pace in made}}
    plain = [asdict(pace) for pace in held.values()]
    write_atomic(kept(results, name), json.dumps(plain, indent=1, allow_nan=False) + "\n")
