"""What an untrained model does: to a token itself, to its residual stream, to gradients and scores.

B: sequences, H: heads, T: positions, K: width of a head, D: d_model.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from small_models import transformer
from torch import Tensor, nn

from ablations.benchmarks.throughput import padded
from ablations.measurement import untrained
from ablations.probes import initialisation
from ablations.probes.initialisation import (
    SEQUENCES,
    SYMBOLS,
    WIDTHS,
    Diagonal,
    Gradients,
    Scores,
    distinct,
    entropy_share,
    gradient_norms,
    jacobian_norm,
    relative_changes,
    second_matrices,
)
from ablations.tasks.strings import Copy
from ablations.tasks.task import Budget, Task
from ablations.tasks.text import Text
from model.batch import EOS, IGNORE, Batch, positions
from model.build import build, resolve
from model.mixers import Context

VARIANCES: list[tuple[Any, Any]] = [
    ("none", lambda d: d),
    ("sqrt_d_head", lambda d: 1.0),
    ("sqrt_d_model", lambda d: 1 / 4),  # with four heads
    ("linear", lambda d: 1 / d),
    ("learned", lambda d: 1.0),  # as it starts
    ({"name": "learned", "start": 3.0}, lambda d: 9.0 * d),
]

CPU = torch.device("cpu")

# The weight of a token on itself.

LETTERS = 20


def test_no_token_is_repeated_in_a_sequence_and_none_is_special() -> None:
    tokens_BT = distinct(EOS + 1 + LETTERS, seed=0)
    assert tokens_BT.shape == (SEQUENCES, SYMBOLS)
    assert all(len(set(row)) == SYMBOLS for row in tokens_BT.tolist())
    assert set(tokens_BT.flatten().tolist()) == set(range(EOS + 1, EOS + 1 + LETTERS))
    assert not torch.equal(tokens_BT, distinct(EOS + 1 + LETTERS, seed=1))


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_without_projections_it_is_the_softmax_of_the_tokens_themselves(path: str) -> None:
    letters = Copy(Copy.Config(symbols=LETTERS, length=16, test_lengths=[16], examples=10))
    options = {"kind": "encoder_decoder", "d_model": 32, "position": "none", "path": path}
    config = {**transformer({"name": "basic"}, **options), "seed": 5}
    table = untrained(config, letters).encoder.embedding.tokens.weight.detach().double() * 32**0.5
    found = []
    for row in distinct(len(table), seed=5):
        x_THK = F.layer_norm(table[row], (32,)).view(SYMBOLS, 2, 16)
        for head in range(2):
            for t in range(SYMBOLS):
                scores = [float(x_THK[t, head] @ x_THK[s, head]) / 4 for s in range(SYMBOLS)]
                found.append(float(torch.tensor(scores, dtype=torch.float64).softmax(0)[t]))
    (measurement,) = Diagonal().measure(config, letters, CPU).measurements
    assert measurement.value == pytest.approx(sum(found) / len(found), rel=1e-4)


# The change by a block.


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
            before, after = x_BTD.flatten().tolist(), y_BTD.flatten().tolist()
            expected.append(math.dist(before, after) / math.hypot(*before))
            x_BTD = y_BTD
    found = relative_changes(model, Batch(tokens_BT, inputs=tokens_BT))
    assert found == pytest.approx(expected, rel=1e-5)


def test_padding_counts_only_without_the_lengths() -> None:
    copies = Copy(Copy.Config(length=8, test_lengths=[8], examples=10))
    model = untrained(transformer(kind="encoder_decoder"), copies)
    (batch,) = next(copies.steps(0, Budget(64)))
    wider = padded(batch, 20, 20)
    expected = relative_changes(model, padded(batch, 0, 0))
    assert relative_changes(model, wider) == pytest.approx(expected, rel=1e-5)
    untold = replace(wider, lengths=None, source_lengths=None)
    assert relative_changes(model, untold) != pytest.approx(expected, rel=1e-3)


# The first gradient.

TRAIN = {"label_smoothing": 0.1, "label_smoothing_over": "all"}


@pytest.fixture(scope="module")
def text() -> Text:
    size = {"characters": 4000, "valid_characters": 500, "test_characters": 500}
    return Text(Text.Config(length=16, **size))


def trained(**changes: Any) -> dict[str, Any]:
    return {**transformer(d_model=16, **changes), "train": TRAIN, "seed": 3}


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean over labels, as the library takes it."""
    counts = batch.labels != IGNORE
    return F.cross_entropy(model(batch)[counts], batch.labels[counts], label_smoothing=0.1)


@pytest.mark.parametrize("residual", ["pre", "post"])
def test_a_norm_is_the_slope_of_the_loss_where_it_is_steepest(text: Text, residual: str) -> None:
    """(L(W + h u) − L(W − h u)) / 2h, u along the gradient, in double precision."""
    (batch,) = next(text.steps(3, Budget(128)))
    model = untrained(trained(residual=residual, depth=3), text).double()
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
    monkeypatch.setattr(initialisation, "DEPTHS", (2, 4))
    measurements = Gradients().measure(trained(), text, CPU).measurements
    found = {r.coordinates["depth"]: r.value for r in measurements}
    (batch,) = next(text.steps(3, Budget(initialisation.GRADIENT_TOKENS)))
    for depth in initialisation.DEPTHS:
        norms = []
        for draw in range(initialisation.DRAWS):
            seed = 3 + draw * initialisation.APART
            model = build(trained(depth=depth)["model"], None, text.target_size, seed)
            loss_of(model, batch).backward()
            *_, last = second_matrices(model)
            norms.append(float(last.grad.norm()))  # type: ignore[union-attr]
        assert found[depth] == pytest.approx(statistics.geometric_mean(norms), rel=1e-4)


# Scores and their softmax.


def test_the_variance_is_the_width_times_the_square_of_the_scale() -> None:
    for scale, variance in VARIANCES:
        config = {"model": resolve({"name": "transformer", "scale": scale}), "seed": 0}
        measurements = Scores().measure(config, cast(Task, None), CPU).measurements
        found = {(r.metric, r.coordinates["d_head"]): r.value for r in measurements}
        assert None not in found.values()
        for width in WIDTHS:
            assert found["score_variance", width] == pytest.approx(variance(width), rel=0.1)


def test_entropy_is_that_of_a_sum_by_hand() -> None:
    p = (0.5, 0.25, 0.125, 0.125)
    by_hand = -sum(each * math.log(each) for each in p) / math.log(4)
    torch.testing.assert_close(entropy_share(torch.tensor(p)), torch.tensor(by_hand))
    torch.testing.assert_close(entropy_share(torch.full((9,), 1 / 9)), torch.tensor(1.0))
    torch.testing.assert_close(entropy_share(torch.eye(5)[2]), torch.tensor(0.0))


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_the_norm_is_that_of_the_jacobian_as_autograd_has_it(size: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores_S = size * torch.randn(7, generator=generator, dtype=torch.float64)

    def softmax(scores_S: Tensor) -> Tensor:
        return scores_S.softmax(-1)

    jacobian_SS: Any = torch.autograd.functional.jacobian(softmax, scores_S)
    torch.testing.assert_close(jacobian_norm(softmax(scores_S)), jacobian_SS.norm())
