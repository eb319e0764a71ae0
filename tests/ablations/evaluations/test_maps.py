"""Maps of attention are what a model used in that example, and short enough to look at."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import pytest
import torch
from small_models import Given
from small_task import Backwards, small_model
from torch import Tensor, nn

from ablations.evaluations import landscape
from ablations.evaluations.landscape import DIRECTIONS, PLACES, Landscape, direction, mean_loss
from ablations.evaluations.maps import MOST, SHORT, WHOLE, Maps, Positions, examples, single
from ablations.store.record import Measurement
from ablations.tasks import TASK
from ablations.tasks.batching import some
from ablations.tasks.task import Task
from model.attention import attention
from model.batch import BOS, Batch
from model.build import build
from model.layers import evaluating

CPU = torch.device("cpu")
LAYERS = ["encoder.blocks.0.mixer", "decoder.blocks.0.mixer", "decoder.blocks.0.cross"]


def taken(model: nn.Module, task: Task) -> list[Measurement]:
    return Maps().measure(model, task, CPU, 17).measurements


def test_a_map_is_what_the_example_alone_is_attended_with() -> None:
    task, model = Backwards(), small_model(path="explicit")
    measurements = taken(small_model(), task)  # fused, as most models are
    numbers = sorted({int(r.coordinates["example"]) for r in measurements})
    assert len(numbers) == 3
    assert [r.coordinates["layer"] for r in measurements] == LAYERS * 3
    rows = [(b, row) for b in task.evaluation_batches("test") for row in range(len(b.labels))]
    for measurement in measurements:
        alone = single(*rows[int(measurement.coordinates["example"])])
        expected = attention(model, alone)[str(measurement.coordinates["layer"])][0]
        assert [len(places) for places in measurement.axes.values()] == list(expected.shape)
        found = torch.tensor(measurement.values)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_padding_is_no_part_of_an_example() -> None:
    batch = next(b for b in Backwards().evaluation_batches("test") if b.lengths is not None)
    model = small_model(path="explicit")
    whole = attention(model, batch)["decoder.blocks.0.cross"]
    for row, length in enumerate(batch.lengths.tolist()):
        alone = attention(model, single(batch, row))["decoder.blocks.0.cross"]
        assert alone.shape[2] == length
        torch.testing.assert_close(alone[0], whole[row, :, :length, : alone.shape[3]])


def test_the_axes_of_a_map_are_tokens_if_the_task_can_decode_them() -> None:
    task = TASK.build({"name": "reverse", "length": 8, "examples": 30})
    written = {"name": "transformer", "kind": task.kind, "d_model": 8, "depth": 1, "n_heads": 2}
    model = build(written, task.source_size, task.target_size, seed=0)
    measurements = {
        (r.coordinates["example"], r.coordinates["layer"]): r.axes or {} for r in taken(model, task)
    }
    for (example, layer), axes in measurements.items():
        if layer == LAYERS[2]:
            said, read = axes["query"], axes["key"]
            assert said[0] == "<bos>"
            assert read[-1] == "<eos>"
            assert said[1:] == read[:-1][::-1]  # it is to be turned round
            assert measurements[example, LAYERS[0]]["query"] == read
            assert measurements[example, LAYERS[1]]["key"] == said


def test_examples_are_short_and_from_all_over_the_split() -> None:
    lengths = [2, 3, 5, 8, SHORT, SHORT + 1, 40, 4]
    batches = [Batch(x, x, None, x) for x in (torch.full((1, n), 3) for n in lengths)]
    assert [number for number, _ in examples(batches)] == [1, 3, 4]  # of 0 to 4 and 7
    assert [number for number, _ in examples(batches[:2])] == [0, 1]
    assert examples(batches[5:7]) == []


@pytest.mark.parametrize(("length", "shown"), [(50, SHORT), (WHOLE + 1, SHORT), (WHOLE, WHOLE)])
def test_a_long_text_is_shown_from_its_beginning(length: int, shown: int) -> None:
    text = torch.full((4, length), 3)
    text[:, 0] = BOS
    model = build({"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1}, None, 7, seed=0)
    measurements = taken(model, Given(Batch(text, text)))
    assert len(measurements) == 3
    for measurement in measurements:
        assert len(measurement.axes["query"]) == len(measurement.axes["key"]) == shown


# Similarity of positions.

SIZE = 12


def similar(position: dict[str, Any], **model: Any) -> Any:
    config = {"name": "transformer", "kind": "decoder", "d_model": 8, "depth": 1, "n_heads": 2,
              "max_len": 40, "position": position, **model}  # fmt: skip
    own = build(config, None, SIZE, seed=0)
    return own, Positions().measure(own, cast(Task, None), torch.device("cpu"), 7).measurements


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    dot = sum(float(a) * float(b) for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(float(a) ** 2 for a in one) * sum(float(b) ** 2 for b in other))


def test_the_similarity_of_learned_positions_is_that_of_their_table() -> None:
    model, (measurement,) = similar({"name": "learned"})
    (table,) = [m for m in model.modules() if isinstance(m, nn.Embedding)
                and m.num_embeddings == 40]  # fmt: skip
    assert measurement.coordinates == {"step": 7, "stack": "decoder"}
    assert len(measurement.values) == len(measurement.values[0]) == MOST
    for i in (0, 3, 31):
        for j in (0, 5, 30):
            expected = cosine(table.weight[i].detach(), table.weight[j].detach())
            assert measurement.values[i][j] == pytest.approx(expected, abs=1e-4)


def test_without_vectors_at_the_input_it_says_so() -> None:
    _, (measurement,) = similar({"name": "rotary"})
    assert measurement.value is None
    assert measurement.reason == "this model has no vectors of positions at its input"


def taken_landscape(model: nn.Module, task: Task) -> dict[str, Measurement]:
    found = {r.metric: r for r in Landscape().measure(model, task, CPU, 17).measurements}
    assert {(r.split, r.unit) for r in found.values()} == {("valid", "nats/token")}
    return found


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
        found = taken_landscape(model, Given(batch, split="valid"))["curvature"].value
        assert found == pytest.approx(mean, rel=near)


def test_the_surface_is_the_loss_where_its_axes_say() -> None:
    model, task = small_model(dropout=0.3), Backwards()
    surface = taken_landscape(model, task)["surface"]
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


def test_directions_depend_on_name_and_index_alone() -> None:
    weights = {"a": torch.ones(30, 40), "b": torch.ones(30, 40)}
    first, second = (direction(weights, index) for index in (0, 1))
    assert torch.equal(direction({"a": weights["a"]}, 0)["a"], first["a"])
    for other in (first["b"], second["a"], weights["a"]):
        assert abs(cosine(first["a"].flatten(), other.flatten())) < 0.1
