"""Every measurement keeps every contract on every kind of task: one item for all checks.

An evaluation of a trained model is taken here from an untrained one, which must make no difference.
What builds its own model may refuse a kind of task, in one line.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
import torch
from task_subjects import failures, generators, task_subject

from ablations.evaluations import heads, landscape
from ablations.measurement import Benchmark, Evaluation, Measured, Place, Probe, discover
from ablations.probes import complexity, initialisation, share
from ablations.tasks import TASK, Task
from model import presets

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Subject:
    """A measurement, and the task that it is taken on."""

    component: type
    on: str

    @property
    def task(self) -> Task:
        return task_subject(self.on).task

    def config(self) -> dict[str, Any]:
        return deepcopy({**task_subject(self.on).config, "seed": 0})

    def taken(self, model: torch.nn.Module) -> Measured:
        evaluation: Evaluation = self.component()
        return evaluation.measure(model, self.task, CPU, 17)

    def probed(self) -> tuple[Measured, dict[str, Any]]:
        """The measurements of a probe, and the config as it leaves it."""
        probe: Probe = self.component()
        config = self.config()
        return probe.measure(config, self.task, CPU), config

    def prepared(self, config: dict[str, Any]) -> Callable[[], Any]:
        benchmark: Benchmark = self.component()
        at: Place = {name: values[0] for name, values in benchmark.places.items()}
        return benchmark.prepare(config, self.task, CPU, at)

    @cached_property
    def found(self) -> Any:
        """What there is to check, or the line in which this kind of task is refused."""
        if issubclass(self.component, Evaluation):
            return self.taken(task_subject(self.on).model(self.task, dropout=0.1))
        try:
            is_probe = issubclass(self.component, Probe)
            return self.probed()[0] if is_probe else self.prepared(self.config())()
        except ValueError as error:
            return str(error)


def refuses_in_a_line(subject: Subject) -> None:
    if isinstance(subject.found, str):
        assert subject.found, "refuses without a word"
        assert "\n" not in subject.found, f"refuses in other than a line: {subject.found!r}"


def reads_each_number_once_with_its_unit(subject: Subject) -> None:
    """A measurement refuses to be made without a unit, or without a finite value or a reason."""
    measurements = subject.found.measurements
    assert measurements, "reads nothing"
    splits = (None,) if issubclass(subject.component, Probe) else ("train", "valid", "test")
    for measurement in measurements:
        assert measurement.split in splits, f"reads {measurement.metric} on {measurement.split!r}"
        assert (measurement.axes is None) == (measurement.values is None), (
            f"no axes: {measurement.metric}"
        )
        assert not any(letter.isdigit() for letter in measurement.metric), "a coordinate in a name"
    json.dumps([vars(measurement) for measurement in measurements], allow_nan=False)
    places = Counter((r.metric, r.split, *sorted(r.coordinates.items())) for r in measurements)
    assert set(places.values()) == {1}, f"reads something twice: {places.most_common(1)}"


def has_a_number_for_each_example(subject: Subject) -> None:
    read = {
        measurement.metric
        for measurement in subject.found.measurements
        if measurement.split == "test"
    }
    asked = sum(len(batch.labels) for batch in subject.task.evaluation_batches("test"))
    for metric, items in subject.found.per_example.items():
        assert metric in read, f"has items of {metric}, which it does not read"
        assert len(items) == asked, f"has {len(items)} items of {metric}, of {asked} examples"
        assert all(math.isfinite(item) for item in items if item is not None), metric


def measures_the_same_again_and_leaves_the_model_as_it_was(subject: Subject) -> None:
    model, found, before = (
        task_subject(subject.on).model(subject.task, dropout=0.1),
        [],
        generators(),
    )
    for training in (True, False):
        model.train(training)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        found.append(subject.taken(model))
        assert generators() == before, "draws from a generator that others use"
        assert all(module.training is training for module in model.modules()), "changes the mode"
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, weights[name]), f"moves the weight {name}"
        for name, parameter in model.named_parameters():
            assert parameter.grad is None, f"leaves a gradient of {name}"
            assert parameter.requires_grad, f"freezes {name}"
    assert found[0] == found[1], "measures something else the second time"


def probes_the_same_again_and_what_it_names(subject: Subject) -> None:
    metrics = subject.component.metrics  # type: ignore[attr-defined]
    first = subject.found.measurements
    units = {name: each.unit for name, each in metrics.items()}
    assert {measurement.metric: measurement.unit for measurement in first} == units
    again, config = subject.probed()
    assert config == subject.config(), "changes the settings that it was given"
    for one, two in zip(first, again.measurements, strict=True):
        assert (one.metric, one.coordinates) == (two.metric, two.coordinates), "looks elsewhere"
        is_count = metrics[one.metric].repeats != "processes"
        if is_count and None not in (one.value, two.value):
            assert one.value == pytest.approx(two.value, rel=0.1), f"reads another {one.metric}"


def times_a_call_that_can_be_repeated(subject: Subject) -> None:
    benchmark: Any = subject.component
    assert benchmark.metrics, "has no metrics"
    assert all(each.unit and each.repeats == "processes" for each in benchmark.metrics.values())
    assert benchmark.places.get(benchmark.along), f"is timed nowhere along {benchmark.along}"
    assert set(benchmark.beside) <= set(benchmark.places), "names an unknown coordinate"
    config = subject.config()
    call = subject.prepared(config)
    assert [call() for _ in range(3)] == [None] * 3, "gives its call a value"
    assert config == subject.config(), "changes the settings that it was given"


CHECKS: dict[type, list[Callable[[Subject], None]]] = {
    Evaluation: [
        reads_each_number_once_with_its_unit,
        has_a_number_for_each_example,
        measures_the_same_again_and_leaves_the_model_as_it_was,
    ],
    Probe: [reads_each_number_once_with_its_unit, probes_the_same_again_and_what_it_names],
    Benchmark: [times_a_call_that_can_be_repeated],
}


@pytest.fixture(autouse=True)
def _few_lengths_and_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lengths, ratios and published models."""
    monkeypatch.setattr(complexity, "LENGTHS", (64, 128))
    monkeypatch.setattr(heads, "TOKENS", 512)
    monkeypatch.setattr(initialisation, "DRAWS", 1)
    monkeypatch.setattr(initialisation, "DEPTHS", (2, 4))
    monkeypatch.setattr(landscape, "TOKENS", 64)
    monkeypatch.setattr(landscape, "PLACES", [-1.0, 0.0, 1.0])
    monkeypatch.setattr(share, "RATIOS", (0.5, 2.0))
    monkeypatch.setattr(share, "PROCESSES", 1)
    monkeypatch.setattr(presets, "names", lambda: ["gpt2", "transformer-base"])


@pytest.mark.parametrize("name", discover().components)
def test_every_measurement_keeps_every_contract_on_every_kind_of_task(name: str) -> None:
    component, found, refused = discover().component(name), [], 0
    (checks,) = (each for kind, each in CHECKS.items() if issubclass(component, kind))
    kinds = {(part.kind, part.per, part.writes): on for on, part in sorted(TASK.components.items())}
    for on in kinds.values():
        subject = Subject(component, on)
        is_refused = isinstance(subject.found, str)
        refused += is_refused
        told = failures([refuses_in_a_line, *([] if is_refused else checks)], subject)
        found += [f"on {on}: {each}" for each in told]
    assert not found
    assert refused < len(kinds), "it refuses every kind of task"
