"""How long one layer takes that mixes the tokens of a sequence, and nothing around it.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn

from ablations.measure import MEASURE, Place, Quantity, Timing
from ablations.tasks.task import Task
from model.batch import positions
from model.block import Stack
from model.build import build
from model.mixer import Context, Mixer


@MEASURE.register("layer")
class LayerTime(Timing):
    """Forward alone, or forward and backward, of the first mixer on random vectors."""

    quantities: ClassVar = {
        "layer_time": Quantity("s", "lower", "time of a layer", repeats="processes")
    }
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
