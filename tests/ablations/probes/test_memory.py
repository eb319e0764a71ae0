"""What a training step has to hold: bytes by hand, growth with the length, and the peak."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from child_jobs import MIB, peak_of_allocating
from small_models import TEXT, transformer
from torch import Tensor, nn

from ablations.benchmarks.child import in_child
from ablations.probes import memory
from ablations.probes.memory import LAYER, MODEL, Memory, saved_bytes

CPU = torch.device("cpu")


class Small(nn.Module):
    """x W, its square and, through a view of it, its exponential."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 5))
        self.register_buffer("shift", torch.ones(5))

    def forward(self, batch: Any) -> Tensor:
        x_T3 = torch.ones(batch.inputs.shape[1], 3)
        y_T5 = x_T3 @ self.weight  # keeps x and the weight
        square_T5 = y_T5 * y_T5  # keeps y, named twice
        return square_T5.sum() + (y_T5.view(-1).exp() * self.shift[0]).sum()  # keeps exp y


@pytest.mark.parametrize("length", [4, 7])
def test_each_storage_counts_once_and_weights_do_not(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(memory, "build", lambda *_: Small())
    floats = length * 3 + length * 5 + length * 5
    assert saved_bytes(MODEL, transformer(), TEXT, length) == 4 * floats


@pytest.mark.parametrize(("kernel", "length"), [(1, 32), (3, 32), (3, 64)])
def test_a_convolution_keeps_its_padded_input_and_no_more(kernel: int, length: int) -> None:
    config = transformer({"name": "convolution", "kernel": kernel, "bias": False}, d_model=8)
    assert saved_bytes(LAYER, config, TEXT, length) == 4 * (length + kernel - 1) * 8


@pytest.mark.parametrize("of", [LAYER, MODEL])
def test_the_peak_is_that_of_one_step_though_the_parent_held_more(of: str) -> None:
    torch.ones(200 * MIB, dtype=torch.uint8)  # and gone again
    found, reason = in_child(partial(peak_of_allocating, of, 48))
    assert reason is None
    assert found == pytest.approx(48 * MIB, abs=8 * MIB)


def test_every_length_is_read_of_layer_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LENGTHS", (16, 128))
    learned = transformer(position={"name": "learned"}, max_len=64)
    measurements = Memory().measure(learned, TEXT, CPU).measurements
    read = {(r.metric, r.coordinates["of"], r.coordinates["length"]): r for r in measurements}
    assert len(read) == len(measurements) == 2 * 2 * 2
    assert read["saved_bytes", MODEL, 16].value
    too_long = read["saved_bytes", MODEL, 128]
    assert too_long.value is None
    assert "max_len=64" in (too_long.reason or "")
