"""Sizes of published models, beside what their papers say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import TEXT, transformer

from ablations.measure.checks import Structure, sizes
from model.build import build

PAPERS = {
    # words, positions, width, blocks of a stack, inside of the feed-forward
    "bert-base": (30522, 512, 768, 12, 3072),
    "gpt2": (50257, 1024, 768, 12, 3072),
    "bart-base": (50265, 1024, 768, 6, 3072),
    "transformer-base": (37000, None, 512, 6, 2048),
    "transformer-big": (37000, None, 1024, 6, 4096),
    "t5-small": (32128, None, 512, 6, 2048),
    "tinyllama": (32000, None, 2048, 22, 5632),
}
OF = ("words", "positions", "width", "blocks", "inner")


@pytest.fixture(scope="module")
def read() -> dict[tuple[Any, Any], Any]:
    readings = Structure().take(transformer(), TEXT, torch.device("cpu")).readings
    return {(r.at["preset"], r.at["of"]): r for r in readings}


@pytest.mark.parametrize("name", PAPERS)
def test_a_published_model_is_as_large_as_its_paper_says(
    name: str, read: dict[tuple[Any, Any], Any]
) -> None:
    assert tuple(read[name, of].value for of in OF) == PAPERS[name]


def test_positions_without_vectors_say_so(read: dict[tuple[Any, Any], Any]) -> None:
    assert "no vectors" in read["tinyllama", "positions"].reason


def test_sizes_are_those_of_the_weights_and_appended_positions_count_in_the_width() -> None:
    position = {"name": "learned", "join": "concat", "width": 3}
    written = transformer(d_model=8, depth=2, max_len=9, position=position)["model"]
    model: Any = build(written, None, 13, 0)
    shapes = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert shapes["decoder.embedding.tokens.weight"] == (13, 5)
    assert shapes["decoder.blocks.1.feedforward.up.weight"] == (32, 8)
    expected = {"words": 13, "positions": 9, "width": 8, "blocks": 2, "inner": 32}
    assert sizes(model.decoder) == expected
