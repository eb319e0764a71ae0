"""First gradients by layer and depth, beside finite differences and what Xiong et al. found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_models import transformer
from torch import nn

from ablations.measure import gradients
from ablations.measure.gradients import Gradients, gradient_norms, second_matrices
from ablations.tasks.task import Budget
from ablations.tasks.text import Text
from model.batch import IGNORE, Batch
from model.build import build

CPU = torch.device("cpu")
TRAIN = {"label_smoothing": 0.1, "label_smoothing_over": "all"}


@pytest.fixture(scope="module")
def text() -> Text:
    size = {"characters": 4000, "valid_characters": 500, "test_characters": 500}
    return Text(Text.Config(length=16, **size))


def config(seed: int = 0, **changes: Any) -> dict[str, Any]:
    return {**transformer(**{"d_model": 16, **changes}), "train": TRAIN, "seed": seed}


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean over labels, as the library takes it."""
    counts = batch.labels != IGNORE
    return F.cross_entropy(model(batch)[counts], batch.labels[counts], label_smoothing=0.1)


@pytest.mark.parametrize("residual", ["pre", "post"])
def test_a_norm_is_the_slope_of_the_loss_where_it_is_steepest(text: Text, residual: str) -> None:
    """(L(W + h u) − L(W − h u)) / 2h, u along the gradient, in double precision."""
    (batch,) = next(text.steps(3, Budget(128)))
    model = build(config(residual=residual, depth=3)["model"], None, text.target_size, 3).double()
    found = gradient_norms(model, batch, smoothing=0.1)
    loss_of(model, batch).backward()
    for weight, norm in zip(second_matrices(model), found, strict=True):
        step = 1e-5 * weight.grad / weight.grad.norm()
        with torch.no_grad():
            weight += step
            above = loss_of(model, batch)
            weight -= 2 * step
            below = loss_of(model, batch)
            weight += step
        assert norm == pytest.approx(float(above - below) / 2e-5, rel=1e-5)


def test_what_is_read_is_the_model_of_that_depth(
    text: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradients, "DEPTHS", (2, 4))
    readings = Gradients().take(config(seed=3), text, CPU).readings
    found = {(r.metric, r.at["depth"]): r.value for r in readings}
    (batch,) = next(text.steps(3, Budget(gradients.TOKENS)))
    for depth in gradients.DEPTHS:
        logs = torch.zeros(depth)
        for draw in range(gradients.DRAWS):
            seed = 3 + draw * gradients.APART
            model = build(config(depth=depth)["model"], None, text.target_size, seed)
            loss_of(model, batch).backward()
            norms = [w.grad.norm() for w in second_matrices(model) if w.grad is not None]
            logs += torch.stack(norms).log() / gradients.DRAWS
        assert found["last_gradient", depth] == pytest.approx(float(logs[-1].exp()), rel=1e-4)
