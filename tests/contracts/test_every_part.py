"""Every part of every family keeps every contract."""

from __future__ import annotations

import pytest
from contract_checks import OF_DECODERS, checks, failures
from contract_subjects import Subject, around, every_subject

from model.attention import MASK


@pytest.mark.parametrize("subject", every_subject(), ids=str)
def test_every_part_keeps_every_contract(subject: Subject) -> None:
    found = failures(subject, checks(subject))
    assert not found, found


def test_multiplying_a_score_by_zero_does_not_hide_it() -> None:
    """e⁰ = 1: the future keeps a weight, and every contract about it shows that."""
    assert [s.name for s in every_subject() if not s.hides] == ["mask-zero"]
    subject = around(MASK, "zero")
    assert not set(OF_DECODERS) & set(checks(subject))
    words = "changed an|give another answer|goes on from another"
    for check in OF_DECODERS:
        with pytest.raises(AssertionError, match=words):
            check(subject)
