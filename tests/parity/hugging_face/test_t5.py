"""With equal weights, the numbers of Hugging Face's T5."""

from __future__ import annotations

from typing import Any

from library_weights import SIZE, Twin, assert_same_encoder_decoder

SMALL = {
    "d_model": 24, "n_heads": 3, "d_head": 5, "depth": 2, "mixer.n_kv_heads": 3,
    "head.scale": 24**-0.5,
}  # fmt: skip
THEIR_SMALL = {
    "vocab_size": SIZE, "d_model": 24, "num_heads": 3, "d_kv": 5, "num_layers": 2, "d_ff": 96,
}  # fmt: skip

_BIAS = "{}.block.0.layer.0.SelfAttention.relative_attention_bias"  # of every layer
_SELF, _CROSS = "decoder.block.*.layer.0.SelfAttention", "decoder.block.*.layer.1.EncDecAttention"
_ENCODER = "encoder.block.*.layer.0.SelfAttention"
TABLE = {
    "encoder.embedding.tokens": "shared",
    "encoder.embedding.position.table": _BIAS.format("encoder"),
    "encoder.blocks.*.residual.norms.0": "encoder.block.*.layer.0.layer_norm",
    "encoder.blocks.*.mixer.project": (f"{_ENCODER}.q", f"{_ENCODER}.k", f"{_ENCODER}.v"),
    "encoder.blocks.*.mixer.out": f"{_ENCODER}.o",
    "encoder.blocks.*.residual.norms.1": "encoder.block.*.layer.1.layer_norm",
    "encoder.blocks.*.feedforward.up": "encoder.block.*.layer.1.DenseReluDense.wi",
    "encoder.blocks.*.feedforward.down": "encoder.block.*.layer.1.DenseReluDense.wo",
    "encoder.norm": "encoder.final_layer_norm",
    "decoder.embedding.position.table": _BIAS.format("decoder"),
    "decoder.blocks.*.residual.norms.0": "decoder.block.*.layer.0.layer_norm",
    "decoder.blocks.*.mixer.project": (f"{_SELF}.q", f"{_SELF}.k", f"{_SELF}.v"),
    "decoder.blocks.*.mixer.out": f"{_SELF}.o",
    "decoder.blocks.*.residual.norms.1": "decoder.block.*.layer.1.layer_norm",
    "decoder.blocks.*.cross.project": f"{_CROSS}.q",
    "decoder.blocks.*.cross.project_memory": (f"{_CROSS}.k", f"{_CROSS}.v"),
    "decoder.blocks.*.cross.out": f"{_CROSS}.o",
    "decoder.blocks.*.residual.norms.2": "decoder.block.*.layer.2.layer_norm",
    "decoder.blocks.*.feedforward.up": "decoder.block.*.layer.2.DenseReluDense.wi",
    "decoder.blocks.*.feedforward.down": "decoder.block.*.layer.2.DenseReluDense.wo",
    "decoder.norm": "decoder.final_layer_norm",
}  # fmt: skip


def library(**sizes: Any) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(**sizes, use_cache=False, attn_implementation="eager")
    )


TWIN = Twin("t5-small", library, TABLE)


def test_equal_weights_give_the_logits_of_t5() -> None:
    theirs, model = TWIN.pair(SMALL, **THEIR_SMALL)
    assert_same_encoder_decoder(theirs, model, [140, 4, 17], [7, 140, 1])  # further than any bucket


def test_the_preset_has_every_weight_of_the_published_model() -> None:
    TWIN.assert_published_shapes({})
