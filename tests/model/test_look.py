"""What is shown of attention is what the model used."""

from __future__ import annotations

import torch

from model.batch import Batch
from model.build import build
from model.evaluating import attention

SOURCE = torch.tensor([[3, 4, 5, 6], [7, 3, 0, 0]])
INPUTS = torch.tensor([[1, 3, 4], [1, 5, 6]])
BATCH = Batch(INPUTS, INPUTS, source=SOURCE, source_lengths=torch.tensor([4, 2]))


def test_every_attention_of_a_transformer_is_shown_by_name() -> None:
    choice = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "n_heads": 2}
    found = attention(build({**choice, "path": "explicit"}, 9, 9, seed=0), BATCH)
    places = [f"encoder.blocks.{i}.mixer" for i in range(2)]
    places += [f"decoder.blocks.{i}.{kind}" for i in range(2) for kind in ("mixer", "cross")]
    assert sorted(found) == sorted(places)
    assert found["decoder.blocks.1.cross"].shape == (2, 2, 3, 4)
    for weights in found.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert found["decoder.blocks.0.cross"][1, :, :, 2:].abs().max() == 0, "padding has weight"
    future = found["decoder.blocks.0.mixer"].triu(1)
    assert future.abs().max() == 0


def test_a_recurrent_model_shows_one_head() -> None:
    found = attention(build({"name": "recurrent", "d_model": 8}, 9, 9, seed=0), BATCH)
    ((name, weights),) = found.items()
    assert name == "shown"
    assert weights.shape == (2, 1, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 3))


def test_the_fused_path_has_nothing_to_show() -> None:
    choice = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8}
    assert attention(build(choice, 9, 9, seed=0), BATCH) == {}
