"""Every measurement has on the device the values that it has on the CPU, on every kind of task."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from task_subjects import task_subject
from test_measures import _few_lengths_and_presets  # noqa: F401

from ablations.measurement import Benchmark, Evaluation, Measured, Probe, discover
from ablations.tasks import TASK

CPU = torch.device("cpu")
LAST = torch.device("standin", torch.accelerator.device_count() - 1)
KINDS = {(part.kind, part.per, part.writes): on for on, part in sorted(TASK.components.items())}
USUAL = ("text", "listops")
OTHERS, SOAK = [on for on in KINDS.values() if on not in USUAL], pytest.mark.soak


def values(measured: Measured) -> dict[Any, Any]:
    return {
        (m.metric, m.split, *sorted(m.coordinates.items())): m.value if m.values is None else 0.0
        for m in measured.measurements
    }


def taken(component: type, on: str, device: torch.device) -> dict[Any, Any] | str:
    """What it measures, or the line in which it refuses this kind of task."""
    subject, part = task_subject(on), component()
    config: dict[str, Any] = {**subject.config, "seed": 0}
    try:
        if isinstance(part, Evaluation):
            model = subject.model(subject.task, dropout=0.0).to(device)
            return values(part.measure(model, subject.task, device, 17))
        if isinstance(part, Probe):
            return values(part.measure(config, subject.task, device))
        at = {name: first for name, (first, *_) in part.places.items()}
        part.prepare(config, subject.task, device, at)()
        torch.accelerator.synchronize(LAST)
        return {}
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("on", [*USUAL, *(pytest.param(on, marks=SOAK) for on in OTHERS)])
@pytest.mark.parametrize("name", discover().components)
def test_it_has_on_the_device_the_values_that_it_has_on_the_cpu(name: str, on: str) -> None:
    component = discover().component(name)
    here, there = (taken(component, on, device) for device in (CPU, LAST))
    assert type(here) is type(there), (here, there)
    if isinstance(here, str) or isinstance(there, str) or issubclass(component, Benchmark):
        return
    assert here.keys() == there.keys()
    metrics = getattr(component, "metrics", {})
    for place, value in here.items():
        found = there[place]
        if value is None:  # the CPU cannot say small peaks, and the device may
            continue
        assert found is not None, f"{place}: nothing on the device"
        is_clocked = place[0] in metrics and metrics[place[0]].repeats == "processes"
        if not is_clocked and place[0] not in ("peak_memory", "saved_bytes"):
            assert math.isclose(found, value, rel_tol=1e-2, abs_tol=1e-3), (place, value, found)
