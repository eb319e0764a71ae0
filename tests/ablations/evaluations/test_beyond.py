"""Past the trained length: the same tokens in every band, and models whose answer is known."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ablations.evaluations import beyond
from ablations.evaluations.beyond import BANDS, Beyond, Shuffled, shuffle, stretches, windows
from ablations.store.record import Measurement
from ablations.tasks import TASK
from ablations.tasks.text import Text
from model.batch import Batch
from model.build import build

CPU = torch.device("cpu")
LENGTH = 8
LINE = "In the beginning was the word, and the word was with them that heard it.\n"


def text(folder: Path, length: int = LENGTH) -> Text:
    file = folder / "text.txt"
    file.write_text("".join(f"{number} {LINE}" for number in range(200)))
    return TASK.build({"name": "text", "file": str(file), "length": length})


def taken(model: nn.Module, task: Any) -> dict[tuple[str, float], Measurement]:
    measurements = Beyond().measure(model, task, CPU, 17).measurements
    assert {(r.split, r.coordinates["step"]) for r in measurements} == {("test", 17)}
    return {(r.metric, float(r.coordinates["past"])): r for r in measurements}


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


# A past in another order.


def test_the_ratio_is_that_of_a_slow_computation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beyond, "WINDOWS", 11)
    monkeypatch.setattr(beyond, "BATCH_TOKENS", 30)
    task = text(tmp_path, 12)
    model = decoder(task, "rotary")
    window_BL = windows(task.windows("test").stream_N, 12)
    nats = []
    for given_BL in (window_BL, shuffle(window_BL)):
        for *read, target in given_BL.tolist():
            inputs = torch.tensor([read])
            with torch.inference_mode():
                logits = model(Batch(inputs, inputs=inputs))[0, -1].double()
            nats.append(-float(logits.log_softmax(-1)[target]))
    gap = (sum(nats[11:]) - sum(nats[:11])) / 11
    assert len(nats) == 22
    (found,) = Shuffled().measure(model.train(), task, CPU, 17).measurements
    assert (found.metric, found.coordinates) == ("shuffled_ratio", {"step": 17})
    assert found.value == pytest.approx(math.exp(gap), rel=1e-5)


def test_a_shuffled_window_has_the_same_tokens_and_the_same_end() -> None:
    window_BL = torch.arange(400).reshape(20, 20)
    other_BL = shuffle(window_BL)
    assert torch.equal(other_BL.sort(1).values, window_BL)
    assert torch.equal(other_BL[:, -2:], window_BL[:, -2:])
    moved_BL = (other_BL != window_BL)[:, :-2]
    assert moved_BL.any(1).all()
    assert len({tuple(row) for row in (other_BL - window_BL).tolist()}) == 20, "each its own order"
    assert torch.equal(shuffle(window_BL), other_BL), "the same for every model"


@pytest.mark.parametrize(("tokens", "length"), [(50, 8), (9, 8), (8, 8), (5000, 3)])
def test_windows_are_real_text_and_each_has_another_target(tokens: int, length: int) -> None:
    stream_N = torch.arange(tokens + 1, dtype=torch.int32)  # BOS is 0
    window_BL = windows(stream_N, length)
    assert bool((window_BL.diff(dim=1) == 1).all())
    assert window_BL.min() >= 1
    assert window_BL.shape[1] == min(length, tokens - 1) + 1
    targets = window_BL[:, -1].tolist()
    assert len(set(targets)) == len(targets)
    assert targets[-1] == tokens or len(targets) == 1
