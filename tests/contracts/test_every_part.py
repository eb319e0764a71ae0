"""Every part of every family keeps every contract."""

from __future__ import annotations

import pytest
from contract_checks import OF_DECODERS, checks
from contract_subjects import Subject, around, every_subject
from task_subjects import failures

from model.attention import MASK


@pytest.mark.parametrize("subject", every_subject(), ids=str)
def test_every_part_keeps_every_contract(subject: Subject) -> None:
    assert not failures(checks(subject), subject)


def test_multiplying_a_score_by_zero_does_not_hide_it() -> None:
    """e⁰ = 1: the future keeps a weight, and every contract about it shows that."""
    assert [s.name for s in every_subject() if not s.hides] == ["mask-zero"]
    subject = around(MASK, "zero")
    assert not set(OF_DECODERS) & set(checks(subject))
    words = "changed an|give another answer|goes on from another"
    for check in OF_DECODERS:
        with pytest.raises(AssertionError, match=words):
            check(subject)
