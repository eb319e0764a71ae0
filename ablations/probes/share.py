"""Shares of a model's components in its work, its weights and its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from ablations.benchmarks.child import in_child
from ablations.benchmarks.session import synchronise
from ablations.benchmarks.throughput import random_batch, without_data
from ablations.measurement import MEASUREMENT, Measured, Metric, Place, Probe, untrained
from ablations.store.record import Measurement
from ablations.store.words import first_line
from ablations.tasks.task import Task
from model import presets
from model.build import build
from model.flops import KINDS, count, following, kinds_of
from model.layers import evaluating
from model.mixers import Mixer
from model.positions import Learned
from model.transformer import Stack

RATIOS = (0.125, 0.5, 1.0, 2.0, 8.0)  # tokens to d_model
PROCESSES, CALLS = 3, 5


_share = partial(Metric, "1", "lower", repeats="nothing")


@MEASUREMENT.register("share")
class Share(Probe):
    """By part: shares of FLOPs at several lengths, of the weights, and of a forward pass's time.

    `mixing` is where tokens meet, `projections` the linear maps before and after it. The time of a
    part is what is spent in its own modules, each waited for.
    """

    metrics: ClassVar = {
        "flops_share": _share("share of the FLOPs"),
        "parameter_share": _share("share of the weights"),
        "time_share": _share("share of the time, beside whatever else runs"),
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        d_model = config["model"]["d_model"]
        with torch.device("meta"):
            model = build(config["model"], task.source_size, task.target_size, config["seed"])
        measurements = []
        for ratio in RATIOS:
            length = max(2, round(ratio * d_model))
            cost = count(model, None if task.source_size is None else length, length)
            measurements += _shares("flops_share", cost.flops, {"tokens_over_width": ratio})
            work = partial(_seconds, config, without_data(task), device, length)
            timed = [in_child(work) for _ in range(PROCESSES)]
            measurements += _time_shares(timed, ratio)
        return Measured([*measurements, *_shares("parameter_share", cost.parameters, {})])


@MEASUREMENT.register("presets")
class Presets(Probe):
    """The same of published models, with their own vocabulary, at lengths that they can read."""

    metrics: ClassVar = {
        "preset_flops_share": _share("share of the FLOPs"),
        "preset_parameter_share": _share("share of the weights"),
        "rest_over_scores": _share("work outside the scores over work in them"),
        "feedforward_over_block": _share("feed-forward weights over a block's"),
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        measurements = []
        for preset, model in published():
            for ratio in RATIOS:
                length = round(ratio * preset.model["d_model"])
                at: Place = {"preset": preset.name, "tokens_over_width": ratio}
                try:
                    cost = count(model, None if preset.source_size is None else length, length)
                except ValueError as error:  # longer than its positions reach
                    why = first_line(error)
                    measurements.append(self.measurement("rest_over_scores", None, at, reason=why))
                    continue
                scores = cost.flops["mixing"]
                rest = (sum(cost.flops.values()) - scores) / scores
                measurements += _shares("preset_flops_share", cost.flops, at)
                measurements.append(self.measurement("rest_over_scores", rest, at))
            sizes = cost.parameters
            block = sum(sizes[kind] for kind in ("projections", "mixing", "feedforward", "norms"))
            at = {"preset": preset.name}
            measurements += _shares("preset_parameter_share", sizes, at)
            of_block = sizes["feedforward"] / block
            measurements.append(self.measurement("feedforward_over_block", of_block, at))
        return Measured(measurements)


def published() -> Iterator[tuple[presets.Preset, nn.Module]]:
    """Each preset and its model, on the meta device."""
    for name in presets.names():
        preset = presets.load(name)
        with torch.device("meta"):
            model = build(preset.model, preset.source_size, preset.target_size, None)
        yield preset, model


def _shares(metric: str, amounts: dict[str, int], at: Place) -> list[Measurement]:
    whole = sum(amounts.values())
    return [
        Measurement(metric, "1", amounts[kind] / whole, coordinates={**at, "part": kind})
        for kind in KINDS
        if amounts[kind]
    ]


def _time_shares(timed: list[tuple[Any, str | None]], ratio: float) -> list[Measurement]:
    """The share of each part in every process."""
    where: dict[str, float | str] = {"tokens_over_width": ratio}
    failure = next((reason for _, reason in timed if reason), None)
    if failure:
        return [Measurement("time_share", "1", coordinates=where, reason=failure)]
    parts = [kind for kind in KINDS if any(kind in seconds for seconds, _ in timed)]
    return [
        Measurement(
            "time_share",
            "1",
            coordinates={**where, "part": kind},
            axes={"process": list(range(len(timed)))},
            values=[s.get(kind, 0.0) / sum(s.values()) for s, _ in timed],
        )
        for kind in parts
    ]


def _seconds(
    config: dict[str, Any], task: Task, device: torch.device, n: int, _: Any
) -> dict[str, float]:
    """Kind → seconds of forward passes that are its own."""
    model, batch = untrained(config, task, device), random_batch(task, n, 1).to(device)
    with evaluating(model), torch.inference_mode():
        model(batch)
        with _clocked(model, device) as spent:
            for _ in range(CALLS):
                model(batch)
    return {kind: seconds for kind, seconds in spent.items() if seconds}


def _kinds(model: nn.Module) -> dict[nn.Module, str]:
    """Module → kind of work, as in `kinds_of`; what mixes outside of a mixer is "other"."""
    kinds = kinds_of(model)
    inside = {
        part for each in model.modules() if isinstance(each, Mixer) for part in each.modules()
    }
    glue = [each for each in kinds if kinds[each] == "mixing" and each not in inside]
    return {**kinds, **dict.fromkeys(glue if inside else [], "other")}


@contextmanager
def _clocked(model: nn.Module, device: torch.device) -> Iterator[dict[str, float]]:
    """Seconds by the kind of the innermost module at work."""
    spent: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    since = time.perf_counter()

    def note(kind: str) -> None:
        nonlocal since
        synchronise(device)
        now = time.perf_counter()
        spent[kind] += now - since
        since = now

    with following(model, _kinds(model), note):
        yield spent


@MEASUREMENT.register("structure")
class Structure(Probe):
    """Sizes of each preset's first stack: word vectors, trained position vectors, their width,
    blocks, and the inner width of a feed-forward."""

    metrics: ClassVar = {"structure": Metric("1", "lower", "size", repeats="nothing")}

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        measurements = []
        for preset, model in published():
            stack = next(part for part in model.modules() if isinstance(part, Stack))
            for of, size in sizes(stack).items():
                reason = "its positions have no vectors of their own" if size is None else None
                at = {"preset": preset.name, "of": of}
                measurements.append(self.measurement("structure", size, at, reason=reason))
        return Measured(measurements)


def sizes(stack: Stack) -> dict[str, int | None]:
    """The sizes of a stack that has feed-forwards."""
    words, position = stack.embedding.tokens, stack.embedding.position
    down: Any = getattr(stack.blocks[0].feedforward, "down", None)
    assert down is not None, "a published model has a feed-forward"
    return {
        "words": words.num_embeddings,
        "positions": position.table.num_embeddings if isinstance(position, Learned) else None,
        "width": words.embedding_dim + position.width,
        "blocks": len(stack.blocks),
        "inner": down.in_features,
    }
