"""Cosine similarity: the formula, and what becomes of a vector that has no direction."""

from __future__ import annotations

import pytest
import torch
from given_weights import random

from model.attention import SIMILARITY, CosineSimilarity

COSINE: CosineSimilarity = SIMILARITY.build("cosine")
HALF = [torch.float16, torch.bfloat16]
DTYPES = [*HALF, torch.float32, torch.float64]


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
