"""How tokens enter a transformer, and where each dropout acts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, randomised
from slow_formulas import Matrix, add, attention, layer_norm, linear, relu, sinusoid

from model.batch import Batch
from model.build import build

SOURCE, SOURCE_LENGTHS = torch.tensor([[3, 7, 4, 5], [6, 3, 0, 0]]), [4, 2]
INPUTS, LENGTHS = torch.tensor([[1, 5, 6], [1, 4, 0]]), [3, 2]
D_MODEL, N_HEADS, DEPTH = 8, 2, 2

Sublayer = Callable[[Matrix], Matrix]


def self_attention(mixer: Any, causal: bool, length: int) -> Sublayer:
    def mix(x: Matrix) -> Matrix:
        projected = [linear(token, *affine(mixer.project)) for token in x]
        q, k, v = (
            [token[D_MODEL * i : D_MODEL * (i + 1)] for token in projected] for i in range(3)
        )
        y = attention(q, k, v, N_HEADS, lambda t, s: s < length and (s <= t or not causal))
        return [linear(token, *affine(mixer.out)) for token in y]

    return mix


def cross_attention(mixer: Any, memory: Matrix, length: int) -> Sublayer:
    def mix(x: Matrix) -> Matrix:
        q = [linear(token, *affine(mixer.project)) for token in x]
        projected = [linear(token, *affine(mixer.project_memory)) for token in memory]
        k, v = ([token[D_MODEL * i : D_MODEL * (i + 1)] for token in projected] for i in range(2))
        y = attention(q, k, v, N_HEADS, lambda t, s: s < length)
        return [linear(token, *affine(mixer.out)) for token in y]

    return mix


def feedforward(part: Any) -> Sublayer:
    def each(x: Matrix) -> Matrix:
        wide = [[relu(v) for v in linear(token, *affine(part.up))] for token in x]
        return [linear(token, *affine(part.down)) for token in wide]

    return each


def normed(x: Matrix, norm: Any) -> Matrix:
    return [layer_norm(token, *affine(norm)) for token in x]


def summed(a: Matrix, b: Matrix) -> Matrix:
    return [add(x, y) for x, y in zip(a, b, strict=True)]


def block_by_hand(block: Any, residual: str, x: Matrix, sublayers: list[Sublayer]) -> Matrix:
    for norm, sublayer in zip(block.residual.norms, sublayers, strict=True):
        if residual == "pre":
            x = summed(x, sublayer(normed(x, norm)))
        else:
            x = normed(summed(x, sublayer(x)), norm)
    return x


def stack_by_hand(
    stack: Any, residual: str, tokens: list[int], causal: bool, length: int,
    memory: Matrix | None = None, memory_length: int = 0,
) -> Matrix:  # fmt: skip
    table = stack.embedding.tokens.weight.tolist()
    x = [
        add([math.sqrt(D_MODEL) * v for v in table[token]], sinusoid(position, D_MODEL))
        for position, token in enumerate(tokens)
    ]
    for block in stack.blocks:
        sublayers = [self_attention(block.mixer, causal, length)]
        if memory is not None:
            sublayers.append(cross_attention(block.cross, memory, memory_length))
        x = block_by_hand(block, residual, x, [*sublayers, feedforward(block.feedforward)])
    return normed(x, stack.norm) if residual == "pre" else x


def made(**changes: Any) -> Any:
    choice = {"name": "transformer", "d_model": D_MODEL, "n_heads": N_HEADS, "depth": DEPTH}
    return randomised(build({**choice, **changes}, 8, 7, seed=None))


@pytest.mark.parametrize("residual", ["pre", "post"])
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_an_encoder_decoder_is_its_equations(residual: str, path: str) -> None:
    model = made(kind="encoder_decoder", residual=residual, path=path)
    lengths, source_lengths = torch.tensor(LENGTHS), torch.tensor(SOURCE_LENGTHS)
    logits_BTV = model(Batch(INPUTS, INPUTS, lengths, SOURCE, source_lengths))
    for row, (length, source_length) in enumerate(zip(LENGTHS, SOURCE_LENGTHS, strict=True)):
        source, inputs = SOURCE[row].tolist(), INPUTS[row, :length].tolist()
        memory = stack_by_hand(model.encoder, residual, source, False, source_length)
        x = stack_by_hand(model.decoder, residual, inputs, True, length, memory, source_length)
        assert_equals(
            logits_BTV[row, :length], [linear(token, *affine(model.head.project)) for token in x]
        )


@pytest.mark.parametrize("residual", ["pre", "post"])
def test_a_decoder_is_its_equations(residual: str) -> None:
    model = made(kind="decoder", residual=residual)
    logits_TV = model(Batch(INPUTS, INPUTS))[0]
    x = stack_by_hand(model.decoder, residual, INPUTS[0].tolist(), True, 3)
    assert_equals(logits_TV, [linear(token, *affine(model.head.project)) for token in x])


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
