"""With equal weights, the numbers and the gradients of torch.nn.Transformer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from library_weights import (
    SIZE,
    Table,
    Twin,
    Weights,
    assert_same_encoder_decoder,
    assert_same_gradients,
)
from torch import Tensor, nn

D_MODEL, N_HEADS, DEPTH, FEEDFORWARD = 12, 3, 2, 30


class Whole(nn.Module):
    """nn.Transformer between embeddings and a head."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        sizes: dict[str, Any] = {
            "d_model": D_MODEL, "nhead": N_HEADS, "dim_feedforward": FEEDFORWARD, "dropout": 0.0,
            "batch_first": True, "norm_first": norm_first,
        }  # fmt: skip

        def last() -> nn.Module | None:  # as ours: post-norm has already normalised
            return nn.LayerNorm(D_MODEL) if norm_first else None

        self.source, self.target = nn.Embedding(SIZE, D_MODEL), nn.Embedding(SIZE, D_MODEL)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**sizes), DEPTH, last(), enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), DEPTH, last())
        self.head = nn.Linear(D_MODEL, SIZE)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        decoder_input_ids: Tensor,
        decoder_attention_mask: Tensor,
    ) -> Any:
        padding, length = attention_mask == 0, decoder_input_ids.shape[1]
        memory = self.encoder(self.source(input_ids), src_key_padding_mask=padding)
        x = self.decoder(
            self.target(decoder_input_ids),
            memory,
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            tgt_key_padding_mask=decoder_attention_mask == 0,
            memory_key_padding_mask=padding,
        )
        return SimpleNamespace(logits=self.head(x))


def stack(side: str) -> dict[str, str | tuple[str, ...]]:
    here, there = f"{side}.blocks.*", f"{side}.layers.*"
    return {
        f"{here}.mixer.project": f"{there}.self_attn.in_proj",
        f"{here}.mixer.out": f"{there}.self_attn.out_proj",
        f"{here}.feedforward.up": f"{there}.linear1",
        f"{here}.feedforward.down": f"{there}.linear2",
        f"{side}.norm": f"{side}.norm",
        **{f"{here}.residual.norms.{n}": f"{there}.norm{n + 1}" for n in range(3)},
    }


_CROSS = "decoder.layers.*.multihead_attn"
TABLE: Table = {
    "encoder.embedding.tokens": "source",
    "decoder.embedding.tokens": "target",
    **stack("encoder"),
    **stack("decoder"),
    "decoder.blocks.*.cross.project": f"{_CROSS}.query",
    "decoder.blocks.*.cross.project_memory": f"{_CROSS}.memory",
    "decoder.blocks.*.cross.out": f"{_CROSS}.out_proj",
    "head.project": "head",
}


def arranged(theirs: Weights) -> Weights:
    """The query asks the stream, key and value the memory."""
    found = {name.replace("in_proj_", "in_proj."): weight for name, weight in theirs.items()}
    for name in [name for name in found if "multihead_attn.in_proj" in name]:
        joint = found.pop(name)
        found[name.replace("in_proj", "query")] = joint[:D_MODEL]
        found[name.replace("in_proj", "memory")] = joint[D_MODEL:]
    return found


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_equal_weights_give_the_logits_and_the_gradients_of_torch(
    norm_first: bool, path: str
) -> None:
    twin = Twin("transformer-base", Whole, TABLE, arranged)
    changes = {
        "d_model": D_MODEL, "n_heads": N_HEADS, "depth": DEPTH, "tied": "free",
        "embedding_scale": False, "position": {"name": "none"}, "path.name": path,
        "residual.name": "pre" if norm_first else "post", "final_norm": norm_first,
        "feedforward.ratio": FEEDFORWARD / D_MODEL, "mixer.bias": True, "head.bias": True,
    }  # fmt: skip
    theirs, model = twin.pair(changes, norm_first=norm_first)
    both = assert_same_encoder_decoder(theirs, model, [5, 2, 4], [3, 6, 1])
    for logits in both:
        F.cross_entropy(logits, torch.arange(len(logits)) % SIZE).backward()
    assert_same_gradients(twin, theirs, model)
