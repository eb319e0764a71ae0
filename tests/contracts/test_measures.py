"""Every measure keeps every contract on every kind of task, and each contract can be broken."""

from __future__ import annotations

from typing import Any

import pytest
from measure_breakers import BROKEN
from measure_checks import (
    OF_MEASURES,
    OF_PROBES,
    OF_TIMINGS,
    Check,
    MeasureSubject,
    kinds,
    refuses_in_a_line,
)

from ablations.measure import (
    Measure,
    discover,
    gradients,
    heads,
    is_probe,
    is_timing,
    landscape,
    memory,
    share,
)
from model import preset


def owed(name: str) -> tuple[Check, ...]:
    return OF_TIMINGS if is_timing(name) else OF_PROBES if is_probe(name) else OF_MEASURES


@pytest.fixture(autouse=True)
def _few_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lengths, ratios and published models."""
    monkeypatch.setattr(memory, "LENGTHS", (64, 128))
    monkeypatch.setattr(heads, "TOKENS", 512)
    monkeypatch.setattr(gradients, "DRAWS", 1)
    monkeypatch.setattr(landscape, "TOKENS", 64)
    monkeypatch.setattr(landscape, "PLACES", [-1.0, 0.0, 1.0])
    monkeypatch.setattr(share, "RATIOS", (0.5, 2.0))
    monkeypatch.setattr(preset, "names", lambda: ["gpt2", "transformer-base"])


CASES = [
    pytest.param(MeasureSubject(part, on), check, id=f"{name}-{on}-{check.__name__}")
    for name, part in discover().parts.items()
    for on in kinds()
    for check in owed(name)
]


@pytest.mark.parametrize(("subject", "check"), CASES)
def test_every_measure_keeps_every_contract(subject: MeasureSubject, check: Check) -> None:
    if check is not refuses_in_a_line and not issubclass(subject.part, Measure) and subject.refusal:
        pytest.skip(subject.refusal)
    check(subject)


@pytest.mark.parametrize("name", [name for name in discover().parts if owed(name) != OF_MEASURES])
def test_no_measure_refuses_every_kind_of_task(name: str) -> None:
    assert not all(MeasureSubject(discover().part(name), on).refusal for on in kinds())


@pytest.mark.parametrize(
    ("check", "measure", "sentence"),
    [pytest.param(*case, id=f"{case[1].__name__}-fails-{case[0].__name__}") for case in BROKEN],
)
def test_a_broken_measure_fails_its_contract(check: Check, measure: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence) as failure:
        check(MeasureSubject(measure, "recall"))
    assert "ablations/measure/__init__.py" in str(failure.value)  # where it is owed


def test_every_contract_has_a_broken_measure() -> None:
    assert {case[0] for case in BROKEN} == {*OF_MEASURES, *OF_PROBES, *OF_TIMINGS}


def test_every_kind_of_task_is_measured() -> None:
    assert len(kinds()) >= 4  # written from a source, written on, read off, a class
