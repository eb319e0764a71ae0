"""With equal weights, the numbers of Hugging Face's Marian, which is the original transformer.

Marian's attention has biases that the paper's has not: here they are zero. It also keeps the sines
of a position before the cosines, where the paper alternates them: here its tables are put in order.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from bart_weights import TABLE, sizes
from library_weights import SIZE, Twin, Weights, assert_same_encoder_decoder

SMALL = {"d_model": 24, "n_heads": 3, "d_head": 8, "depth": 2, "mixer.n_kv_heads": 3}
THEIR_SMALL = sizes(24, 2, 3, 96) | {"size": SIZE}
PUBLISHED = {
    "transformer-base": sizes(512, 6, 8, 2048),
    "transformer-big": sizes(1024, 6, 16, 4096),
}


def library(size: int, **sizes: Any) -> Any:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        **sizes,
        vocab_size=size,
        decoder_vocab_size=size,
        pad_token_id=0,
        decoder_start_token_id=0,
        scale_embedding=True,
        activation_function="relu",
        use_cache=False,
        attn_implementation="eager",
    )
    return MarianMTModel(config)


def without_attention_biases(theirs: Weights) -> Weights:
    return {name: w for name, w in theirs.items() if not name.endswith("_proj.bias")}


def in_order(theirs: Any) -> None:
    """Zero biases in its attention, and position tables as the paper has them."""
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if name.endswith("_proj.bias"):
                weight.zero_()
        for side in (theirs.model.encoder, theirs.model.decoder):
            table = side.embed_positions.create_weight()
            pairs = torch.stack(table.chunk(2, dim=-1), dim=-1)
            side.embed_positions.weight.copy_(pairs.flatten(-2))


def test_equal_weights_give_the_logits_of_the_original_transformer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Its tables of positions are made in single precision otherwise.
    monkeypatch.setattr(torch, "FloatTensor", torch.DoubleTensor)
    twin = Twin("transformer-base", library, TABLE, without_attention_biases)
    theirs, model = twin.pair(SMALL, **THEIR_SMALL)
    in_order(theirs)
    assert_same_encoder_decoder(theirs, model, [30, 4, 9], [7, 24, 1])


@pytest.mark.parametrize("preset", PUBLISHED)
def test_the_preset_has_every_weight_of_the_published_model(preset: str) -> None:
    twin = Twin(preset, library, TABLE, without_attention_biases)
    twin.assert_published_shapes({}, size=37000, **PUBLISHED[preset])
