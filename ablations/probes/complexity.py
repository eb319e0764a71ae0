"""Complexity of a layer, counted: work, sequential steps, path length, memory.

T: positions, D: d_model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ablations.benchmarks.child import in_child, peak_bytes
from ablations.benchmarks.throughput import (
    LayerTime,
    Throughput,
    layer_input,
    mixer_of,
    random_batch,
    without_data,
)
from ablations.measurement import MEASUREMENT, Measured, Metric, Place, Probe, untrained
from ablations.tasks.task import Task
from model.batch import positions
from model.build import build
from model.cells import Layer
from model.flops import count, signature
from model.mixers import Context, Mixer
from model.transformer import Stack

WORK_LENGTHS = (64, 128, 256, 512, 1024)
STEP_LENGTHS = (64, 128, 256)
PATH_LENGTHS = (16, 32, 64)
KERNELS = ("lstm", "gru", "rnn", "scaled_dot_product")  # in the name of a library's operation
PATH_WIDTH = 8  # reach does not depend on it


def _counted(unit: str, label: str) -> Metric:
    return Metric(unit, "lower", label, repeats="nothing")


@MEASUREMENT.register("complexity")
class Complexity(Probe):
    """The three columns of the table of Vaswani et al. 2017 for one layer (their table 1).

    Work: FLOPs on the meta device, where tokens meet (mixing) apart from the linear maps of each
    token (projections). Steps: how many operations must wait for one another; null where a library
    kernel is one operation, whatever it does inside. Path: how many layers, or steps of a cell,
    until the last output can depend on the first input.
    """

    metrics: ClassVar = {
        "mixing_work": _counted("FLOPs", "work where tokens meet"),
        "projection_work": _counted("FLOPs", "work on single tokens"),
        "dependent_steps": _counted("operations", "operations that wait for one another"),
        "path": _counted("applications", "longest path between tokens"),
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        measurements = []
        with torch.device("meta"):
            model = build(config["model"], task.source_size, task.target_size, config["seed"])
        for length in WORK_LENGTHS:
            flops = count(model, None, length).flops
            at = {"length": length}
            measurements.append(self.measurement("mixing_work", flops["mixing"], at))
            measurements.append(self.measurement("projection_work", flops["projections"], at))
        layer = mixer_of(untrained(config, task))
        for length in STEP_LENGTHS:
            depth, kernels = operations(layer, config["model"]["d_model"], length)
            hidden = f"{kernels[0]} hides its steps" if kernels else None
            steps, at = None if hidden else depth, {"length": length}
            measurements.append(self.measurement("dependent_steps", steps, at, reason=hidden))
        for length in PATH_LENGTHS:
            path = longest_path(config, task, length)
            measurements.append(self.measurement("path", path, {"length": length}))
        return Measured(measurements)


class _Watch(TorchDispatchMode):
    """Follows every operation: each output is one deeper than the deepest of its inputs.

    A view is where its storage is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernels: set[str] = set()  # library kernels that stand for many operations
        self._depth: dict[int, int] = {}
        self._held: list[Any] = []  # so that no address is given again

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        made = operation(*arguments, **(options or {}))
        read = [x for x in tree_leaves((arguments, options)) if isinstance(x, Tensor)]
        deepest = max((self.depth(x) for x in read), default=0)
        storages = {x.untyped_storage()._cdata for x in read}
        written = [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]
        is_view = [
            x.untyped_storage()._cdata in storages and not operation._schema.is_mutable
            for x in written
        ]
        for x, view in zip(written, is_view, strict=True):
            self._depth[x.untyped_storage()._cdata] = max(self.depth(x), deepest + (not view))
            self._held.append(x.untyped_storage())
        name = operation._schema.name
        self.kernels |= {name} if any(word in name for word in KERNELS) else set()
        return made

    def depth(self, x: Tensor) -> int:
        return self._depth.get(x.untyped_storage()._cdata, 0)


def operations(layer: Mixer, width: int, length: int) -> tuple[int, list[str]]:
    """How many of a layer's operations wait for one another, and the library kernels among them."""
    x_BTD = torch.zeros(1, length, width)
    context = Context(positions(length, x_BTD), causal=True)
    with torch.inference_mode(), _Watch() as watch:
        y_BTD, _ = layer(x_BTD, context)
        return watch.depth(y_BTD), sorted(watch.kernels)


def longest_path(config: dict[str, Any], task: Task, length: int) -> int:
    """Applications until the Jacobian of the last output by the first input is not zero."""
    narrow: dict[str, Any] = {"d_model": PATH_WIDTH, "n_heads": 1, "d_head": None}
    narrow |= {"depth": length, "max_len": max(length, config["model"]["max_len"])}
    model = untrained(config, task, **narrow).double()
    cells = [module for module in mixer_of(model).modules() if isinstance(module, Layer)]
    if cells:
        return _cell_path(mixer_of(model), cells, length)
    reaches = np.eye(length, dtype=bool)
    seen: list[tuple[Any, NDArray[np.bool_]]] = []
    (stack,) = (module for module in model.modules() if isinstance(module, Stack))
    for applied, block in enumerate(stack.blocks, 1):
        assert block.mixer is not None
        own = signature(block.mixer)
        pattern = next((found for known, found in seen if known == own), None)
        if pattern is None:
            pattern = _pattern(block.mixer, length)
            seen.append((own, pattern))
        reaches = (pattern.astype(int) @ reaches.astype(int)) > 0
        if reaches[-1, 0]:
            return applied
    return 0  # it never arrives


def _pattern(layer: Mixer, length: int) -> NDArray[np.bool_]:
    """T T: which outputs of one application depend on which inputs."""
    generator = torch.Generator().manual_seed(0)
    x_BTD = torch.randn(1, length, PATH_WIDTH, generator=generator, dtype=torch.float64)
    x_BTD.requires_grad_(True)
    context = Context(positions(length, x_BTD), causal=True)
    y_BTD, _ = layer(x_BTD, context)
    if not y_BTD.requires_grad:  # it reads nothing
        return np.zeros((length, length), dtype=bool)
    rows = []
    for t in range(length):
        (grad_BTD,) = torch.autograd.grad(y_BTD[0, t].sum(), x_BTD, retain_graph=True)
        rows.append((grad_BTD[0] != 0).any(-1).numpy())
    return np.stack(rows)


def _cell_path(layer: Mixer, cells: Iterable[Layer], length: int) -> int:
    """Steps of a cell between the first input and the last output: states are followed, because a
    product of so many Jacobians would round to zero."""
    steps: dict[int, int] = {}  # of a state, by its first tensor: steps since the first input

    def followed(step: Any) -> Any:
        def counting(input_BG: Tensor, recalled_BG: Tensor, state: Any) -> Any:
            after = step(input_BG, recalled_BG, state)
            steps[id(after[0])] = steps.get(id(state[0]), 0) + 1
            held.append(after)
            return after

        return counting

    held: list[Any] = []
    x_BTD = torch.zeros(1, length, PATH_WIDTH, dtype=torch.float64)
    context = Context(positions(length, x_BTD), causal=True)
    with ExitStack() as exits, torch.inference_mode():
        for cell in cells:
            vars(cell)["step"] = followed(cell.step)
            vars(cell)["run"] = cell.run_steps
            exits.callback(vars(cell).pop, "step")
            exits.callback(vars(cell).pop, "run")
        layer(x_BTD, context)
    return max(steps.values(), default=0)


LENGTHS = (128, 256, 512, 1024, 2048)
LEAST = 1 << 20  # bytes on the CPU: free heap memory hides smaller peaks
LAYER, MODEL = "layer", "model"  # of what


@MEASUREMENT.register("memory")
class Memory(Probe):
    """Memory of one sequence, each measurement in its own process.

    saved_bytes: what autograd keeps from forward to backward, each storage once, weights apart.
    peak_memory: the most that a training step adds to a process which has taken a small one.
    """

    metrics: ClassVar = {
        "saved_bytes": _counted("bytes", "kept for backward"),
        "peak_memory": _counted("bytes", "peak memory"),
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        measurements = []
        for of, length in itertools.product((LAYER, MODEL), LENGTHS):
            at: Place = {"of": of, "length": length}
            for metric, read in (("saved_bytes", saved_bytes), ("peak_memory", _peak)):
                asked = partial(read, of, config, without_data(task), device, length)
                value, reason = in_child(asked)
                measurements.append(self.measurement(metric, value, at, reason=reason))
        return Measured(measurements)


def saved_bytes(
    of: str, config: dict[str, Any], task: Task, device: torch.device, length: int, _: Any = None
) -> int:
    """Bytes that autograd saves in one forward pass of one sequence."""
    model = untrained(config, task, device).train()
    if of == LAYER:
        x_BTD, context = layer_input(config, length, 1, device)
        forward: Any = partial(mixer_of(model), x_BTD.requires_grad_(True), context)
    else:
        forward = partial(model, random_batch(task, length, 1).to(device))
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


def _peak(
    of: str, config: dict[str, Any], task: Task, device: torch.device, length: int, _: Any
) -> int:
    timing = LayerTime() if of == LAYER else Throughput()
    small: Place = {"length": 2, "batch": 1, "pass": "training"}
    timing.prepare(config, task, device, small)()  # the first call of any length loads code
    call = timing.prepare(config, task, device, {**small, "length": length})
    peak = peak_bytes(call, device)
    if device.type == "cpu" and peak < LEAST:
        raise ValueError(f"below {LEAST >> 20} MiB, which is less than the size of a process shows")
    return peak
