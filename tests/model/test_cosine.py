"""Cosine similarity: the formula, and what becomes of a vector that has no direction."""

from __future__ import annotations

import math

import pytest
import torch
from given_weights import random

from model.attention import SIMILARITY, CosineSimilarity
from model.batch import Batch
from model.build import build

COSINE: CosineSimilarity = SIMILARITY.build("cosine")
HALF = [torch.float16, torch.bfloat16]
DTYPES = [*HALF, torch.float32, torch.float64]


def by_hand(query: list[float], key: list[float]) -> float:
    lengths = math.hypot(*query) * math.hypot(*key)
    return sum(a * b for a, b in zip(query, key, strict=True)) / lengths


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_scores_are_cosines_at_any_size(dtype: torch.dtype, close: float, size: float) -> None:
    q, k = (random(1, 1, length, 6, seed=length).to(dtype) * size for length in (3, 4))
    compared_q, compared_k = COSINE.compared(q, k)
    scores = compared_q @ compared_k.transpose(-2, -1)
    expected = [[by_hand(a, b) for b in k[0, 0].tolist()] for a in q[0, 0].tolist()]
    truth = torch.tensor(expected, dtype=dtype)
    torch.testing.assert_close(scores[0, 0], truth, rtol=close, atol=close)


@pytest.mark.parametrize("dtype", HALF)
def test_in_half_precision_they_are_cosines_to_its_precision(dtype: torch.dtype) -> None:
    q, k = (random(1, 1, length, 6, seed=length).to(dtype) for length in (3, 4))
    compared_q, compared_k = COSINE.compared(q, k)
    scores = compared_q.double() @ compared_k.double().transpose(-2, -1)
    expected = [[by_hand(a, b) for b in k[0, 0].tolist()] for a in q[0, 0].tolist()]
    close = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(scores[0, 0], torch.tensor(expected).double(), rtol=0, atol=close)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_vector_without_a_direction_scores_zero_and_has_a_finite_gradient(
    dtype: torch.dtype,
) -> None:
    q, k = torch.zeros(1, 1, 2, 8, dtype=dtype), random(1, 1, 3, 8).to(dtype)
    q.requires_grad_()
    compared_q, compared_k = COSINE.compared(q, k)
    scores = compared_q @ compared_k.transpose(-2, -1)
    assert scores.tolist() == [[[[0.0] * 3] * 2]]
    scores.square().sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
    q.grad = None
    (COSINE.compared(q, k)[0] @ compared_k.transpose(-2, -1)).sum().backward()
    assert q.grad.isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_with_a_token_of_zeros_learns(dtype: torch.dtype) -> None:
    """Where biases are zero too, its query and its key have no direction."""
    written = {
        "name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1, "similarity": "cosine",
        "position": "none", "norm": "none", "path": "explicit",
    }  # fmt: skip
    model = build(written, None, 9, seed=0)
    with torch.no_grad():
        model.decoder.embedding.tokens.weight[3].zero_()
    inputs = torch.tensor([[3, 4, 3, 5]])
    logits = model.to(dtype)(Batch(inputs, inputs))
    logits.float().log_softmax(-1)[..., 4].sum().backward()
    assert logits.isfinite().all()
    for name, weight in model.named_parameters():
        assert weight.grad.isfinite().all(), name
