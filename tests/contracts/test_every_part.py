"""Every part of every family keeps every contract."""

from __future__ import annotations

import pytest
from contract_checks import Check, checks
from contract_subjects import Subject, every_subject

CASES = [
    pytest.param(subject, check, id=f"{subject}-{check.__name__}")
    for subject in every_subject()
    for check in checks(subject)
]


@pytest.mark.parametrize(("subject", "check"), CASES)
def test_every_part_keeps_every_contract(subject: Subject, check: Check) -> None:
    check(subject)
