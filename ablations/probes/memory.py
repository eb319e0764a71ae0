"""What a training step has to hold: bytes kept for the backward pass, and the peak.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.benchmarks.child import in_child, peak_bytes
from ablations.benchmarks.throughput import (
    LayerTime,
    Throughput,
    mixer_of,
    random_batch,
    without_data,
)
from ablations.measurement import MEASUREMENT, Measured, Metric, Place, Probe
from ablations.tasks.task import Task
from model.batch import positions
from model.build import build
from model.mixers import Context

LENGTHS = (128, 256, 512, 1024, 2048)
LEAST = 1 << 20  # bytes: what was free in the heap hides smaller peaks
LAYER, MODEL = "layer", "model"  # of what


@MEASUREMENT.register("memory")
class Memory(Probe):
    """On the path that really runs, one sequence, each in a process of its own.

    saved_bytes: what autograd keeps from forward to backward, each storage once, weights apart.
    peak_memory: the most that a training step adds to a process which has taken a small one.
    """

    metrics: ClassVar = {
        "saved_bytes": Metric("bytes", "lower", "kept for backward", repeats="nothing"),
        "peak_memory": Metric("bytes", "lower", "peak memory", repeats="nothing"),
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        measurements = []
        for of in (LAYER, MODEL):
            for length in LENGTHS:
                at: dict[str, float | str] = {"of": of, "length": length}
                for metric, read in (("saved_bytes", _saved), ("peak_memory", _peak)):
                    asked = partial(read, of, config, without_data(task), device, length)
                    value, reason = in_child(asked)
                    measurements.append(self.measurement(metric, value, at, reason=reason))
        return Measured(measurements)


def saved_bytes(of: str, config: dict[str, Any], task: Task, length: int) -> int:
    """Of one forward pass in training, with one sequence."""
    model = build(config["model"], task.source_size, task.target_size, config["seed"]).train()
    forward: Callable[[], Any]
    if of == LAYER:
        layer: nn.Module = mixer_of(model)
        generator = torch.Generator().manual_seed(0)
        shape = 1, length, config["model"]["d_model"]
        x_BTD = torch.randn(shape, generator=generator).requires_grad_(True)
        context = Context(positions(length, x_BTD), causal=True)
        forward = lambda: layer(x_BTD, context)  # noqa: E731
    else:
        batch = random_batch(task, length, 1)
        forward = lambda: model(batch)  # noqa: E731
    own = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    held: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            held[storage._cdata] = storage  # held, so that its number is not given again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        answer = forward()
    del answer
    return sum(storage.nbytes() for storage in held.values())


def _saved(
    of: str, config: dict[str, Any], task: Task, device: torch.device, length: int, _: Any
) -> int:
    return saved_bytes(of, config, task, length)


def _peak(
    of: str, config: dict[str, Any], task: Task, device: torch.device, length: int, _: Any
) -> int:
    timing = LayerTime() if of == LAYER else Throughput()
    small: Place = {"length": 2, "batch": 1, "pass": "training"}
    timing.prepare(config, task, device, small)()  # pays for what any first call loads
    call = timing.prepare(config, task, device, {**small, "length": length})
    peak = peak_bytes(call, device)
    if peak < LEAST:
        raise ValueError(f"below {LEAST >> 20} MiB, which is less than the size of a process shows")
    return peak
