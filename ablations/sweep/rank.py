"""What each process does where several train one trial: its own rows, on its own device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ablations.store.frozen import freeze
from ablations.store.record import Record
from ablations.sweep.launch import Report
from ablations.sweep.orders import TrialOrder
from ablations.sweep.worker import check_code, check_data, import_parts, made_with
from ablations.tasks.cache import load_task
from ablations.train.loop import train
from ablations.train.ranks import SharedKeeper, ranks_on
from ablations.train.settings import TrainConfig
from ablations.train.stopping import Notice, Stopped
from ablations.train.weights import save_weights, stamp_for
from model.build import build


def train_rank(payload: dict[str, Any], report: Report, notice: Notice) -> dict[str, Any] | None:
    """How the training went; None where it was told to stop. Rank 0 leaves the weights."""
    order = TrialOrder(**payload)
    import_parts(order)
    check_data(order.config, order.trial, order.trained)
    check_code([order.code])  # this process has imported its own
    with ranks_on(torch.device(order.device)) as (ranks, device):
        config = order.config
        task = load_task(freeze(config["task"]))
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        keeper = SharedKeeper(Path(order.unfinished), made_with(order, device), ranks, notice)
        settings = TrainConfig(**config["train"])
        try:
            training = train(model, task, settings, config["seed"], device, report, keeper, ranks)
        except Stopped:
            return None
        if ranks.rank == 0:
            record = Record(order.trial, training.status, config, env={"code": order.code})
            save_weights(model, Path(order.weights), stamp_for(record))
        return {
            "status": training.status,
            "reason": training.reason,
            "readings": [vars(reading) for reading in training.readings],
            "earlier": keeper.earlier,
        }
