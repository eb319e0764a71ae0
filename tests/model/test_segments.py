"""Segments: a trained vector for each part of the source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from model.batch import Batch
from model.build import build

SOURCE = torch.tensor([[5, 3, 8, 4], [7, 6, 0, 0]])
LENGTHS = torch.tensor([4, 2])
SEGMENTS = torch.tensor([[0, 2, 1, 1], [1, 0, 0, 0]])


def made(**changes: Any) -> Any:
    written = {
        "name": "transformer", "kind": "encoder", "d_model": 8, "n_heads": 2, "depth": 1,
        "segments": 3, "head": "bare", **changes,
    }  # fmt: skip
    return build(written, 9, 9, seed=0).double().eval()


def batch(segments: Tensor | None) -> Batch:
    return Batch(SOURCE, source=SOURCE, source_lengths=LENGTHS, segments=segments)


def test_each_token_is_given_the_vector_of_its_segment() -> None:
    embedding = made(position="none").encoder.embedding
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
    model = made()
    expected = model(batch(torch.zeros_like(SOURCE)))
    torch.testing.assert_close(model(batch(None)), expected, rtol=0, atol=1e-12)
    assert (model(batch(SEGMENTS)) - expected).abs().max() > 1e-3


def test_segments_that_are_not_there_are_named() -> None:
    for wrong, words in [
        (lambda: made()(batch(SEGMENTS + 1)), "segments holds 3: the model has 0 to 2"),
        (lambda: made()(batch(SEGMENTS - 1)), "segments holds -1: the model has 0 to 2"),
        (lambda: made(segments=0)(batch(SEGMENTS)), r"has none: set model\.segments"),
        (lambda: batch(SEGMENTS[:, :3]), "must go with a source of the same shape"),
        (lambda: Batch(SOURCE, inputs=SOURCE, segments=SEGMENTS), "must go with a source"),
        (lambda: made(kind="decoder"), "only a source has segments; choose kind="),
    ]:
        with pytest.raises(ValueError, match=words):
            wrong()


def test_the_source_of_an_encoder_decoder_has_segments_too() -> None:
    model = made(kind="encoder_decoder", head="tokens")
    assert model.decoder.embedding.segments is None
    given = Batch(SOURCE, SOURCE, source=SOURCE, segments=SEGMENTS)
    plain = Batch(SOURCE, SOURCE, source=SOURCE)
    assert (model(given) - model(plain)).abs().max() > 1e-6
    decoding = model.begin(2, 4, SOURCE, None)
    torch.testing.assert_close(model.step(SOURCE, decoding)[0], model(plain), rtol=0, atol=1e-9)
