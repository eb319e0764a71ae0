"""With equal weights, the numbers of Hugging Face's GPT-2."""

from __future__ import annotations

from typing import Any

from library_weights import (
    SIZE,
    StaysDouble,
    Twin,
    Weights,
    assert_same,
    padded,
    trained,
)

from model.batch import IGNORE, Batch
from model.loss import cross_entropy

SMALL = {
    "d_model": 24, "n_heads": 3, "d_head": 8, "depth": 2, "max_len": 12, "mixer.n_kv_heads": 3,
}  # fmt: skip
THEIR_SMALL = {
    "vocab_size": SIZE, "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 12,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip

TABLE = {
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


def library(**sizes: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(**sizes, use_cache=False, attn_implementation="eager"))


def turned(theirs: Weights) -> Weights:
    """Their projections have a row for each input, ours for each output."""
    return {name: w.T if ".c_" in name and w.dim() == 2 else w for name, w in theirs.items()}


TWIN = Twin("gpt2", library, TABLE, turned)


def test_equal_weights_give_the_loss_and_the_gradients_of_gpt2() -> None:
    theirs, model = TWIN.pair(SMALL, **THEIR_SMALL)
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
    for name, gradient in TWIN.translated(their_gradients).items():
        largest = gradient.abs().max()
        assert largest > 0, name
        assert_same(model.get_parameter(name).grad / largest, gradient / largest)


def test_the_preset_has_every_weight_of_the_published_model() -> None:
    TWIN.assert_published_shapes({})
