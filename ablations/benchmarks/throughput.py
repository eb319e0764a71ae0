"""How long a whole model takes, in training or forward, and how long its layer that mixes tokens.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import nn

from ablations.measurement import MEASUREMENT, Benchmark, Metric, Place
from ablations.tasks.task import Task
from ablations.train.config import TrainConfig
from ablations.train.loop import compiled, update
from ablations.train.optimizer import OPTIMIZER
from model.batch import BOS, Batch, positions
from model.build import build
from model.layers import evaluating
from model.mixers import Context, Mixer
from model.transformer import Stack


@MEASUREMENT.register("throughput")
class Throughput(Benchmark):
    """Forward, backward and update, or forward alone, on random tokens; nothing is padded."""

    metrics: ClassVar = {"step_time": Metric("s", "lower", "time of a step", repeats="processes")}
    places: ClassVar = {"length": [16], "batch": [64], "pass": ["training"]}
    words: ClassVar = {"pass": ("forward", "training")}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        settings = TrainConfig(**config["train"])
        forward = compiled(model, settings)
        data = random_batch(task, int(at["length"]), int(at["batch"]))
        moved = data.to(device)
        if at["pass"] == "forward":

            def call() -> None:
                with evaluating(model), torch.inference_mode():
                    forward(moved)

            return call
        model.train()
        optimizer = OPTIMIZER.build(settings.optimizer, parameters=model.parameters())

        def step() -> None:
            update(forward, [moved], data.tokens, optimizer, settings)

        return step


def without_data(task: Task) -> Any:
    """What models and random batches need to know of a task: small enough for another process."""
    return SimpleNamespace(source_size=task.source_size, target_size=task.target_size, per=task.per)


def random_batch(task: Task, length: int, batch: int) -> Batch:
    """Tokens without meaning, as long as asked: the same for every model."""
    generator = torch.Generator().manual_seed(0)

    def tokens(size: int, length: int) -> torch.Tensor:
        return torch.randint(BOS, size, (batch, length), generator=generator)

    source = None if task.source_size is None else tokens(task.source_size, length)
    if task.per == "sequence":
        return Batch(tokens(task.target_size, 1).squeeze(1), source=source)
    return Batch.shifted(tokens(task.target_size, length + 1), source_BS=source)


@MEASUREMENT.register("layer")
class LayerTime(Benchmark):
    """Forward alone, or forward and backward, of the first mixer on random vectors."""

    metrics: ClassVar = {"layer_time": Metric("s", "lower", "time of a layer", repeats="processes")}
    places: ClassVar = {"length": [64], "batch": [1], "pass": ["training"]}
    words: ClassVar = {"pass": ("forward", "training")}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        layer = first_mixer(config, task).to(device).train(at["pass"] == "training")
        generator = torch.Generator().manual_seed(0)
        shape = int(at["batch"]), int(at["length"]), config["model"]["d_model"]
        x_BTD = torch.randn(shape, generator=generator).to(device)
        context = Context(positions(shape[1], x_BTD), causal=True)
        if at["pass"] == "forward":

            def forward() -> None:
                with torch.inference_mode():
                    layer(x_BTD, context)

            return forward
        x_BTD.requires_grad_(True)
        weight_BTD = torch.ones_like(x_BTD)

        def both() -> None:
            y_BTD, _ = layer(x_BTD, context)
            y_BTD.backward(weight_BTD)
            x_BTD.grad = None
            for parameter in layer.parameters():
                parameter.grad = None

        return both


def first_mixer(config: dict[str, Any], task: Task, device: str = "cpu") -> Mixer:
    """The mixer of the first block of a causal model, as the model has it."""
    with torch.device(device):
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
    return mixer_of(model)


def mixer_of(model: nn.Module) -> Mixer:
    for stack in model.modules():
        if isinstance(stack, Stack) and stack.blocks[0].mixer is not None:
            return stack.blocks[0].mixer
    raise ValueError("this model has no layer that mixes: choose a transformer")
