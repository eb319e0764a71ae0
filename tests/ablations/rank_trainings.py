"""Small trainings in float64 without dropout, by one process or by several."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path
from typing import Any

import torch
from small_task import Backwards, Upwards
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from ablations.launch import Report
from ablations.signals import Stopped, StopRequest
from ablations.train.checkpoint import Checkpointer, named
from ablations.train.config import TrainConfig
from ablations.train.ddp import ALONE, Devices, Forward, SharedCheckpointer, ranks_on
from ablations.train.loop import train
from model.batch import Batch
from model.build import build

SEED = 3
CONFIG = TrainConfig(
    steps=20,
    batch_tokens=60,
    micro_batches=3,
    optimizer={"name": "adam", "lr": 1e-2, "eps": 1e-6},  # or noise where a gradient is 0 counts
    clip=0.5,
    label_smoothing=0.1,
    average=0.9,
)


class Sparing(nn.Module):
    """A model with a weight that nothing uses, and one that only rows of even beginnings use."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.never = nn.Parameter(torch.ones(2))
        self.sometimes = nn.Parameter(torch.zeros(Backwards.target_size))

    def forward(self, batch: Batch) -> Tensor:
        logits_BTV = self.model(batch)
        is_even_B = batch.source[:, 0] % 2 == 0
        if is_even_B.any():  # else no gradient comes from here
            logits_BTV = logits_BTV + is_even_B[:, None, None] * self.sometimes
        return logits_BTV


_SMALL = {"d_model": 8, "depth": 1}
_TRANSFORMER = {"name": "transformer", "n_heads": 2, "max_len": 16, **_SMALL}
SPARING = "sparing"
MODELS: dict[str, tuple[type[Backwards], dict[str, Any]]] = {
    "encoder-decoder": (Backwards, {**_TRANSFORMER, "kind": "encoder_decoder"}),
    "decoder": (Upwards, {**_TRANSFORMER, "kind": "decoder"}),
    "lstm": (Backwards, {"name": "recurrent", "kind": "encoder_decoder", **_SMALL}),
    "tied": (Backwards, {**_TRANSFORMER, "kind": "encoder_decoder", "tied": "all"}),
    SPARING: (Backwards, {**_TRANSFORMER, "kind": "encoder_decoder"}),
}


def trained(
    name: str, devices: Devices = ALONE, keeper: Checkpointer | None = None, **options: Any
) -> dict[str, Any]:
    """What a training leaves: weights, and measurements by metric, split and step."""
    task, choice = MODELS[name][0](), {**MODELS[name][1], **options}
    model = build(choice, task.source_size, task.target_size, SEED)
    model = (Sparing(model) if name == SPARING else model).double()
    cpu = torch.device("cpu")
    training = train(model, task, CONFIG, SEED, cpu, lambda *_: None, keeper, devices)
    return {
        "weights": {name: tensor.tolist() for name, tensor in named(model).items()},
        "measurements": {
            (
                measurement.metric,
                measurement.split,
                measurement.coordinates["step"],
            ): measurement.value
            for measurement in training.measurements
        },
    }


class Counting(Devices):
    """Counts how often gradients are joined; those of a small model go all at once."""

    joins = 0

    def joined(self, forward: Forward) -> Forward:
        model = super().joined(forward)
        assert isinstance(model, DistributedDataParallel)
        model.register_comm_hook(self, _counted)
        return model


def _counted(ranks, bucket):  # torch refuses annotations that are words
    ranks.joins += 1
    return allreduce_hook(None, bucket)


def gone_on(ranks: Devices, place: Path, **options: Any) -> dict[str, Any]:
    """A training that rank 0 alone was told to stop, and that new ones of all ranks ended."""
    asked = count(1)
    stopping = SharedCheckpointer(
        place, {}, ranks, lambda: ranks.rank == 0 and next(asked) == 7, math.inf
    )
    try:
        trained("decoder", ranks, stopping, **options)
    except Stopped:
        keeper = SharedCheckpointer(place, {}, ranks, lambda: False, math.inf)
        return trained("decoder", ranks, keeper, **options)
    raise AssertionError("it was not stopped")


def train_each(payload: dict[str, Any], _report: Report, _notice: StopRequest) -> dict[str, Any]:
    with ranks_on(torch.device("cpu")) as (ranks, _):
        trainings = {name: trained(name, ranks) for name in MODELS}
        counting = Counting(ranks.rank, ranks.count)
        trained("decoder", counting)
        steps = [drawn(ranks, step) for step in (1, 2, 1)]
        whole = trained("decoder", ranks, dropout=0.2)
        parts = gone_on(ranks, Path(payload["place"]), dropout=0.2)
        told = {"trainings": trainings, "joins": counting.joins, "drawn": steps}
        return told | {"whole": whole, "parts": parts}


def drawn(ranks: Devices, step: int) -> list[float]:
    """The first number that each rank draws in a step."""
    ranks.begin(SEED, step)
    each = [0.0] * ranks.count
    each[ranks.rank] = float(torch.rand(()))
    return ranks.gathered(each)
