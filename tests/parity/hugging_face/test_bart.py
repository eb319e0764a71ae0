"""With equal weights, the numbers of Hugging Face's BART."""

from __future__ import annotations

from typing import Any

import torch
from bart_weights import TABLE, sizes
from library_weights import SIZE, Twin, Weights, assert_same_encoder_decoder

SMALL = {
    "d_model": 24, "n_heads": 3, "d_head": 8, "depth": 2, "max_len": 14, "mixer.n_kv_heads": 3,
}  # fmt: skip
THEIR_SMALL = sizes(24, 2, 3, 96) | {"vocab_size": SIZE, "max_position_embeddings": 14}
PUBLISHED = sizes(768, 6, 12, 3072)


def library(**sizes: Any) -> Any:
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(**sizes, use_cache=False, attn_implementation="eager")
    return BartForConditionalGeneration(config)


def from_row_two(theirs: Weights) -> Weights:
    """Their first position is row 2 of a table; no token reads the rows before it."""
    return {name: w[2:] if "embed_positions" in name else w for name, w in theirs.items()}


TWIN = Twin("bart-base", library, TABLE, from_row_two)


def test_equal_weights_give_the_logits_of_bart() -> None:
    theirs, model = TWIN.pair(SMALL, **THEIR_SMALL)
    assert_same_encoder_decoder(theirs, model, [14, 4, 9], [7, 14, 1])


def test_a_head_with_a_bias_has_the_final_logits_bias_of_bart() -> None:
    theirs, plain = TWIN.pair(SMALL, **THEIR_SMALL)
    bias = torch.randn(SIZE, generator=torch.Generator().manual_seed(3)).to(torch.float64)
    theirs.final_logits_bias.copy_(bias)
    with_bias = TWIN.build((SIZE, SIZE), SMALL | {"head.bias": True}).to(torch.float64).eval()
    with_bias.load_state_dict(plain.state_dict() | {"head.project.bias": bias})
    assert_same_encoder_decoder(theirs, with_bias, [14, 4, 9], [7, 14, 1])


def test_the_preset_has_every_weight_of_the_published_model() -> None:
    TWIN.assert_published_shapes({}, **PUBLISHED)
