"""What a measure owes, on every kind of task. Each check fails in words that say what and where.

A measure of a trained model is taken here from an untrained one, which must make no difference.
"""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from task_samples import generators
from task_subjects import task_subject
from torch import nn

from ablations.measure import Measure, Taken, Timing
from ablations.tasks import TASK, Task

CPU = torch.device("cpu")
SPLITS = ("train", "valid", "test")
STEP = 17


def kinds() -> list[str]:
    """Of each kind of task, with its kind of label and of answer, one."""
    found: dict[Any, str] = {}
    for name, part in sorted(TASK.parts.items()):
        found.setdefault((part.kind, part.per, part.writes), name)
    return list(found.values())


@dataclass(frozen=True)
class MeasureSubject:
    """A measure under examination, and the task that it is taken on."""

    part: type
    on: str

    @cached_property
    def task(self) -> Task:
        return task_subject(self.on).task

    def model(self) -> nn.Module:
        return task_subject(self.on).model(self.task, dropout=0.1)

    def taken(self, model: nn.Module) -> Taken:
        measure: Measure = self.part()
        return measure.take(model, self.task, CPU, STEP)

    def prepared(self) -> Callable[[], None]:
        timing: Timing = self.part()
        config = {**task_subject(self.on).config, "seed": 0}
        return timing.prepare(config, self.task, CPU, length=5, batch=3)

    def owes(self, sentence: str) -> str:
        """What is wrong, where, and where it says what is owed."""
        kind = "Timing" if issubclass(self.part, Timing) else "Measure"
        file = "/".join(inspect.getfile(self.part).split("/")[-3:])
        owed = f"what is owed stands at {kind} in ablations/measure/__init__.py"
        return f"{file}: {self.part.__name__} on {self.on} {sentence}; {owed}"


def reads_numbers_with_units(subject: MeasureSubject) -> None:
    """A reading refuses to be made without a unit, or without a finite value or a reason."""
    try:
        readings = subject.taken(subject.model()).readings
    except ValueError as error:
        raise AssertionError(subject.owes(f"gives what is no reading ({error})")) from None
    assert readings, subject.owes("reads nothing")
    for reading in readings:
        name = reading.metric
        assert reading.split in SPLITS, subject.owes(f"reads {name} on {reading.split!r}")
        has_axes = reading.axes is not None
        assert has_axes == (reading.values is not None), subject.owes(f"gives {name} no axes")
    try:
        json.dumps([vars(reading) for reading in readings], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(subject.owes(f"gives a reading that is no JSON ({error})")) from None


def tells_of_each_example_what_it_told_of_all(subject: MeasureSubject) -> None:
    """Per-example numbers belong to a metric of test, one for each example, none of them NaN."""
    taken = subject.taken(subject.model())
    read = {reading.metric for reading in taken.readings if reading.split == "test"}
    asked = sum(len(batch.labels) for batch in subject.task.evaluation_batches("test"))
    for metric, items in taken.items.items():
        assert metric in read, subject.owes(f"has items of {metric}, which it does not read")
        sentence = f"has {len(items)} items of {metric}, of {asked} examples"
        assert len(items) == asked, subject.owes(sentence)
        numbers = [item for item in items if item is not None]
        assert all(map(math.isfinite, numbers)), subject.owes(f"has no number among {metric}")


def says_each_thing_once(subject: MeasureSubject) -> None:
    readings = subject.taken(subject.model()).readings
    places = Counter((r.metric, r.split, *sorted(r.at.items())) for r in readings)
    twice = [place for place, number in places.items() if number > 1]
    assert not twice, subject.owes(f"reads twice: {twice[0]}" if twice else "")
    metrics = {reading.metric for reading in readings}
    coded = [name for name in metrics if any(letter.isdigit() for letter in name)]
    assert not coded, subject.owes(f"names {coded}: coordinates stand in `at`, not in a name")


def says_the_same_again(subject: MeasureSubject) -> None:
    model = subject.model()
    first, second = (subject.taken(model) for _ in range(2))
    assert second == first, subject.owes("reads something else the second time")


def leaves_the_model_as_it_was(subject: MeasureSubject) -> None:
    model = subject.model()
    for training in (True, False):
        model.train(training)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        subject.taken(model)
        assert all(module.training is training for module in model.modules()), subject.owes(
            "leaves the model in another mode: ask it inside `evaluating(model)`"
        )
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, weights[name]), subject.owes(f"moves the weight {name}")
        for name, parameter in model.named_parameters():
            assert parameter.grad is None, subject.owes(f"leaves a gradient of {name}")
            assert parameter.requires_grad, subject.owes(f"freezes {name}")


def leaves_the_generators_of_others(subject: MeasureSubject) -> None:
    model = subject.model()
    before = generators()
    subject.taken(model)
    assert generators() == before, subject.owes("draws from a generator that others use")


# Timings


def names_what_it_times(subject: MeasureSubject) -> None:
    assert getattr(subject.part, "metric", ""), subject.owes("has no metric")
    assert getattr(subject.part, "unit", ""), subject.owes("has no unit")


def can_be_called_again(subject: MeasureSubject) -> None:
    call = subject.prepared()
    for number in range(1, 4):
        try:
            told: Any = call()
        except Exception as error:
            raise AssertionError(subject.owes(f"fails at call {number}: {error}")) from error
    assert told is None, subject.owes("gives its call a value, which nobody waits for")


def prepares_each_call_apart(subject: MeasureSubject) -> None:
    """A reference and its twin are two calls."""
    first, second = subject.prepared(), subject.prepared()
    assert first is not second, subject.owes("prepares the same call twice")


Check = Callable[[MeasureSubject], None]
OF_MEASURES: tuple[Check, ...] = (
    reads_numbers_with_units,
    tells_of_each_example_what_it_told_of_all,
    says_each_thing_once,
    says_the_same_again,
    leaves_the_model_as_it_was,
    leaves_the_generators_of_others,
)
OF_TIMINGS: tuple[Check, ...] = (
    names_what_it_times,
    can_be_called_again,
    prepares_each_call_apart,
)
