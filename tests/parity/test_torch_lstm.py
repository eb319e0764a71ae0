"""With equal weights, the numbers of torch's packed bidirectional LSTM."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from model.build import build

LENGTHS = torch.tensor([3, 6, 1, 5])
WIDTH = 8
NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=["double", "single"]
)
def test_reading_both_ways_is_torchs_packed_bidirectional_lstm(
    depth: int, dtype: torch.dtype, tolerance: float
) -> None:
    encoder = build({"name": "recurrent", "d_model": WIDTH, "depth": depth}, 11, 9, seed=0).encoder
    reference = nn.LSTM(WIDTH, WIDTH // 2, depth, batch_first=True, bidirectional=True)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in range(depth):
            directions = {"": encoder.forwards[layer], "_reverse": encoder.backwards[layer]}
            for suffix, cell in directions.items():
                for name in NAMES:
                    theirs = getattr(reference, f"{name}_l{layer}{suffix}")
                    theirs.copy_(torch.randn(theirs.shape, generator=generator) * 0.5)
                    getattr(cell, f"{name}_l0").copy_(theirs)
    encoder.to(dtype)
    reference.to(dtype)

    tokens = torch.randint(3, 11, (4, 7), generator=generator)  # padded past the longest
    memory, ends = encoder(tokens, LENGTHS)
    packed = pack_padded_sequence(
        encoder.embedding.tokens(tokens), LENGTHS, batch_first=True, enforce_sorted=False
    )
    outputs, (hidden, _) = reference(packed)
    expected, _ = pad_packed_sequence(outputs, batch_first=True, total_length=7)
    is_real = torch.arange(7) < LENGTHS[:, None]
    torch.testing.assert_close(memory[is_real], expected[is_real], rtol=tolerance, atol=tolerance)
    for layer, end in enumerate(ends):
        both_ways = torch.cat((hidden[2 * layer], hidden[2 * layer + 1]), dim=-1)
        torch.testing.assert_close(end, both_ways, rtol=tolerance, atol=tolerance)
