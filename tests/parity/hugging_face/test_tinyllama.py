"""With equal weights, the numbers of Hugging Face's Llama, which TinyLlama is built as."""

from __future__ import annotations

from typing import Any

from library_weights import SIZE, Twin, assert_same_decoder

SMALL = {"d_model": 24, "n_heads": 6, "d_head": 4, "depth": 2, "mixer.n_kv_heads": 2}
THEIR_SMALL = {
    "vocab_size": SIZE, "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "intermediate_size": 66,
}  # fmt: skip
PUBLISHED = {
    "vocab_size": 32000, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
    "num_hidden_layers": 22, "intermediate_size": 5632,
}  # fmt: skip

TABLE = {
    "decoder.embedding.tokens": "model.embed_tokens",
    "decoder.blocks.*.residual.norms.0": "model.layers.*.input_layernorm",
    "decoder.blocks.*.mixer.project": (
        "model.layers.*.self_attn.q_proj",
        "model.layers.*.self_attn.k_proj",
        "model.layers.*.self_attn.v_proj",
    ),
    "decoder.blocks.*.mixer.out": "model.layers.*.self_attn.o_proj",
    "decoder.blocks.*.residual.norms.1": "model.layers.*.post_attention_layernorm",
    "decoder.blocks.*.feedforward.into": (
        "model.layers.*.mlp.gate_proj",
        "model.layers.*.mlp.up_proj",
    ),
    "decoder.blocks.*.feedforward.down": "model.layers.*.mlp.down_proj",
    "decoder.norm": "model.norm",
    "head.project": "lm_head",
}


def library(**sizes: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**sizes, rms_norm_eps=1e-5, use_cache=False, attn_implementation="eager")
    return LlamaForCausalLM(config)


TWIN = Twin("tinyllama", library, TABLE)


def test_equal_weights_give_the_logits_of_llama() -> None:
    theirs, model = TWIN.pair(SMALL, **THEIR_SMALL)
    assert_same_decoder(theirs, model, [5, 30, 1, 9])


def test_the_preset_has_every_weight_of_the_published_model() -> None:
    TWIN.assert_published_shapes({}, **PUBLISHED)
