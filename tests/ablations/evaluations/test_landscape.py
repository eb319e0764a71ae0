"""Curvature against a Hessian; directions as long as the weights; weights as they were."""

from __future__ import annotations

import itertools

import pytest
import torch
from small_models import Given
from small_task import Backwards, small_model
from torch import Tensor, nn

from ablations.evaluations import landscape
from ablations.evaluations.landscape import DIRECTIONS, PLACES, Landscape, direction, mean_loss
from ablations.store.record import Measurement
from ablations.tasks.batching import some
from ablations.tasks.task import Task
from model.batch import Batch
from model.layers import evaluating

CPU = torch.device("cpu")


def taken(model: nn.Module, task: Task) -> dict[str, Measurement]:
    measurements = Landscape().measure(model, task, CPU, 17).measurements
    assert all(
        (r.split, r.unit, r.coordinates) == ("valid", "nats/token", {"step": 17})
        for r in measurements
    )
    return {measurement.metric: measurement for measurement in measurements}


class Small(nn.Module):
    """A table, a hidden layer of halves of its inputs, and an output; no bias but a gain."""

    def __init__(self, size: int = 6, width: int = 5, hidden: int = 7) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64))

        self.table, self.hidden = drawn(size, width), drawn(hidden, width)
        self.out, self.gain = drawn(size, hidden), drawn(hidden)
        self.dropout = nn.Dropout(0.5)

    def forward(self, batch: Batch) -> Tensor:
        x = torch.relu(self.table[batch.inputs] @ self.hidden.T) * self.gain
        return self.dropout(x) @ self.out.T


def words(number: int = 60, length: int = 8, size: int = 6) -> Batch:
    generator = torch.Generator().manual_seed(1)
    return Batch.shifted(torch.randint(size, (number, length + 1), generator=generator))


def test_curvature_is_that_of_the_hessian_along_the_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """dᵀ H d by differentiating twice; the smaller the step, the nearer."""
    model, batch = Small().eval(), words()
    expected = []
    weights = {name: p for name, p in model.named_parameters() if p.dim() == 2}
    for index in range(DIRECTIONS):
        way = direction({name: p.detach() for name, p in weights.items()}, index)
        logits = model(batch)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())
        first = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        slope = sum((g * way[name]).sum() for g, name in zip(first, weights, strict=True))
        second = torch.autograd.grad(slope, list(weights.values()))
        expected += [float((h * way[n]).sum()) for h, n in zip(second, weights, strict=True)]
    mean = sum(expected) / DIRECTIONS
    for step, near in ((landscape.STEP, 0.1), (1e-4, 1e-3)):
        monkeypatch.setattr(landscape, "STEP", step)
        found = taken(model, Given(batch, split="valid"))["curvature"].value
        assert found == pytest.approx(mean, rel=near)


def test_the_surface_is_the_loss_where_its_axes_say() -> None:
    model, task = small_model(dropout=0.3), Backwards()
    surface = taken(model, task)["surface"]
    assert surface.axes == {"x": PLACES, "y": PLACES}
    assert (PLACES[0], PLACES[5], PLACES[-1], len(PLACES)) == (-1.0, 0.0, 1.0, 11)
    batches = some(task.evaluation_batches("valid"), landscape.TOKENS)
    for i, j in itertools.product((0, 3, 5, 10), repeat=2):
        moved = small_model(dropout=0.3)
        weights = {n: p.detach().clone() for n, p in moved.named_parameters() if p.dim() > 1}
        x_way, y_way = (direction(weights, index) for index in (0, 1))
        for name, weight in moved.named_parameters():
            if name in weights:
                weight.data = weights[name] + PLACES[i] * x_way[name] + PLACES[j] * y_way[name]
        with evaluating(moved), torch.no_grad():
            expected = mean_loss(moved, batches)
        assert surface.values[i][j] == pytest.approx(expected, rel=1e-5)


def test_every_row_of_a_direction_is_as_long_as_the_weights_own() -> None:
    model = small_model(tied="all")
    weights = {name: p.detach() for name, p in model.named_parameters() if p.dim() >= 2}
    weights |= {"cube": torch.randn(3, 4, 5), "still": torch.zeros(2, 3)}
    way = direction(weights, 0)
    assert list(way) == list(weights)
    for name, weight in weights.items():
        for row, other in zip(weight, way[name], strict=True):
            torch.testing.assert_close(other.norm(), row.norm())
    assert not way["still"].any()
    first = way["cube"].flatten()
    assert torch.nn.functional.cosine_similarity(first, weights["cube"].flatten(), 0) < 0.9


def test_directions_depend_on_name_and_index_alone() -> None:
    weights = {"a": torch.ones(30, 40), "b": torch.ones(30, 40)}
    first, second = (direction(weights, index) for index in (0, 1))
    assert torch.equal(direction({"a": weights["a"]}, 0)["a"], first["a"])
    cosine = nn.functional.cosine_similarity
    for one, two in ((first["a"], first["b"]), (first["a"], second["a"])):
        assert abs(float(cosine(one.flatten(), two.flatten(), 0))) < 0.1


def test_the_weights_are_as_they_were_when_a_loss_cannot_be_told() -> None:
    class Refuses(Small):
        def forward(self, batch: Batch) -> Tensor:
            if not torch.equal(self.table, self.first):
                raise RuntimeError("elsewhere")
            return super().forward(batch)

    model = Refuses()
    model.first = model.table.detach().clone()  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="elsewhere"):
        taken(model, Given(words(), split="valid"))
    assert torch.equal(model.table, model.first)  # type: ignore[arg-type]
