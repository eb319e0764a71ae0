"""Maps of attention are what a model used in that example, and short enough to look at."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from small_models import Given
from small_task import Backwards, small_model
from torch import nn

from ablations.evaluations.maps import MOST, SHORT, WHOLE, Maps, Positions, examples, single
from ablations.store.record import Measurement
from ablations.tasks import TASK
from ablations.tasks.task import Task
from model.attention import attention
from model.batch import BOS, Batch
from model.build import build

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
        torch.testing.assert_close(
            found.sum(-1), torch.ones(expected.shape[:-1]), atol=2e-3, rtol=0
        )


def test_padding_is_no_part_of_an_example() -> None:
    batch = next(b for b in Backwards().evaluation_batches("test") if b.lengths is not None)
    model = small_model(path="explicit")
    whole = attention(model, batch)["decoder.blocks.0.cross"]
    for row, length in enumerate(batch.lengths.tolist()):
        alone = attention(model, single(batch, row))["decoder.blocks.0.cross"]
        assert alone.shape[2] == length
        torch.testing.assert_close(alone[0], whole[row, :, :length, : alone.shape[3]])


def test_words_stand_beside_a_map_where_the_task_can_tell_them() -> None:
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


def test_learned_positions_are_as_alike_as_the_rows_of_their_table() -> None:
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
