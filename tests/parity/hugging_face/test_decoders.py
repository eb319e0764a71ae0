"""With equal weights, the numbers of Hugging Face's GPT-2, BLOOM and Llama, which TinyLlama is.

BLOOM's GELU has √(2/π) to eight digits; in double precision that shows in the tenth of a logit.
"""

from __future__ import annotations

from typing import Any

from library_weights import (
    SIZE,
    StaysDouble,
    Table,
    Twin,
    Weights,
    assert_same,
    assert_same_decoder,
    library,
    padded,
    trained,
)

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
    their_gradients = {name: weight.grad for name, weight in trained(theirs).items()}
    for name, gradient in GPT2.translated(their_gradients).items():
        largest = gradient.abs().max()
        assert largest > 0, name
        assert_same(model.get_parameter(name).grad / largest, gradient / largest)


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
