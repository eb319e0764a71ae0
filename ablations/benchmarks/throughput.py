"""Benchmarks of a model's step, its first mixer, decoding, generation and padding.

B: sequences, T: target positions, S: source positions, D: d_model, V: vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Benchmark, Metric, Place, untrained
from ablations.tasks.task import Budget, Task
from ablations.train.config import OPTIMIZER, TrainConfig
from ablations.train.loop import compiled, update
from model.batch import BOS, IGNORE, PAD, Batch, positions
from model.generate import Decoding
from model.layers import evaluating
from model.mixers import Context, Mixer
from model.transformer import Stack

KEPT, ANEW = "kept", "anew"  # the KV cache: on, or off, so that each token reads all before it
SOURCE = 16  # tokens, if a task has a source
PASSES: dict[str, tuple[str, ...]] = {"pass": ("forward", "training")}
DECODING: dict[str, tuple[str, ...]] = {"cache": (KEPT, ANEW)}


seconds = partial(Metric, "s", "lower", repeats="processes")


@MEASUREMENT.register("throughput")
class Throughput(Benchmark):
    """Forward, backward and update, or forward alone, on random tokens; nothing is padded."""

    metrics: ClassVar = {"step_time": seconds("time of a step")}
    places: ClassVar = {"length": [16], "batch": [64], "pass": ["training"]}
    words = PASSES

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        model, settings = untrained(config, task, device), TrainConfig(**config["train"])
        forward = compiled(model, settings)
        batch = random_batch(task, int(at["length"]), int(at["batch"]))
        tokens, batch = batch.tokens, batch.to(device)
        if at["pass"] == "forward":
            return partial(_read, model, lambda: forward(batch))
        optimizer = OPTIMIZER.build(settings.optimizer, parameters=model.train().parameters())

        def step() -> None:
            update(forward, [batch], tokens, optimizer, settings)

        return step


def without_data(task: Task) -> Any:
    """The sizes of a task, without its data: small enough to send to another process."""
    return SimpleNamespace(source_size=task.source_size, target_size=task.target_size, per=task.per)


def random_tokens(batch: int) -> Callable[[int, int], Tensor]:
    """Draws tokens of a vocabulary's size and of a length, the same for every model."""
    generator = torch.Generator().manual_seed(0)
    return lambda size, length: torch.randint(BOS, size, (batch, length), generator=generator)


def random_batch(task: Task, length: int, batch: int) -> Batch:
    """Random tokens of this length, the same for every model."""
    tokens = random_tokens(batch)
    source = None if task.source_size is None else tokens(task.source_size, length)
    if task.per == "sequence":
        return Batch(tokens(task.target_size, 1).squeeze(1), source=source)
    return Batch.shifted(tokens(task.target_size, length + 1), source_BS=source)


@MEASUREMENT.register("layer")
class LayerTime(Benchmark):
    """Forward alone, or forward and backward, of the first mixer on random vectors."""

    metrics: ClassVar = {"layer_time": seconds("time of a layer")}
    places: ClassVar = {"length": [64], "batch": [1], "pass": ["training"]}
    words = PASSES

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        layer = mixer_of(untrained(config, task, device)).train(at["pass"] == "training")
        x_BTD, context = layer_input(config, int(at["length"]), int(at["batch"]), device)
        if at["pass"] == "forward":
            return partial(_read, layer, lambda: layer(x_BTD, context))
        x_BTD.requires_grad_(True)
        weight_BTD = torch.ones_like(x_BTD)

        def both() -> None:
            layer(x_BTD, context)[0].backward(weight_BTD)
            x_BTD.grad = None
            layer.zero_grad(set_to_none=True)

        return both


def layer_input(
    config: dict[str, Any], length: int, batch: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Context]:
    """Random vectors, the same for every layer."""
    generator = torch.Generator().manual_seed(0)
    x_BTD = torch.randn(batch, length, config["model"]["d_model"], generator=generator).to(device)
    return x_BTD, Context(positions(length, x_BTD), causal=True)


def mixer_of(model: nn.Module) -> Mixer:
    """The mixer of the first block."""
    for stack in model.modules():
        if isinstance(stack, Stack) and stack.blocks[0].mixer is not None:
            return stack.blocks[0].mixer
    raise ValueError("this model has no layer that mixes: choose a transformer")


@MEASUREMENT.register("decode")
class Decode(Benchmark):
    """One more token after `position` others.

    `cache: anew` reads all of them again, as a prompt of that length is read.
    """

    metrics: ClassVar = {"latency": seconds("time of the next token")}
    places: ClassVar = {"position": [32], "batch": [1], "cache": [KEPT]}
    words = DECODING
    along = "position"

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        position, is_kept = int(at["position"]), at["cache"] == KEPT
        model, begin, tokens_BT = _writer(config, task, device, position + 1, int(at["batch"]))
        with evaluating(model), torch.inference_mode():
            after = begin()
            if is_kept and position:
                _, after = model.step(tokens_BT[:, :position], after)
        given_BT = tokens_BT[:, -1:] if is_kept else tokens_BT
        return partial(_read, model, lambda: model.step(given_BT, after))


@MEASUREMENT.register("generation")
class Generation(Benchmark):
    """Greedy generation of `length` tokens, without an early end or waiting for the device."""

    metrics: ClassVar = {"generation_time": seconds("time of a text")}
    places: ClassVar = {"length": [64], "batch": [1], "cache": [KEPT]}
    words = DECODING

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        length = int(at["length"])
        model, begin, tokens_BT = _writer(config, task, device, length, int(at["batch"]))

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

        return partial(_read, model, kept if at["cache"] == KEPT else anew)


def _writer(
    config: dict[str, Any], task: Task, device: torch.device, capacity: int, batch: int
) -> tuple[Any, Callable[[], Decoding], Tensor]:
    """A model, a call that begins a text, and tokens to feed it."""
    model, tokens = untrained(config, task, device), random_tokens(batch)
    source = None if task.source_size is None else tokens(task.source_size, SOURCE).to(device)
    given_BT = tokens(task.target_size, capacity).to(device)
    return model, lambda: model.begin(batch, capacity, source, None), given_BT


OWN, LONGEST = "own", "longest"  # input of the batch, or of all the data
TOKENS = 2048  # of a batch, about


@MEASUREMENT.register("padding")
class Padding(Benchmark):
    """A forward pass over training batches, padded to their own longest input or to that of all.

    The baseline's batches are always padded to their own longest input.
    """

    metrics: ClassVar = {"padded_time": seconds("time of a pass")}
    places: ClassVar = {"batches": [4], "to": [OWN, LONGEST]}
    words: ClassVar = {"to": (OWN, LONGEST)}
    along = "batches"
    beside: ClassVar = {"to": OWN}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        model, target = untrained(config, task, device), task.longest * (at["to"] == LONGEST)
        some = itertools.islice(task.steps(0, Budget(TOKENS)), int(at["batches"]))
        given = [padded(each, target, target).to(device) for step in some for each in step]
        return partial(_read, model, lambda: [model(batch) for batch in given])


def padded(batch: Batch, target: int, source: int) -> Batch:
    """The same batch padded at least to these lengths, with its real lengths written out."""

    def wider(x_BT: Tensor | None, length: int, fill: int = PAD) -> Tensor | None:
        return (
            None if x_BT is None else F.pad(x_BT, (0, max(0, length - x_BT.shape[1])), value=fill)
        )

    def real(lengths_B: Tensor | None, x_BT: Tensor | None) -> Tensor | None:
        if lengths_B is not None or x_BT is None:
            return lengths_B
        return torch.full((len(x_BT),), x_BT.shape[1])

    labels = batch.labels if batch.labels.dim() == 1 else wider(batch.labels, target, IGNORE)
    assert labels is not None
    return replace(
        batch,
        labels=labels,
        inputs=wider(batch.inputs, target),
        lengths=real(batch.lengths, batch.inputs),
        source=wider(batch.source, source),
        source_lengths=real(batch.source_lengths, batch.source),
        segments=wider(batch.segments, source, 0),
    )


def _read(model: nn.Module, call: Callable[[], Any]) -> None:
    """Run the call in evaluation mode without gradients, and drop its answer."""
    with evaluating(model), torch.inference_mode():
        call()
