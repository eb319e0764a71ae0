"""What is lost with a head, against weights that are cut out, and how far heads are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_task import Backwards, small_model
from torch import nn

from ablations.evaluations import heads as module
from ablations.evaluations.heads import (
    SHARES,
    Head,
    HeadsNeeded,
    apart,
    divergence,
    importances,
    nats,
    unfused,
)
from ablations.evaluations.maps import single
from ablations.store.record import Measurement
from ablations.tasks.task import Task
from ablations.train.loop import validate
from model.attention import MASK, attention
from model.batch import Batch
from model.mixers.attention import Heads

CPU = torch.device("cpu")
few = settings(max_examples=25)
LAYERS = ["encoder.blocks.0.mixer", "decoder.blocks.0.mixer", "decoder.blocks.0.cross"]


def lively(seed: int = 3, **options: Any) -> nn.Module:
    """First weights, doubled: its heads have something to lose."""
    model = small_model(seed, **options)
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, nn.Linear):
                part.weight *= 2
    return model


def layers_of(model: nn.Module) -> dict[str, Heads]:
    return {name: part for name, part in model.named_modules() if isinstance(part, Heads)}


def scaled(model: nn.Module, head: Head, factor: float) -> nn.Module:
    """By its weights alone: the columns of the output map that read this head."""
    copied = deepcopy(model)
    layer: Any = copied.get_submodule(head[0])
    columns = slice(head[1] * layer.d_head, (head[1] + 1) * layer.d_head)
    with torch.no_grad():
        layer.out.weight[:, columns] *= factor
    return copied


def without(model: nn.Module, removed: Sequence[Head]) -> nn.Module:
    for head in removed:
        model = scaled(model, head, 0.0)
    return model


def taken(model: nn.Module, task: Task | None = None) -> list[Measurement]:
    return HeadsNeeded().measure(model, task or Backwards(), CPU, 17).measurements


def value(measurements: list[Measurement], metric: str, **at: Any) -> float:
    (found,) = (
        r for r in measurements if r.metric == metric and r.coordinates == {"step": 17, **at}
    )
    return found.value


def sequences(batches: list[Batch]) -> list[Batch]:
    """Each by itself, without padding."""
    alone = [single(batch, row) for batch in batches for row in range(len(batch.labels))]
    return [replace(one, labels=one.labels[:, : one.inputs.shape[1]]) for one in alone]


def test_a_removed_head_is_one_whose_weights_are_cut_out() -> None:
    task = Backwards()
    batches, every = task.evaluation_batches("test"), list(product(LAYERS, (0, 1)))
    for options, removed in (
        ({}, [(LAYERS[0], 0)]),
        ({}, [(LAYERS[0], 1)]),
        ({"path": "explicit"}, [(LAYERS[2], 1)]),
        ({"mixer": "window"}, [(LAYERS[1], 0), (LAYERS[1], 1)]),
        ({}, every),
    ):
        model = lively(**options)
        expected = validate(without(model, removed), task, CPU, "test")
        assert nats(model, layers_of(model), batches, removed) == pytest.approx(expected, rel=1e-5)


def test_importance_is_the_slope_of_each_sequences_loss() -> None:
    """By a step to either side, in weights, of each sequence alone."""
    model, batches, step = lively().double(), Backwards().evaluation_batches("valid"), 1e-5
    layers = layers_of(model)
    found = importances(model, layers, batches)
    alone = sequences(batches)
    for head in found:
        sides = [scaled(model, head, 1 + sign * step) for sign in (1, -1)]
        slopes = [
            (nats(sides[0], {}, [one]) - nats(sides[1], {}, [one])) * one.tokens / (2 * step)
            for one in alone
        ]
        mean = sum(map(abs, slopes)) / len(alone)
        assert found[head] == pytest.approx(mean, rel=1e-4)
        assert abs(sum(slopes)) / len(alone) < mean  # sequences would cancel out in a sum


def test_the_curve_is_that_of_weights_cut_out_in_the_order_of_importance() -> None:
    model, task = lively(), Backwards()
    measurements = taken(model, task)
    found = importances(model, layers_of(model), task.evaluation_batches("valid"))
    ranked = sorted(found, key=lambda head: found[head])
    whole = validate(model, task, CPU, "test")
    for share, number in zip(SHARES, (1, 1, 2, 4, 5, 6), strict=True):  # of six heads
        gone = validate(without(model, ranked[:number]), task, CPU, "test")
        expected = pytest.approx(math.exp(gone - whole), rel=1e-4)
        assert value(measurements, "pruned_ratio", removed=share, by="importance") == expected
    drawn = value(measurements, "pruned_ratio", removed=1.0, by="random")
    assert drawn == pytest.approx(math.exp(gone - whole), rel=1e-4)


def slow_divergence(rows: list[list[float]]) -> float:
    """Of one query: rows of heads, in plain Python."""

    def relative(p: list[float], q: list[float]) -> float:
        return sum(x * math.log2(x / y) for x, y in zip(p, q, strict=True) if x > 0)

    bits = []
    for p, q in combinations(rows, 2):
        middle = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
        bits.append((relative(p, middle) + relative(q, middle)) / 2)
    return sum(bits) / len(bits)


@few
@given(seed=st.integers(0, 999), heads=st.integers(2, 5), spread=st.sampled_from([0.1, 1.0, 9.0]))
def test_divergence_is_that_of_a_slow_computation(seed: int, heads: int, spread: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, heads, 3, 6, generator=draw) * spread
    scores[..., 4:] = -math.inf  # hidden
    weights = scores.double().softmax(-1)
    expected = [[slow_divergence(weights[b, :, t].tolist()) for t in range(3)] for b in range(2)]
    torch.testing.assert_close(apart(weights), torch.tensor(expected, dtype=torch.float64))


def test_padding_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batches = lively(), []
    for b in Backwards().evaluation_batches("test"):  # sources as long as those of other targets
        sources = [x if x is None else x.flip(0) for x in (b.source, b.source_lengths)]
        batches.append(Batch(b.labels, b.inputs, b.lengths, *sources))
    alone = divergence(model, sequences(batches))
    assert divergence(model, batches) == pytest.approx(alone)
    monkeypatch.setattr(module, "_real", lambda *_: slice(None))
    assert divergence(model, batches) != pytest.approx(alone, rel=1e-3)  # it would be seen


def test_the_first_weights_are_those_of_a_model_that_is_built() -> None:
    test = Backwards().evaluation_batches("test")
    measurements = taken(lively(seed=5))
    first = value(measurements, "head_divergence", weights="first")
    drawn = [divergence(small_model(seed=seed), test) for seed in range(module.DRAWS)]
    assert first == pytest.approx(sum(each or 0.0 for each in drawn) / module.DRAWS)
    trained = value(measurements, "head_divergence", weights="trained")
    assert trained == pytest.approx(divergence(lively(seed=5), test))
    assert value(measurements, "divergence_ratio") == pytest.approx(trained / first)


def test_the_weights_of_every_path_and_mask_are_shown_without_other_numbers() -> None:
    (batch, *_) = Backwards().evaluation_batches("test")
    showing = product(("explicit", "row", "loop"), MASK.components)
    for path, mask in [("fused", "infinity"), *showing]:
        model = lively(path=path, mask=mask).double().eval()
        shown = unfused(model)
        torch.testing.assert_close(shown(batch), model(batch))
        weights = attention(shown, batch)
        assert sorted(weights) == sorted(LAYERS)
        torch.testing.assert_close(attention(model, batch) or weights, weights)
