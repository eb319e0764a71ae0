"""With equal weights, the numbers of Hugging Face's BLOOM.

Its GELU has √(2/π) to eight digits; in double precision that shows in the tenth of a logit.
"""

from __future__ import annotations

from typing import Any

from library_weights import SIZE, Twin, Weights, assert_same_decoder

D_HEAD = 8
PUBLISHED = {"vocab_size": 250880, "hidden_size": 1024, "n_head": 16, "n_layer": 24}

TABLE = {
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


def library(**sizes: Any) -> Any:
    from transformers import BloomConfig, BloomForCausalLM

    return BloomForCausalLM(BloomConfig(**sizes, use_cache=False, attn_implementation="eager"))


def regrouped(theirs: Weights) -> Weights:
    """They have query, key and value of each head together; we have all queries first."""
    return {
        name: w.unflatten(0, (-1, 3, D_HEAD)).transpose(0, 1).flatten(0, 2)
        if "query_key_value" in name
        else w
        for name, w in theirs.items()
    }


TWIN = Twin("bloom-560m", library, TABLE, regrouped)


def check(n_heads: int) -> None:
    d_model = n_heads * D_HEAD
    small = {
        "d_model": d_model, "n_heads": n_heads, "d_head": D_HEAD, "depth": 2,
        "mixer.n_kv_heads": n_heads,
    }  # fmt: skip
    theirs, model = TWIN.pair(
        small, vocab_size=SIZE, hidden_size=d_model, n_head=n_heads, n_layer=2
    )
    assert_same_decoder(theirs, model, [5, 30, 1, 9])


def test_equal_weights_give_the_logits_of_bloom() -> None:
    for n_heads in [3, 4]:
        check(n_heads)


def test_the_preset_has_every_weight_of_the_published_model() -> None:
    TWIN.assert_published_shapes({}, **PUBLISHED)
