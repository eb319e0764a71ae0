"""A published model that is built without weights and then loaded is the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model.constant import Constant
from torch import nn

from model import preset
from model.batch import Batch
from model.build import build

SIZE = 40
SMALL = {"d_model": 16, "n_heads": 4, "d_head": 4, "depth": 2, "max_len": 16}
TOKENS = torch.randint(3, SIZE, (3, 12), generator=torch.Generator().manual_seed(0))
BATCH = Batch(TOKENS, TOKENS, torch.tensor([12, 5, 7]), TOKENS.flip(0), torch.tensor([12, 12, 4]))


def small(name: str) -> dict[str, Any]:
    written = {**preset.load(name).model, **SMALL}
    return {**written, "mixer": {**written["mixer"], "n_kv_heads": 2}}


def emptied(written: dict[str, Any]) -> nn.Module:
    """On the CPU, with nothing but NaN and absurd numbers in it."""
    with torch.device("meta"):
        model = build(written, SIZE, SIZE, seed=None).eval()
    torch.use_deterministic_algorithms(True)  # which fills memory that nobody wrote to
    try:
        return model.to_empty(device="cpu")
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", preset.names())
def test_a_preset_that_was_built_on_meta_answers_as_the_one_it_is_loaded_from(name: str) -> None:
    real = build(small(name), SIZE, SIZE, seed=0).eval()
    loaded = emptied(small(name))
    loaded.load_state_dict(real.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(loaded(BATCH), real(BATCH), rtol=0, atol=0)


def test_weights_that_are_one_learn_as_one_after_a_load() -> None:
    real = build(small("gpt2"), SIZE, SIZE, seed=0)
    with torch.device("meta"):
        assigned = build(small("gpt2"), SIZE, SIZE, seed=None)
    assigned.load_state_dict(real.state_dict(), assign=True)
    loaded = emptied(small("gpt2"))
    loaded.load_state_dict(real.state_dict())
    for model in (real, loaded, assigned):
        model.eval()(BATCH).square().sum().backward()
        assert model.head.project.weight is model.decoder.embedding.tokens.weight
        torch.testing.assert_close(model.head.project.weight.grad, real.head.project.weight.grad)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_constant_is_rounded_once_from_what_was_written(dtype: torch.dtype) -> None:
    """Not twice, by way of single precision."""
    moved = Constant([0.1, 1 / 3]).bfloat16().to(dtype)
    expected = torch.tensor([0.1, 1 / 3], dtype=dtype)
    torch.testing.assert_close(moved(torch.device("cpu")), expected, rtol=0, atol=0)
    assert moved.state_dict() == {}
