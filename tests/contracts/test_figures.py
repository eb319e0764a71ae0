"""Every figure of analysis/figures keeps every contract, and each contract can fail."""

from __future__ import annotations

from types import ModuleType

import pytest
from figure_breakers import BROKEN, Breaker
from figure_checks import CHECKS, Check
from figure_subjects import Subject, every_subject

from analysis.figures import forest


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", every_subject(), ids=lambda subject: subject.name)
def test_every_figure_keeps_every_contract(subject: Subject, check: Check) -> None:
    check(subject)


@pytest.mark.parametrize(
    ("check", "breaker", "sentence"),
    [pytest.param(*case, id=f"{case[1].__name__}-fails-{case[0].__name__}") for case in BROKEN],
)
def test_a_broken_figure_fails_its_contract(check: Check, breaker: Breaker, sentence: str) -> None:
    ladder = ModuleType("ladder")
    vars(ladder).update(vars(forest))
    breaker(ladder)
    with pytest.raises(AssertionError, match=sentence):
        check(Subject("ladder", ladder))


def test_every_contract_has_a_broken_figure() -> None:
    assert {case[0] for case in BROKEN} == set(CHECKS)
