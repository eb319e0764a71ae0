"""What a batch says about its tokens, and the loss against its definition."""

from __future__ import annotations

import torch
from given_weights import assert_equals, random
from slow_formulas import cross_entropy as by_hand

from model.batch import BOS, EOS, IGNORE, PAD, Batch, cross_entropy, positions

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


def test_what_is_ignored_gets_no_gradient() -> None:
    for over in ["all", "other"]:
        logits_BTV = random(2, 3, 5).requires_grad_()
        cross_entropy(logits_BTV, torch.tensor(LABELS), 0.1, over).backward()
        is_ignored = torch.tensor(LABELS) == IGNORE
        assert logits_BTV.grad is not None
        assert not logits_BTV.grad[is_ignored].any()
        assert logits_BTV.grad[~is_ignored].all()


TARGET = torch.tensor([[BOS, 5, 6, EOS], [BOS, 7, EOS, PAD]])


def test_a_shifted_batch_predicts_each_next_token() -> None:
    batch = Batch.shifted(TARGET)
    assert batch.inputs is not None
    assert batch.inputs.tolist() == [[BOS, 5, 6], [BOS, 7, EOS]]
    assert batch.labels.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert batch.lengths is None
    assert batch.tokens == 6


def test_padding_is_no_label_and_no_input() -> None:
    source, source_lengths = torch.tensor([[4, 4], [4, 0]]), torch.tensor([2, 1])
    batch = Batch.shifted(TARGET, torch.tensor([4, 3]), source, source_lengths)
    assert batch.labels.tolist() == [[5, 6, EOS], [7, EOS, IGNORE]]
    assert batch.lengths is not None
    assert batch.lengths.tolist() == [3, 2]
    assert batch.source is source
    assert batch.source_lengths is source_lengths
    assert batch.tokens == 5


def test_positions_count_on_from_where_they_start() -> None:
    assert positions(3, TARGET).tolist() == [0, 1, 2]
    assert positions(2, TARGET, start=5).tolist() == [5, 6]
