"""How large tokens, sinusoids and learned positions are before training, as it is stated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from model.build import build

D, MAX_LEN, TOKENS = 256, 512, 600
RULES = {"xavier": "xavier", "normal": {"name": "normal", "std": 0.02}, "unit": "unit_variance"}
TOKEN_SIZES = {"xavier": D**-0.5, "normal": 0.02, "unit": 1.0}  # before embedding_scale
SINUSOID = 0.5**0.5


def made(**changes: Any) -> Any:
    sizes = {"d_model": D, "n_heads": 4, "depth": 1, "max_len": MAX_LEN}
    return build({"name": "transformer", **sizes, **changes}, None, TOKENS, seed=0)


def rms(values: Tensor) -> float:
    return values.detach().double().square().mean().sqrt().item()


def positions_alone(model: Any) -> Tensor:
    """T W: what the scheme adds to nothing, or appends to it."""
    embedding = model.decoder.embedding
    nothing = torch.zeros(1, MAX_LEN, embedding.tokens.embedding_dim)
    told = embedding.position.embed(nothing, torch.arange(MAX_LEN))[0]
    return told[:, -(embedding.position.width or D) :]


def tokens_alone(model: Any) -> Tensor:
    """Every token as it enters the stack, without its place."""
    return model.decoder.embedding(torch.arange(TOKENS)[None], torch.arange(TOKENS))


def test_tokens_start_at_the_stated_size() -> None:
    for rule in RULES:
        for scale in [True, False]:
            model = made(initial=RULES[rule], embedding_scale=scale, position="none")
            expected = TOKEN_SIZES[rule] * (D**0.5 if scale else 1)
            assert rms(tokens_alone(model)) == pytest.approx(expected, rel=0.02)


def test_learned_positions_start_at_the_size_that_is_asked_for() -> None:
    for rule in RULES:
        for std in [0.02, SINUSOID, 1.0]:
            model = made(initial=RULES[rule], position={"name": "learned", "std": std})
            assert rms(positions_alone(model)) == pytest.approx(std, rel=0.02)


def test_only_the_size_changes_with_the_deviation() -> None:
    """So that two sizes are compared from the same directions, and all else is paired."""
    plain, larger = (made(position={"name": "learned", "std": std}) for std in (None, 1.0))
    torch.testing.assert_close(positions_alone(plain) * D**0.5, positions_alone(larger))
    for (name, one), (_, other) in zip(
        plain.named_parameters(), larger.named_parameters(), strict=True
    ):
        assert torch.equal(one, other) == ("position.table" not in name)
