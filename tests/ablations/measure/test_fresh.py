"""What a fresh block changes: nothing at all, everything, or as much as a loop finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_models import transformer

from ablations.measure import fresh
from ablations.measure.fresh import Fresh, relative_changes
from ablations.measure.padding import padded
from ablations.tasks.strings import Copy
from ablations.tasks.task import Budget
from model.batch import Batch, positions
from model.build import build
from model.mixers import Context

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def task() -> Copy:
    return Copy(Copy.Config(length=8, test_lengths=[8], examples=10))


def config(residual: str = "pre", **changes: Any) -> dict[str, Any]:
    return transformer(residual=residual, kind="encoder_decoder", **changes)


@pytest.mark.parametrize("residual", ["pre", "post", "none"])
def test_a_change_is_what_a_loop_over_tokens_finds(residual: str) -> None:
    model = build(transformer(residual=residual, depth=2)["model"], None, 13, 0)
    tokens_BT = torch.randint(3, 13, (4, 6), generator=torch.Generator().manual_seed(0))
    stack: Any = model.decoder
    context = Context(positions(6, tokens_BT), causal=True)
    expected = []
    with torch.inference_mode():
        x_BTD = stack.embedding(tokens_BT, context.positions)
        for block in stack.blocks:
            y_BTD, _ = block(x_BTD, context)
            pairs = list(zip(x_BTD.flatten().tolist(), y_BTD.flatten().tolist(), strict=True))
            changed, whole = sum((y - x) ** 2 for x, y in pairs), sum(x * x for x, _ in pairs)
            expected.append((changed / whole) ** 0.5)
            x_BTD = y_BTD
    found = relative_changes(model, Batch(tokens_BT, inputs=tokens_BT))
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_mean_is_over_the_blocks_of_both_stacks(task: Copy) -> None:
    settings = config(depth=3)
    model = build(settings["model"], task.source_size, task.target_size, 0)
    (batch,) = next(task.steps(0, Budget(fresh.TOKENS)))
    changes = relative_changes(model, batch)
    assert len(changes) == 6
    (reading,) = Fresh().take(settings, task, CPU).readings
    assert reading.value == pytest.approx(sum(changes) / 6)


def test_padding_does_not_count_and_would_if_the_lengths_were_not_told(task: Copy) -> None:
    model = build(config()["model"], task.source_size, task.target_size, 0)
    (batch,) = next(task.steps(0, Budget(64)))
    wider = padded(batch, 20, 20)
    expected = relative_changes(model, padded(batch, 0, 0))
    assert relative_changes(model, wider) == pytest.approx(expected, rel=1e-5)
    untold = replace(wider, lengths=None, source_lengths=None)
    assert relative_changes(model, untold) != pytest.approx(expected, rel=1e-3)
