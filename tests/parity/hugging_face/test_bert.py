"""With equal weights, the numbers of Hugging Face's BERT."""

from __future__ import annotations

from typing import Any

import torch
from library_weights import SIZE, StaysDouble, Table, Twin, assert_same, library, padded
from torch import Tensor

from model.batch import Batch

SMALL = {
    "d_model": 24, "n_heads": 3, "d_head": 8, "depth": 2, "max_len": 14, "mixer.n_kv_heads": 3,
}  # fmt: skip
THEIR_SMALL = {
    "vocab_size": SIZE, "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2,
    "intermediate_size": 96, "max_position_embeddings": 14,
}  # fmt: skip
TOKENS = {"head": {"name": "tokens", "transform": True}, "tied": "output"}

_LAYER = "bert.encoder.layer.*"
_OWN = f"{_LAYER}.attention.self"
BODY: Table = {
    "encoder.embedding.tokens": "bert.embeddings.word_embeddings",
    "encoder.embedding.segments": "bert.embeddings.token_type_embeddings",
    "encoder.embedding.position.table": "bert.embeddings.position_embeddings",
    "encoder.embedding.norm": "bert.embeddings.LayerNorm",
    "encoder.blocks.*.mixer.project": (f"{_OWN}.query", f"{_OWN}.key", f"{_OWN}.value"),
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
