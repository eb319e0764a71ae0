"""Every part of every family keeps every contract."""

from __future__ import annotations

import pytest
import torch
from contract_checks import OF_DECODERS, checks
from contract_subjects import Subject, around, every_subject
from task_subjects import failures
from torch import Tensor

from model.attention import MASK
from model.positions import POSITION, Position


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


class UsesEverySite(Position):
    """Turns queries and keys, leans on distance, and lets queries weigh places."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.linspace(-1, 1, n_heads))

    def rotate(self, q_BHTK: Tensor, k_BHTK: Tensor, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        turn_T1 = (positions_T.to(q_BHTK.dtype) * 0.3).cos()[:, None]
        return q_BHTK * turn_T1, k_BHTK * turn_T1

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        return self.slopes[:, None, None] * (queries_T[:, None] - keys_S).abs()

    def score(self, q_BHTK: Tensor, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        return q_BHTK.sum(-1, keepdim=True) * (keys_S.to(q_BHTK.dtype) * 0.7).sin()


def test_a_position_from_elsewhere_keeps_every_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POSITION.components, "every-site", UsesEverySite)
    subject = around(POSITION, "every-site")
    assert not failures(checks(subject), subject)
