"""The loss against its definition."""

from __future__ import annotations

import pytest
import torch
from given_weights import assert_equals, random
from slow_formulas import cross_entropy as by_hand

from model.batch import IGNORE
from model.loss import cross_entropy

LABELS = [[3, IGNORE, 0], [IGNORE, 4, 1]]


def test_the_loss_is_summed_over_the_labels_that_count() -> None:
    for over in ["all", "other"]:
        for smoothing in [0.0, 0.1, 0.7]:
            logits_BTV = random(2, 3, 5)
            expected = sum(
                by_hand(logits, label, smoothing, over)
                for rows, labels in zip(logits_BTV.tolist(), LABELS, strict=True)
                for logits, label in zip(rows, labels, strict=True)
                if label != IGNORE
            )
            assert_equals(
                cross_entropy(logits_BTV, torch.tensor(LABELS), smoothing, over), expected
            )


def test_one_class_a_sequence_is_scored_like_one_label_a_token() -> None:
    logits_BC = random(3, 5)
    expected = sum(
        by_hand(row, label) for row, label in zip(logits_BC.tolist(), [4, 0, 2], strict=True)
    )
    assert_equals(cross_entropy(logits_BC, torch.tensor([4, 0, 2])), expected)


@pytest.mark.parametrize("over", ["all", "other"])
def test_what_is_ignored_gets_no_gradient(over: str) -> None:
    logits_BTV = random(2, 3, 5).requires_grad_()
    cross_entropy(logits_BTV, torch.tensor(LABELS), 0.1, over).backward()
    is_ignored = torch.tensor(LABELS) == IGNORE
    assert logits_BTV.grad is not None
    assert not logits_BTV.grad[is_ignored].any()
    assert logits_BTV.grad[~is_ignored].all()
