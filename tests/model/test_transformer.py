"""How tokens and segments enter a transformer, and where each dropout acts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, randomised
from slow_formulas import add, layer_norm, sinusoid
from torch import Tensor

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


# Segments: a trained vector for each part of the source.

SOURCE = torch.tensor([[5, 3, 8, 4], [7, 6, 0, 0]])
LENGTHS = torch.tensor([4, 2])
SEGMENTS = torch.tensor([[0, 2, 1, 1], [1, 0, 0, 0]])


def segmented(**changes: Any) -> Any:
    written = {
        "name": "transformer", "kind": "encoder", "d_model": 8, "n_heads": 2, "depth": 1,
        "segments": 3, "head": "bare", **changes,
    }  # fmt: skip
    return build(written, 9, 9, seed=0).double().eval()


def asking(segments: Tensor | None) -> Batch:
    return Batch(SOURCE, source=SOURCE, source_lengths=LENGTHS, segments=segments)


def test_each_token_is_given_the_vector_of_its_segment() -> None:
    embedding = segmented(position="none").encoder.embedding
    vectors_BSD = embedding(SOURCE, torch.arange(4), SEGMENTS)
    for row in range(2):
        for at in range(4):
            token = embedding.tokens.weight[SOURCE[row, at]]
            segment = embedding.segments.weight[SEGMENTS[row, at]]
            expected = [
                t * 8**0.5 + s for t, s in zip(token.tolist(), segment.tolist(), strict=True)
            ]
            assert vectors_BSD[row, at].tolist() == pytest.approx(expected, abs=1e-12)


def test_without_segments_all_tokens_are_of_the_first() -> None:
    model = segmented()
    expected = model(asking(torch.zeros_like(SOURCE)))
    torch.testing.assert_close(model(asking(None)), expected, rtol=0, atol=1e-12)
    assert (model(asking(SEGMENTS)) - expected).abs().max() > 1e-3


def test_segments_that_are_not_there_are_named() -> None:
    for wrong, words in [
        (lambda: segmented()(asking(SEGMENTS + 1)), "segments holds 3: the model has 0 to 2"),
        (lambda: segmented()(asking(SEGMENTS - 1)), "segments holds -1: the model has 0 to 2"),
        (lambda: segmented(segments=0)(asking(SEGMENTS)), r"has none: set model\.segments"),
        (lambda: asking(SEGMENTS[:, :3]), "must go with a source of the same shape"),
        (lambda: Batch(SOURCE, inputs=SOURCE, segments=SEGMENTS), "must go with a source"),
        (lambda: segmented(kind="decoder"), "only a source has segments; choose kind="),
    ]:
        with pytest.raises(ValueError, match=words):
            wrong()


def test_the_source_of_an_encoder_decoder_has_segments_too() -> None:
    model = segmented(kind="encoder_decoder", head="tokens")
    assert model.decoder.embedding.segments is None
    given = Batch(SOURCE, SOURCE, source=SOURCE, segments=SEGMENTS)
    plain = Batch(SOURCE, SOURCE, source=SOURCE)
    assert (model(given) - model(plain)).abs().max() > 1e-6
    decoding = model.begin(2, 4, SOURCE, None)
    torch.testing.assert_close(model.step(SOURCE, decoding)[0], model(plain), rtol=0, atol=1e-9)
