"""With equal weights, the numbers of Hugging Face's GPT-2, BLOOM and Llama, which TinyLlama is.

BLOOM's GELU has √(2/π) to eight digits; in double precision that shows in the tenth of a logit.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from library_weights import (
    SIZE,
    StaysDouble,
    Table,
    Twin,
    Weights,
    assert_same,
    assert_same_decoder,
    assert_same_encoder_decoder,
    assert_same_gradients,
    library,
    padded,
)
from torch import Tensor

from model.batch import IGNORE, Batch, cross_entropy

GPT2_TABLE = {
    "decoder.embedding.tokens": "transformer.wte",
    "decoder.embedding.position.table": "transformer.wpe",
    "decoder.blocks.*.residual.norms.0": "transformer.h.*.ln_1",
    "decoder.blocks.*.mixer.project": "transformer.h.*.attn.c_attn",
    "decoder.blocks.*.mixer.out": "transformer.h.*.attn.c_proj",
    "decoder.blocks.*.residual.norms.1": "transformer.h.*.ln_2",
    "decoder.blocks.*.feedforward.up": "transformer.h.*.mlp.c_fc",
    "decoder.blocks.*.feedforward.down": "transformer.h.*.mlp.c_proj",
    "decoder.norm": "transformer.ln_f",
}
BLOOM_TABLE = {
    "decoder.embedding.tokens": "transformer.word_embeddings",
    "decoder.embedding.norm": "transformer.word_embeddings_layernorm",
    "decoder.blocks.*.residual.norms.0": "transformer.h.*.input_layernorm",
    "decoder.blocks.*.mixer.project": "transformer.h.*.self_attention.query_key_value",
    "decoder.blocks.*.mixer.out": "transformer.h.*.self_attention.dense",
    "decoder.blocks.*.residual.norms.1": "transformer.h.*.post_attention_layernorm",
    "decoder.blocks.*.feedforward.up": "transformer.h.*.mlp.dense_h_to_4h",
    "decoder.blocks.*.feedforward.down": "transformer.h.*.mlp.dense_4h_to_h",
    "decoder.norm": "transformer.ln_f",
}
_OWN, _MLP = "model.layers.*.self_attn", "model.layers.*.mlp"
LLAMA_TABLE: Table = {
    "decoder.embedding.tokens": "model.embed_tokens",
    "decoder.blocks.*.residual.norms.0": "model.layers.*.input_layernorm",
    "decoder.blocks.*.mixer.project": (f"{_OWN}.q_proj", f"{_OWN}.k_proj", f"{_OWN}.v_proj"),
    "decoder.blocks.*.mixer.out": f"{_OWN}.o_proj",
    "decoder.blocks.*.residual.norms.1": "model.layers.*.post_attention_layernorm",
    "decoder.blocks.*.feedforward.into": (f"{_MLP}.gate_proj", f"{_MLP}.up_proj"),
    "decoder.blocks.*.feedforward.down": f"{_MLP}.down_proj",
    "decoder.norm": "model.norm",
    "head.project": "lm_head",
}
D_HEAD = 8


def turned(theirs: Weights) -> Weights:
    """GPT-2's projections have a row for each input, ours for each output."""
    return {name: w.T if ".c_" in name and w.dim() == 2 else w for name, w in theirs.items()}


def regrouped(theirs: Weights) -> Weights:
    """BLOOM has query, key and value of each head together; we have all queries first."""
    return {
        name: w.unflatten(0, (-1, 3, D_HEAD)).transpose(0, 1).flatten(0, 2)
        if "query_key_value" in name
        else w
        for name, w in theirs.items()
    }


GPT2 = Twin("gpt2", library("GPT2LMHeadModel", "GPT2Config"), GPT2_TABLE, turned)
BLOOM = Twin("bloom-560m", library("BloomForCausalLM", "BloomConfig"), BLOOM_TABLE, regrouped)
LLAMA = Twin(
    "tinyllama", library("LlamaForCausalLM", "LlamaConfig", rms_norm_eps=1e-5), LLAMA_TABLE
)


def small(n_heads: int, d_head: int = D_HEAD, n_kv_heads: int | None = None) -> dict[str, Any]:
    sizes = {"d_model": n_heads * d_head, "n_heads": n_heads, "d_head": d_head, "depth": 2}
    return {**sizes, "mixer.n_kv_heads": n_kv_heads or n_heads}


def test_equal_weights_give_the_loss_and_the_gradients_of_gpt2() -> None:
    theirs, model = GPT2.pair(
        small(3) | {"max_len": 12},
        vocab_size=SIZE, n_embd=24, n_head=3, n_layer=2, n_positions=12,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    tokens, lengths, real = padded([5, 12, 2, 9], seed=1)
    labels = tokens.masked_fill(~real, IGNORE)
    with StaysDouble():
        expected = theirs(input_ids=tokens, attention_mask=real.long(), labels=labels).loss
    expected.backward()

    batch = Batch.shifted(tokens, lengths)
    loss = cross_entropy(model(batch), batch.labels) / batch.tokens
    loss.backward()
    assert_same(loss, expected)
    assert_same_gradients(GPT2, theirs, model)


def test_equal_weights_give_the_logits_of_bloom() -> None:
    for n in (3, 4):
        sizes = {"vocab_size": SIZE, "hidden_size": n * D_HEAD, "n_head": n, "n_layer": 2}
        assert_same_decoder(*BLOOM.pair(small(n), **sizes), [5, 30, 1, 9])


def test_equal_weights_give_the_logits_of_llama() -> None:
    pair = LLAMA.pair(
        small(6, 4, 2),
        vocab_size=SIZE, hidden_size=24, num_attention_heads=6, num_key_value_heads=2,
        num_hidden_layers=2, intermediate_size=66,
    )  # fmt: skip
    assert_same_decoder(*pair, [5, 30, 1, 9])


SMALL = {
    "d_model": 24, "n_heads": 3, "d_head": 8, "depth": 2, "max_len": 14, "mixer.n_kv_heads": 3,
}  # fmt: skip
THEIR_SMALL = {
    "vocab_size": SIZE, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2,
    "intermediate_size": 96, "max_position_embeddings": 14,
}  # fmt: skip
TOKENS = {"head": {"name": "tokens", "transform": True}, "tied": "output"}

_LAYER = "bert.encoder.layer.*"
_BERT = f"{_LAYER}.attention.self"
BODY: Table = {
    "encoder.embedding.tokens": "bert.embeddings.word_embeddings",
    "encoder.embedding.segments": "bert.embeddings.token_type_embeddings",
    "encoder.embedding.position.table": "bert.embeddings.position_embeddings",
    "encoder.embedding.norm": "bert.embeddings.LayerNorm",
    "encoder.blocks.*.mixer.project": (
        f"{_BERT}.query",
        f"{_BERT}.key",
        f"{_BERT}.value",
    ),
    "encoder.blocks.*.mixer.out": f"{_LAYER}.attention.output.dense",
    "encoder.blocks.*.residual.norms.0": f"{_LAYER}.attention.output.LayerNorm",
    "encoder.blocks.*.feedforward.up": f"{_LAYER}.intermediate.dense",
    "encoder.blocks.*.feedforward.down": f"{_LAYER}.output.dense",
    "encoder.blocks.*.residual.norms.1": f"{_LAYER}.output.LayerNorm",
}
TOKENS_TABLE: Table = {
    **BODY,
    "head.dense": "cls.predictions.transform.dense",
    "head.norm": "cls.predictions.transform.LayerNorm",
    "head.project": "cls.predictions",  # its bias; the weight is the embedding's
}
CLASSES_TABLE: Table = {**BODY, "head.dense": "bert.pooler.dense", "head.classify": "classifier"}


MASKED = Twin("bert-base", library("BertForMaskedLM", "BertConfig"), TOKENS_TABLE)
CLASSIFYING = Twin(
    "bert-classifier", library("BertForSequenceClassification", "BertConfig"), CLASSES_TABLE
)


def both(theirs: Any, model: Any, has_segments: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Our answers and theirs, and which tokens are real."""
    tokens, lengths, real = padded([5, 14, 1, 9], seed=1)
    segments = (tokens + torch.arange(14)) % 2 if has_segments else None
    with StaysDouble():
        expected = theirs(
            input_ids=tokens, attention_mask=real.long(), token_type_ids=segments
        ).logits
    batch = Batch(tokens, source=tokens, source_lengths=lengths, segments=segments)
    return model(batch), expected, real


def test_equal_weights_give_the_masked_tokens_of_bert() -> None:
    for has_segments in [True, False]:
        pair = MASKED.pair(SMALL | TOKENS, **THEIR_SMALL)
        ours, theirs, real = both(*pair, has_segments)
        assert_same(ours[real], theirs[real])


def test_equal_weights_give_the_classes_of_bert() -> None:
    pair = CLASSIFYING.pair(SMALL, num_labels=SIZE, **THEIR_SMALL)
    ours, theirs, _ = both(*pair, has_segments=True)
    assert_same(ours, theirs)


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
SIZES = {"d_model": 24, "n_heads": 3, "d_head": 8, "depth": 2, "mixer.n_kv_heads": 3}
THEIR_SIZES = {"d_model": 24} | {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in {"layers": 2, "attention_heads": 3, "ffn_dim": 96}.items()
}


def test_equal_weights_give_the_logits_of_t5() -> None:
    ours = SIZES | {"d_head": 5, "head.scale": 24**-0.5}
    theirs = {"d_model": 24, "num_heads": 3, "d_kv": 5, "num_layers": 2, "d_ff": 96}
    pair = T5.pair(ours, vocab_size=SIZE, **theirs)
    assert_same_encoder_decoder(*pair, [140, 4, 17], [7, 140, 1])  # further than any bucket


def test_equal_weights_give_the_logits_of_bart_with_and_without_its_final_bias() -> None:
    small = SIZES | {"max_len": 14}
    theirs, model = BART.pair(small, **THEIR_SIZES, vocab_size=SIZE, max_position_embeddings=14)
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
        theirs, model = twin.pair(SIZES, **THEIR_SIZES, **tokens)
        in_order(theirs)
        assert_same_encoder_decoder(theirs, model, [30, 4, 9], [7, 24, 1])
