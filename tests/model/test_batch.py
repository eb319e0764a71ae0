"""What a batch says about its tokens."""

from __future__ import annotations

import torch

from model.batch import BOS, EOS, IGNORE, PAD, Batch, positions

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
