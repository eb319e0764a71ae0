"""A past in another order: a bag does not see it, whoever counts on order does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ablations.measure import beyond
from ablations.measure.beyond import Shuffled, shuffle, windows
from ablations.store.record import Reading
from ablations.tasks import TASK
from ablations.tasks.text import Text
from model.batch import Batch
from model.build import build

CPU = torch.device("cpu")
LINE = "the word was with them in the beginning, and they heard the word.\n"


def text(folder: Path, length: int = 12, lines: int = 200) -> Text:
    file = folder / "text.txt"
    file.write_text("".join(f"{number} {LINE}" for number in range(lines)))
    task = TASK.build({"name": "text", "file": str(file), "length": length})
    assert isinstance(task, Text)
    return task


def reading(model: nn.Module, task: Any) -> Reading:
    (found,) = Shuffled().take(model, task, CPU, 17).readings
    assert (found.metric, found.unit, found.split) == ("shuffled_ratio", "1", "test")
    assert found.at == {"step": 17}
    return found


class Bag(nn.Module):
    """Tokens are as likely as they were frequent so far; and as the one read last has it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        generator = torch.Generator().manual_seed(0)
        self.after_VV = torch.randn(size, size, generator=generator)

    def forward(self, batch: Batch) -> Tensor:
        assert batch.inputs is not None
        counts_BTV = nn.functional.one_hot(batch.inputs, self.size).cumsum(1)
        return (1.0 + counts_BTV).log() + self.after_VV[batch.inputs]


def test_a_bag_and_the_last_token_have_a_ratio_of_exactly_one(tmp_path: Path) -> None:
    task = text(tmp_path)
    assert reading(Bag(task.target_size), task).value == 1.0


def transformer(task: Text, depth: int, position: str) -> nn.Module:
    options = {"kind": "decoder", "d_model": 16, "n_heads": 2, "depth": depth, "dropout": 0.1}
    written = {"name": "transformer", **options, "position": {"name": position}}
    return build(written, None, task.target_size, seed=0)


def test_the_ratio_is_that_of_a_slow_computation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beyond, "WINDOWS", 11)
    monkeypatch.setattr(beyond, "BATCH_TOKENS", 30)
    task = text(tmp_path)
    model = transformer(task, 2, "rotary").eval()
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
    assert reading(model.train(), task).value == pytest.approx(math.exp(gap), rel=1e-5)


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
