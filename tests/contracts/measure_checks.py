"""What a measure owes, on every kind of task. Each check fails in words that say what and where.

A measure of a trained model is taken here from an untrained one, which must make no difference.
What builds its own model may refuse a kind of task, in words.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pytest
import torch
from task_samples import generators
from task_subjects import task_subject
from torch import nn

from ablations.measurement import Benchmark, Evaluation, Measured, Place, Probe
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

    def config(self) -> dict[str, Any]:
        return deepcopy({**task_subject(self.on).config, "seed": 0})

    def taken(self, model: nn.Module) -> Measured:
        measure: Evaluation = self.part()
        return measure.measure(model, self.task, CPU, STEP)

    def read(self, look: int = 1) -> Measured:
        """What there is to be read, whoever builds the model; it is remembered."""
        if issubclass(self.part, Probe):
            return _look(self.part, self.on, look)[0]
        return _first(self.part, self.on)

    def prepared(self) -> Callable[[], None]:
        timing: Benchmark = self.part()
        at: Place = {name: values[0] for name, values in timing.places.items()}
        return timing.prepare(self.config(), self.task, CPU, at)

    @cached_property
    def refusal(self) -> str | None:
        """What a timing or a probe says of a kind of task that it has nothing to do with."""
        try:
            self.prepared()() if issubclass(self.part, Benchmark) else self.read()
        except ValueError as error:
            return str(error)
        return None


@cache
def _first(part: type[Evaluation], on: str) -> Measured:
    """What a measure reads of a new model."""
    subject = MeasureSubject(part, on)
    return subject.taken(subject.model())


@cache
def _look(part: type[Probe], on: str, look: int) -> tuple[Measured, dict[str, Any]]:
    """What a probe reads, and the settings as it leaves them."""
    subject = MeasureSubject(part, on)
    config = subject.config()
    return part().measure(config, subject.task, CPU), config


def reads_numbers_with_units(subject: MeasureSubject) -> None:
    """A reading refuses to be made without a unit, or without a finite value or a reason."""
    try:
        readings = subject.read().readings
    except ValueError as error:
        raise AssertionError(f"gives what is no reading ({error})") from None
    assert readings, "reads nothing"
    splits = (None,) if issubclass(subject.part, Probe) else SPLITS
    for reading in readings:
        name = reading.metric
        assert reading.split in splits, f"reads {name} on {reading.split!r}"
        has_axes = reading.axes is not None
        assert has_axes == (reading.values is not None), f"gives {name} no axes"
    try:
        json.dumps([vars(reading) for reading in readings], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"gives a reading that is no JSON ({error})") from None


def tells_of_each_example_what_it_told_of_all(subject: MeasureSubject) -> None:
    """Per-example numbers belong to a metric of test, one for each example, none of them NaN."""
    taken = subject.read()
    read = {reading.metric for reading in taken.readings if reading.split == "test"}
    asked = sum(len(batch.labels) for batch in subject.task.evaluation_batches("test"))
    for metric, items in taken.items.items():
        assert metric in read, f"has items of {metric}, which it does not read"
        sentence = f"has {len(items)} items of {metric}, of {asked} examples"
        assert len(items) == asked, sentence
        numbers = [item for item in items if item is not None]
        assert all(map(math.isfinite, numbers)), f"has no number among {metric}"


def says_each_thing_once(subject: MeasureSubject) -> None:
    readings = subject.read().readings
    places = Counter((r.metric, r.split, *sorted(r.at.items())) for r in readings)
    twice = [place for place, number in places.items() if number > 1]
    assert not twice, f"reads {twice} twice"
    metrics = {reading.metric for reading in readings}
    coded = [name for name in metrics if any(letter.isdigit() for letter in name)]
    assert not coded, f"names {coded}: coordinates stand in `at`, not in a name"


def says_the_same_again_and_leaves_all_as_it_was(subject: MeasureSubject) -> None:
    model, found, before = subject.model(), [], generators()
    for training in (True, False):
        model.train(training)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        found.append(subject.taken(model))
        assert generators() == before, "draws from a generator that others use"
        assert all(module.training is training for module in model.modules())
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, weights[name]), f"moves the weight {name}"
        for name, parameter in model.named_parameters():
            assert parameter.grad is None, f"leaves a gradient of {name}"
            assert parameter.requires_grad, f"freezes {name}"
    assert found[0] == found[1], "reads something else the second time"


# Probes


def reads_what_it_names(subject: MeasureSubject) -> None:
    named = {name: each.unit for name, each in subject.part.quantities.items()}  # type: ignore[attr-defined]
    read = {reading.metric: reading.unit for reading in subject.read().readings}
    assert read == named, f"reads {read} and names {named}"


def counts_the_same_again(subject: MeasureSubject) -> None:
    """What no second look is needed for; the size of a process is never quite the same."""
    counts = [name for name, each in subject.part.quantities.items() if each.repeats != "processes"]  # type: ignore[attr-defined]
    first, second = (subject.read(look).readings for look in (1, 2))
    for one, two in zip(first, second, strict=True):
        assert (one.metric, one.at) == (two.metric, two.at), "looks elsewhere"
        if one.metric in counts and None not in (one.value, two.value):
            same = one.value == pytest.approx(two.value, rel=0.1)
            assert same, f"reads another {one.metric} the second time"


def leaves_the_config_alone(subject: MeasureSubject) -> None:
    if issubclass(subject.part, Benchmark):
        config = subject.config()
        at = {name: values[0] for name, values in subject.part.places.items()}
        subject.part().prepare(config, subject.task, CPU, at)()
    else:
        _, config = _look(subject.part, subject.on, 1)
    assert config == subject.config(), "changes the settings that it was given"


# Timings


def names_what_it_times(subject: MeasureSubject) -> None:
    quantities = list(getattr(subject.part, "quantities", {}).values())
    assert quantities, "has no quantities"
    assert all(each.unit for each in quantities), "has no unit"
    assert all(each.repeats == "processes" for each in quantities)
    places, along = getattr(subject.part, "places", {}), subject.part.along  # type: ignore[attr-defined]
    assert places.get(along), f"is timed nowhere along {along}"
    assert set(subject.part.beside) <= set(places), "stands beside no place"  # type: ignore[attr-defined]


def can_be_called_again(subject: MeasureSubject) -> None:
    call = subject.prepared()
    for number in range(1, 4):
        try:
            told: Any = call()
        except Exception as error:
            raise AssertionError(f"fails at call {number}: {error}") from error
    assert told is None, "gives its call a value, which nobody waits for"


def refuses_in_a_line(subject: MeasureSubject) -> None:
    """A ValueError that says what to choose instead; whatever else is raised is a mistake."""
    try:
        refusal = subject.refusal
    except Exception as error:
        raise AssertionError(f"falls over ({error!r})") from error
    if refusal is not None:
        is_line = bool(refusal) and "\n" not in refusal
        assert is_line, f"refuses in other than a line: {refusal!r}"


Check = Callable[[MeasureSubject], None]
OF_MEASURES: tuple[Check, ...] = (
    reads_numbers_with_units,
    tells_of_each_example_what_it_told_of_all,
    says_each_thing_once,
    says_the_same_again_and_leaves_all_as_it_was,
)
OF_PROBES: tuple[Check, ...] = (
    reads_numbers_with_units,
    says_each_thing_once,
    reads_what_it_names,
    counts_the_same_again,
    leaves_the_config_alone,
    refuses_in_a_line,
)
OF_TIMINGS: tuple[Check, ...] = (
    names_what_it_times,
    can_be_called_again,
    leaves_the_config_alone,
    refuses_in_a_line,
)
