"""How long a whole model takes, in training or forward, and how long its layer that mixes tokens.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Benchmark, Place, Quantity
from ablations.tasks.task import Budget, Task
from ablations.train.config import OPTIMIZER, TrainConfig
from ablations.train.loop import compiled, update
from model.batch import BOS, IGNORE, PAD, Batch, positions
from model.build import build
from model.generate import Decoding, Generator
from model.layers import evaluating
from model.mixers import Context, Mixer
from model.transformer import Stack


@MEASUREMENT.register("throughput")
class Throughput(Benchmark):
    """Forward, backward and update, or forward alone, on random tokens; nothing is padded."""

    quantities: ClassVar = {
        "step_time": Quantity("s", "lower", "time of a step", repeats="processes")
    }
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


KEPT, ANEW = "kept", "anew"  # what is known of earlier tokens: kept, or read again for each token
SOURCE = 16  # tokens, where a task has a source


@MEASUREMENT.register("decode")
class Decode(Benchmark):
    """One more token after `position` others.

    `cache: anew` reads all of them for it, which is also what a prompt of that length takes.
    """

    quantities: ClassVar = {
        "latency": Quantity("s", "lower", "time of the next token", repeats="processes")
    }
    places: ClassVar = {"position": [32], "batch": [1], "cache": [KEPT]}
    words: ClassVar = {"cache": (KEPT, ANEW)}
    along = "position"

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        position, batch = int(at["position"]), int(at["batch"])
        model, begin, tokens_BT = _writer(config, task, device, position + 1, batch)
        with evaluating(model), torch.inference_mode():
            empty = begin()
            after = empty
            if at["cache"] == KEPT and position:
                _, after = model.step(tokens_BT[:, :position], empty)
        given_BT = tokens_BT[:, -1:] if at["cache"] == KEPT else tokens_BT

        def call() -> None:
            with evaluating(model), torch.inference_mode():
                model.step(given_BT, after)

        return call


@MEASUREMENT.register("generation")
class Generation(Benchmark):
    """A text of `length` tokens from nothing, the likeliest token each time and no early end; what
    is written is not looked at on the way, so that a device is never waited for."""

    quantities: ClassVar = {
        "generation_time": Quantity("s", "lower", "time of a text", repeats="processes")
    }
    places: ClassVar = {"length": [64], "batch": [1], "cache": [KEPT]}
    words: ClassVar = {"cache": (KEPT, ANEW)}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        length, batch = int(at["length"]), int(at["batch"])
        model, begin, tokens_BT = _writer(config, task, device, length, batch)

        def kept() -> None:
            decoding, next_B1 = begin(), tokens_BT[:, :1]
            for _ in range(length):
                logits_BTV, decoding = model.step(next_B1, decoding)
                next_B1 = logits_BTV[:, -1:].argmax(-1)

        def anew() -> None:
            written_BT = tokens_BT[:, :1]
            for _ in range(length):
                logits_BTV, _ = model.step(written_BT, begin())
                written_BT = torch.cat((written_BT, logits_BTV[:, -1:].argmax(-1)), dim=1)

        def call() -> None:
            with evaluating(model), torch.inference_mode():
                (kept if at["cache"] == KEPT else anew)()

        return call


def _writer(
    config: dict[str, Any], task: Task, device: torch.device, capacity: int, batch: int
) -> tuple[Any, Callable[[], Decoding], Tensor]:
    """A model, how it begins, and tokens for it to go on from."""
    model = build(config["model"], task.source_size, task.target_size, config["seed"]).to(device)
    writer: Generator = model  # type: ignore[assignment]
    generator = torch.Generator().manual_seed(0)

    def tokens(size: int, length: int) -> Tensor:
        return torch.randint(BOS, size, (batch, length), generator=generator).to(device)

    source = None if task.source_size is None else tokens(task.source_size, SOURCE)
    given_BT = tokens(task.target_size, capacity)
    return model, lambda: writer.begin(batch, capacity, source, None), given_BT


OWN, LONGEST = "own", "longest"  # input of the batch, or of all the data
TOKENS = 2048  # of a batch, about


@MEASUREMENT.register("padding")
class Padding(Benchmark):
    """A pass over real training batches, padded to each one's own longest input or to that of all.

    Both are timed beside the control with batches padded to their own longest.
    """

    quantities: ClassVar = {
        "padded_time": Quantity("s", "lower", "time of a pass", repeats="processes")
    }
    places: ClassVar = {"batches": [4], "to": [OWN, LONGEST]}
    words: ClassVar = {"to": (OWN, LONGEST)}
    along = "batches"
    beside: ClassVar = {"to": OWN}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        some = itertools.islice(task.steps(0, Budget(TOKENS)), int(at["batches"]))
        given = [
            (padded(each, task.longest, task.longest) if at["to"] == LONGEST else each).to(device)
            for step in some
            for each in step
        ]

        def call() -> None:
            with evaluating(model), torch.inference_mode():
                for batch in given:
                    model(batch)

        return call


def padded(batch: Batch, target: int, source: int) -> Batch:
    """The same batch with padding up to these lengths, and lengths that tell of it."""

    def wider(x_BT: Tensor | None, length: int, fill: int = PAD) -> Tensor | None:
        return (
            None if x_BT is None else F.pad(x_BT, (0, max(0, length - x_BT.shape[1])), value=fill)
        )

    def told(lengths_B: Tensor | None, x_BT: Tensor | None) -> Tensor | None:
        if lengths_B is not None or x_BT is None:
            return lengths_B
        return torch.full((len(x_BT),), x_BT.shape[1])

    labels = batch.labels if batch.labels.dim() == 1 else wider(batch.labels, target, IGNORE)
    assert labels is not None
    return replace(
        batch,
        labels=labels,
        inputs=wider(batch.inputs, target),
        lengths=told(batch.lengths, batch.inputs),
        source=wider(batch.source, source),
        source_lengths=told(batch.source_lengths, batch.source),
        segments=wider(batch.segments, source, 0),
    )
