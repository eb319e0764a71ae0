"""With equal weights, the numbers of Hugging Face's T5, BART and Marian, which is a copy of BART's
code and the original transformer.

Marian's attention has biases that the paper's has not: here they are zero. It also keeps the sines
of a position before the cosines, where the paper alternates them: here its tables are put in order.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from library_weights import SIZE, Table, Twin, Weights, assert_same_encoder_decoder, library

_BIAS = "{}.block.0.layer.0.SelfAttention.relative_attention_bias"  # of every layer
_SELF, _CROSS = "decoder.block.*.layer.0.SelfAttention", "decoder.block.*.layer.1.EncDecAttention"
_ENCODER = "encoder.block.*.layer.0.SelfAttention"
T5_TABLE: Table = {
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


def stack(side: str, sublayers: tuple[str, ...]) -> dict[str, str | tuple[str, ...]]:
    here, there = f"{side}.blocks.*", f"model.{side}.layers.*"
    own, cross = f"{there}.self_attn", f"{there}.encoder_attn"
    norms = {
        f"{here}.residual.norms.{index}": f"{there}.{name}_layer_norm"
        for index, name in enumerate(sublayers)
    }
    return norms | {
        f"{side}.embedding.position.table": f"model.{side}.embed_positions",
        f"{side}.embedding.norm": f"model.{side}.layernorm_embedding",
        f"{here}.mixer.project": (f"{own}.q_proj", f"{own}.k_proj", f"{own}.v_proj"),
        f"{here}.mixer.out": f"{own}.out_proj",
        f"{here}.cross.project": f"{cross}.q_proj",
        f"{here}.cross.project_memory": (f"{cross}.k_proj", f"{cross}.v_proj"),
        f"{here}.cross.out": f"{cross}.out_proj",
        f"{here}.feedforward.up": f"{there}.fc1",
        f"{here}.feedforward.down": f"{there}.fc2",
    }


BART_TABLE: Table = {
    "encoder.embedding.tokens": "model.shared",
    **stack("encoder", ("self_attn", "final")),
    **stack("decoder", ("self_attn", "encoder_attn", "final")),
}


def from_row_two(theirs: Weights) -> Weights:
    """BART's first position is row 2 of a table; no token reads the rows before it."""
    return {name: w[2:] if "embed_positions" in name else w for name, w in theirs.items()}


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


T5 = Twin("t5-small", library("T5ForConditionalGeneration", "T5Config"), T5_TABLE)
BART = Twin(
    "bart-base", library("BartForConditionalGeneration", "BartConfig"), BART_TABLE, from_row_two
)
SMALL = {"d_model": 24, "n_heads": 3, "d_head": 8, "depth": 2, "mixer.n_kv_heads": 3}
THEIR_SMALL = {"d_model": 24} | {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in {"layers": 2, "attention_heads": 3, "ffn_dim": 96}.items()
}


def test_equal_weights_give_the_logits_of_t5() -> None:
    ours = SMALL | {"d_head": 5, "head.scale": 24**-0.5}
    theirs = {"d_model": 24, "num_heads": 3, "d_kv": 5, "num_layers": 2, "d_ff": 96}
    pair = T5.pair(ours, vocab_size=SIZE, **theirs)
    assert_same_encoder_decoder(*pair, [140, 4, 17], [7, 140, 1])  # further than any bucket


def test_equal_weights_give_the_logits_of_bart_with_and_without_its_final_bias() -> None:
    small = SMALL | {"max_len": 14}
    theirs, model = BART.pair(small, **THEIR_SMALL, vocab_size=SIZE, max_position_embeddings=14)
    assert_same_encoder_decoder(theirs, model, [14, 4, 9], [7, 14, 1])
    bias = torch.randn(SIZE, generator=torch.Generator().manual_seed(3)).to(torch.float64)
    theirs.final_logits_bias.copy_(bias)
    with_bias = BART.build((SIZE, SIZE), small | {"head.bias": True}).to(torch.float64).eval()
    with_bias.load_state_dict(model.state_dict() | {"head.project.bias": bias})
    assert_same_encoder_decoder(theirs, with_bias, [14, 4, 9], [7, 14, 1])


def test_equal_weights_give_the_logits_of_the_original_transformer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Its tables of positions are made in single precision otherwise.
    monkeypatch.setattr(torch, "FloatTensor", torch.DoubleTensor)
    given = {"pad_token_id": 0, "decoder_start_token_id": 0, "activation_function": "relu"}
    build = library("MarianMTModel", "MarianConfig", scale_embedding=True, **given)
    tokens = {"vocab_size": SIZE, "decoder_vocab_size": SIZE}
    for preset in ("transformer-base", "transformer-big"):
        twin = Twin(preset, build, BART_TABLE, without_attention_biases)
        theirs, model = twin.pair(SMALL, **THEIR_SMALL, **tokens)
        in_order(theirs)
        assert_same_encoder_decoder(theirs, model, [30, 4, 9], [7, 24, 1])
