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
    for name, part in sorted(TASK.components.items()):
        found.setdefault((part.kind, part.per, part.writes), name)
    return list(found.values())


@dataclass(frozen=True)
class MeasureSubject:
    """A measure under examination, and the task that it is taken on."""

    component: type
    on: str

    @cached_property
    def task(self) -> Task:
        return task_subject(self.on).task

    def model(self) -> nn.Module:
        return task_subject(self.on).model(self.task, dropout=0.1)

    def config(self) -> dict[str, Any]:
        return deepcopy({**task_subject(self.on).config, "seed": 0})

    def taken(self, model: nn.Module) -> Measured:
        measure: Evaluation = self.component()
        return measure.measure(model, self.task, CPU, STEP)

    def read(self, look: int = 1) -> Measured:
        """What there is to be read, whoever builds the model; it is remembered."""
        if issubclass(self.component, Probe):
            return _look(self.component, self.on, look)[0]
        return _first(self.component, self.on)

    def prepared(self) -> Callable[[], None]:
        timing: Benchmark = self.component()
        at: Place = {name: values[0] for name, values in timing.places.items()}
        return timing.prepare(self.config(), self.task, CPU, at)

    @cached_property
    def refusal(self) -> str | None:
        """What a timing or a probe says of a kind of task that it has nothing to do with."""
        try:
            self.prepared()() if issubclass(self.component, Benchmark) else self.read()
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
    """A measurement refuses to be made without a unit, or without a finite value or a reason."""
    try:
        measurements = subject.read().measurements
    except ValueError as error:
        raise AssertionError(f"gives what is no measurement ({error})") from None
    assert measurements, "reads nothing"
    splits = (None,) if issubclass(subject.component, Probe) else SPLITS
    for measurement in measurements:
        name = measurement.metric
        assert measurement.split in splits, f"reads {name} on {measurement.split!r}"
        has_axes = measurement.axes is not None
        assert has_axes == (measurement.values is not None), f"gives {name} no axes"
    try:
        json.dumps([vars(measurement) for measurement in measurements], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"gives a measurement that is no JSON ({error})") from None


def tells_of_each_example_what_it_told_of_all(subject: MeasureSubject) -> None:
    """Per-example numbers belong to a metric of test, one for each example, none of them NaN."""
    taken = subject.read()
    read = {measurement.metric for measurement in taken.measurements if measurement.split == "test"}
    asked = sum(len(batch.labels) for batch in subject.task.evaluation_batches("test"))
    for metric, items in taken.per_example.items():
        assert metric in read, f"has items of {metric}, which it does not read"
        sentence = f"has {len(items)} items of {metric}, of {asked} examples"
        assert len(items) == asked, sentence
        numbers = [item for item in items if item is not None]
        assert all(map(math.isfinite, numbers)), f"has no number among {metric}"


def says_each_thing_once(subject: MeasureSubject) -> None:
    measurements = subject.read().measurements
    places = Counter((r.metric, r.split, *sorted(r.coordinates.items())) for r in measurements)
    twice = [place for place, number in places.items() if number > 1]
    assert not twice, f"reads {twice} twice"
    metrics = {measurement.metric for measurement in measurements}
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
    named = {name: each.unit for name, each in subject.component.metrics.items()}  # type: ignore[attr-defined]
    read = {measurement.metric: measurement.unit for measurement in subject.read().measurements}
    assert read == named, f"reads {read} and names {named}"


def counts_the_same_again(subject: MeasureSubject) -> None:
    """What no second look is needed for; the size of a process is never quite the same."""
    counts = [
        name for name, each in subject.component.metrics.items() if each.repeats != "processes"
    ]  # type: ignore[attr-defined]
    first, second = (subject.read(look).measurements for look in (1, 2))
    for one, two in zip(first, second, strict=True):
        assert (one.metric, one.coordinates) == (two.metric, two.coordinates), "looks elsewhere"
        if one.metric in counts and None not in (one.value, two.value):
            same = one.value == pytest.approx(two.value, rel=0.1)
            assert same, f"reads another {one.metric} the second time"


def leaves_the_config_alone(subject: MeasureSubject) -> None:
    if issubclass(subject.component, Benchmark):
        config = subject.config()
        at = {name: values[0] for name, values in subject.component.places.items()}
        subject.component().prepare(config, subject.task, CPU, at)()
    else:
        _, config = _look(subject.component, subject.on, 1)
    assert config == subject.config(), "changes the settings that it was given"


# Timings


def names_what_it_times(subject: MeasureSubject) -> None:
    metrics = list(getattr(subject.component, "metrics", {}).values())
    assert metrics, "has no metrics"
    assert all(each.unit for each in metrics), "has no unit"
    assert all(each.repeats == "processes" for each in metrics)
    places, along = getattr(subject.component, "places", {}), subject.component.along  # type: ignore[attr-defined]
    assert places.get(along), f"is timed nowhere along {along}"
    assert set(subject.component.beside) <= set(places), "stands beside no place"  # type: ignore[attr-defined]


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
