"""Past the trained length: the same tokens in every band, and models whose answer is known."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ablations.measure import beyond
from ablations.measure.beyond import BANDS, Beyond, stretches
from ablations.store.record import Reading
from ablations.tasks import TASK
from ablations.tasks.text import Text
from model.batch import Batch
from model.build import build

CPU = torch.device("cpu")
LENGTH = 8
LINE = "In the beginning was the word, and the word was with them that heard it.\n"


def text(folder: Path, length: int = LENGTH, lines: int = 200) -> Text:
    file = folder / "text.txt"
    file.write_text("".join(f"{number} {LINE}" for number in range(lines)))
    task = TASK.build({"name": "text", "file": str(file), "length": length})
    assert isinstance(task, Text)
    return task


def taken(model: nn.Module, task: Any) -> dict[tuple[str, float], Reading]:
    readings = Beyond().take(model, task, CPU, 17).readings
    assert all((r.split, r.at["step"]) == ("test", 17) for r in readings)
    return {(reading.metric, float(reading.at["past"])): reading for reading in readings}


class Uniform(nn.Module):
    """Has no opinion, and notes what it read for the tokens that are its to predict."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.read: list[tuple[int, list[int]]] = []  # length of the window, its labels

    def forward(self, batch: Batch) -> Tensor:
        assert batch.inputs is not None
        self.read += [(batch.inputs.shape[1], row) for row in batch.labels.tolist()]
        return torch.zeros(*batch.inputs.shape, self.size)


@pytest.mark.parametrize("length", [2, 7, 8])
def test_every_band_predicts_the_same_tokens_of_the_text(tmp_path: Path, length: int) -> None:
    """Told apart by where they stand: here every token of test is another one."""
    task = text(tmp_path, length)
    windows, half = task.windows("test"), length // 2
    windows.stream_N = torch.arange(len(windows.stream_N), dtype=torch.int32)
    model = Uniform(len(windows.stream_N))
    taken(model, task)
    predicted: dict[int, list[int]] = defaultdict(list)
    for size, labels in model.read:
        targets = 4 * half if size == 4 * length else half
        predicted[size] += labels[-targets:]
    assert set(predicted) == {length, length + half, 4 * length}
    first, *others = (sorted(tokens) for tokens in predicted.values())
    assert all(other == first for other in others)
    assert len(set(first)) == len(first), "each once"


def naive(model: nn.Module, task: Text, past: float, width: float) -> float:
    """One token at a time: its bits after every past that its band has for it in that place."""
    length, stream = task.config.length, task.windows("test").stream_N.tolist()
    half = length // 2
    total = []
    with torch.inference_mode():
        for end in stretches(len(stream), length).tolist():
            for target in range(end - 4 * half, end):
                targets = int(width * half)
                left = (end - 1 - target) % targets  # tokens of its window after it
                read = int(past * length) - left
                inputs = torch.tensor([stream[target - read : target]])
                logits = model(Batch(inputs, inputs=inputs))[0, -1].double()
                total.append(-float(logits.log_softmax(-1)[stream[target]]) / math.log(2))
    return sum(total) / len(total)


@pytest.mark.parametrize(("position", "length"), [("sinusoidal", 6), ("rotary", 7)])
def test_bits_are_those_of_a_slow_computation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: str, length: int
) -> None:
    monkeypatch.setattr(beyond, "TARGETS", 40)
    monkeypatch.setattr(beyond, "BATCH_TOKENS", 50)
    task = text(tmp_path, length)
    model = decoder(task, position)
    found = taken(model, task)
    bits = {past: naive(model, task, past, width) for past, width in BANDS.items()}
    for past in BANDS:
        assert found["bits_at", past].value == pytest.approx(bits[past], rel=1e-5)
    for past in (1.5, 4.0):
        ratio = 2 ** (bits[past] - bits[1.0])
        assert found["perplexity_ratio", past].value == pytest.approx(ratio, rel=1e-5)


def decoder(task: Text, position: str, max_len: int = 64) -> nn.Module:
    options = {"kind": "decoder", "d_model": 8, "n_heads": 2, "depth": 2, "max_len": max_len}
    written = {"name": "transformer", **options, "position": {"name": position}, "dropout": 0.1}
    return build(written, None, task.target_size, seed=0).eval()


def test_where_a_model_has_no_positions_left_it_is_null_with_the_models_reason(
    tmp_path: Path,
) -> None:
    task = text(tmp_path)
    found = taken(decoder(task, "learned", max_len=2 * LENGTH), task)
    assert found["bits_at", 1.0].value is not None
    assert found["perplexity_ratio", 1.5].value is not None
    for name in ("bits_at", "perplexity_ratio"):
        assert found[name, 4.0].value is None
        assert "positions end at max_len=16, asked for 32" in (found[name, 4.0].reason or "")
    everywhere = taken(decoder(task, "learned", max_len=2), task)
    assert all(r.value is None and "max_len=2" in (r.reason or "") for r in everywhere.values())


@pytest.mark.parametrize(
    ("length", "windows"), [(2, 4.0), (5, 4.5), (5, 7.0), (64, 4.0), (64, 40.0)]
)
def test_stretches_are_apart_and_have_their_past(length: int, windows: float) -> None:
    size = 1 + int(windows * length)
    ends = stretches(size, length).tolist()
    assert ends
    assert ends[0] - 1 - 4 * length >= 0
    assert ends[-1] <= size
    apart = [after - before for before, after in pairwise(ends)]
    assert all(gap >= 4 * (length // 2) for gap in apart)
