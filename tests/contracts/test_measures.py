"""Every measure keeps every contract on every kind of task: one item for both together."""

from __future__ import annotations

import pytest
from measure_checks import OF_MEASURES, OF_PROBES, OF_TIMINGS, MeasureSubject, kinds
from measure_checks import refuses_in_a_line as refuses
from task_subjects import failures

from ablations.evaluations import heads, landscape
from ablations.measurement import Evaluation, discover, is_benchmark, is_probe
from ablations.probes import initialisation, memory, share
from model import presets


@pytest.fixture(autouse=True)
def _few_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lengths, ratios and published models."""
    monkeypatch.setattr(memory, "LENGTHS", (64, 128))
    monkeypatch.setattr(heads, "TOKENS", 512)
    monkeypatch.setattr(initialisation, "DRAWS", 1)
    monkeypatch.setattr(initialisation, "DEPTHS", (2, 4))
    monkeypatch.setattr(landscape, "TOKENS", 64)
    monkeypatch.setattr(landscape, "PLACES", [-1.0, 0.0, 1.0])
    monkeypatch.setattr(share, "RATIOS", (0.5, 2.0))
    monkeypatch.setattr(share, "PROCESSES", 1)
    monkeypatch.setattr(presets, "names", lambda: ["gpt2", "transformer-base"])


@pytest.mark.parametrize("name", discover().components)
def test_every_measure_keeps_every_contract_on_every_kind_of_task(name: str) -> None:
    part, found, refused = discover().component(name), [], 0
    owed = OF_TIMINGS if is_benchmark(name) else OF_PROBES if is_probe(name) else OF_MEASURES
    for subject in (MeasureSubject(part, on) for on in kinds()):
        told = failures([refuses], subject)
        is_refused = not told and not issubclass(part, Evaluation) and subject.refusal is not None
        refused += is_refused
        told += [] if told or is_refused else failures(owed, subject)
        found += [f"on {subject.on}: {each}" for each in told]
    assert not found
    assert refused < len(kinds()), "it refuses every kind of task"
