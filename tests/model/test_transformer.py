"""How tokens enter a transformer, and where each dropout acts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, randomised
from slow_formulas import add, layer_norm, sinusoid

from model.batch import Batch
from model.build import build

INPUTS = torch.tensor([[1, 5, 6], [1, 4, 0]])
D_MODEL, N_HEADS, DEPTH = 8, 2, 2


def made(**changes: Any) -> Any:
    choice = {"name": "transformer", "d_model": D_MODEL, "n_heads": N_HEADS, "depth": DEPTH}
    return randomised(build({**choice, **changes}, 8, 7, seed=None))


def test_tokens_are_scaled_placed_and_then_normed() -> None:
    for has_norm in [False, True]:
        embedding = made(embedding_norm=has_norm).decoder.embedding
        table = embedding.tokens.weight.tolist()
        for row, tokens in zip(embedding(INPUTS, torch.arange(3)), INPUTS.tolist(), strict=True):
            for at, (vector, token) in enumerate(zip(row, tokens, strict=True)):
                scaled = [math.sqrt(D_MODEL) * v for v in table[token]]
                x = add(scaled, sinusoid(at, D_MODEL))
                assert_equals(vector, layer_norm(x, *affine(embedding.norm)) if has_norm else x)


PLACES = ("embedding", "sublayers", "feedforward", "attention")
DROPOUTS: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "dropout": ({"dropout": 0.9}, {"embedding": 0.9, "sublayers": 0.9}),
    "both": ({"dropout": 0.9, "embedding_dropout": 0.0}, {"sublayers": 0.9}),
    "embedding": ({"embedding_dropout": 0.9}, {"embedding": 0.9}),
    "attention": ({"attention_dropout": 0.9}, {"attention": 0.9}),
    "feedforward": ({"feedforward_dropout": 0.9}, {"feedforward": 0.9}),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_each_dropout_acts_in_its_own_place_and_in_training_alone(name: str) -> None:
    options, expected = DROPOUTS[name]
    model = made(depth=1, **options)
    (block,), embedding = model.decoder.blocks, model.decoder.embedding
    found = (
        embedding.dropout.p, block.residual.dropout.p, block.feedforward.dropout.p,
        block.mixer.weight_dropout,
    )  # fmt: skip
    assert dict(zip(PLACES, found, strict=True)) == dict.fromkeys(PLACES, 0.0) | expected
    batch = Batch(INPUTS, INPUTS)
    still = model(batch)
    torch.testing.assert_close(still, made(depth=1)(batch), rtol=0, atol=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = model.train()(batch), model(batch)
    assert (first - second).abs().max() > 0.01
    torch.testing.assert_close(model.eval()(batch), still, rtol=0, atol=0)
