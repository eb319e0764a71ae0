"""A contract that cannot fail proves nothing: each has a part that must fail it."""

from __future__ import annotations

from typing import Any

import pytest
from contract_breakers import BROKEN
from contract_checks import OF_ALL, OF_DECODERS, OF_ENCODER_DECODERS, Check
from contract_subjects import temporary

from model.family import Family


@pytest.mark.parametrize(
    ("check", "family", "part", "sentence"),
    [pytest.param(*case, id=f"{case[2].__name__}-fails-{case[0].__name__}") for case in BROKEN],
)
def test_a_broken_part_fails_its_contract(
    check: Check, family: Family, part: Any, sentence: str
) -> None:
    with temporary(family, part) as subject, pytest.raises(AssertionError, match=sentence):
        check(subject)


def test_every_contract_has_a_broken_part() -> None:
    proven = {case[0] for case in BROKEN}
    lacking = sorted(
        check.__name__ for check in {*OF_ALL, *OF_DECODERS, *OF_ENCODER_DECODERS} - proven
    )
    assert not lacking, (
        f"{lacking}: add a part that breaks it to tests/contracts/contract_breakers.py"
    )
