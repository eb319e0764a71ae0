"""Whoever asks a model something leaves every part of it in the mode it was in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from model.attention import attention
from model.batch import Batch
from model.build import build
from model.flops import count
from model.generate import Question, beam, greedy, sample
from model.layers import evaluating

TOKENS = torch.tensor([[3, 4, 5]])
QUESTION = Question(prompt=TOKENS)
ASKED: dict[str, Callable[[Any], Any]] = {
    "attention": lambda model: attention(model, Batch(TOKENS, TOKENS)),
    "greedy": lambda model: greedy(model, QUESTION, 3),
    "sample": lambda model: sample(model, QUESTION, 3),
    "beam": lambda model: beam(model, QUESTION, 3, width=2),
    "count": lambda model: count(model.to("meta"), None, 4),
}


def half_frozen(training: bool) -> nn.Module:
    """The first block is frozen, as in fine-tuning: it stays in evaluation mode."""
    written = {"name": "transformer", "d_model": 8, "dropout": 0.5, "path": "explicit"}
    model = build(written, None, 9, seed=0).train(training)
    model.decoder.blocks[0].eval()
    return model


def modes(model: nn.Module) -> dict[str, bool]:
    assert not any(module._forward_hooks for module in model.modules()), "somebody still watches"
    return {name: module.training for name, module in model.named_modules()}


def fail(*_: Any) -> None:
    raise RuntimeError("in the middle")


def test_every_part_is_left_in_its_own_mode_also_after_a_failure() -> None:
    for training in [True, False]:
        for name in ASKED:
            model = half_frozen(training)
            before = modes(model)
            ASKED[name](model)
            assert modes(model) == before
            model = half_frozen(training)
            fails = model.decoder.blocks[1].feedforward.register_forward_hook(fail)
            with fails, pytest.raises(RuntimeError, match="in the middle"):
                ASKED[name](model)
            assert modes(model) == before


def test_meanwhile_nothing_is_dropped() -> None:
    model = half_frozen(training=True)
    with evaluating(model):
        assert not any(modes(model).values())
        torch.testing.assert_close(*(model(Batch(TOKENS, TOKENS)) for _ in range(2)))
    assert model.training


# What is shown of attention is what the model used.

SOURCE = torch.tensor([[3, 4, 5, 6], [7, 3, 0, 0]])
INPUTS = torch.tensor([[1, 3, 4], [1, 5, 6]])
BATCH = Batch(INPUTS, INPUTS, source=SOURCE, source_lengths=torch.tensor([4, 2]))


def test_every_attention_of_a_transformer_is_shown_by_name() -> None:
    choice = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "n_heads": 2}
    places = [f"encoder.blocks.{i}.mixer" for i in range(2)]
    places += [f"decoder.blocks.{i}.{kind}" for i in range(2) for kind in ("mixer", "cross")]
    for path in ("explicit", "row", "loop"):
        found = attention(build({**choice, "path": path}, 9, 9, seed=0), BATCH)
        assert sorted(found) == sorted(places)
        assert found["decoder.blocks.1.cross"].shape == (2, 2, 3, 4)
        for weights in found.values():
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        assert found["decoder.blocks.0.cross"][1, :, :, 2:].abs().max() == 0, "padding has weight"
        assert found["decoder.blocks.0.mixer"].triu(1).abs().max() == 0, "the future has weight"
    assert attention(build(choice, 9, 9, seed=0), BATCH) == {}, "the fused path has no weights"


def test_a_recurrent_model_shows_one_head() -> None:
    found = attention(build({"name": "recurrent", "d_model": 8}, 9, 9, seed=0), BATCH)
    assert found["shown"].shape == (2, 1, 3, 4)
    torch.testing.assert_close(found["shown"].sum(-1), torch.ones(2, 1, 3))
