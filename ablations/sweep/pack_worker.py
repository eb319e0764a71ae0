"""What a worker does with a pack: train its trials as one model, then measure each by itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from ablations.store.identity import freeze
from ablations.store.record import Record
from ablations.sweep.orders import FILES, TrialOrder
from ablations.sweep.worker import (
    Report,
    _measure,
    _run_trial,
    check_code,
    check_data,
    import_parts,
    new_record,
)
from ablations.tasks.cache import load_task
from ablations.train.pack import Pack
from ablations.train.settings import TrainConfig
from ablations.train.stopping import Notice, noticing
from ablations.train.weights import save_weights, stamp_for
from model.build import build


def run_pack(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Trial → its record. Told to stop, it raises `Stopped` while it trains, and keeps nothing."""
    orders = [_order(written, payload) for written in payload["orders"]]
    stamps = [stamp for order in orders for stamp in (order.code, *order.measures.values())]
    with noticing() as notice:
        report(0.0, "starting")
        for order in orders:
            import_parts(order)
            check_data(order.config, order.trial, order.trained)
        check_code(stamps)
        together = [order for order in orders if order.record is None]
        together = together if len(together) > 1 else []
        # Others may have been trained elsewhere by now.
        apart = [order for order in orders if order not in together]
        records = _run_together(together, report, notice) if together else []
        records += [_run_trial(order, report, notice) for order in apart]
        check_code(stamps)
        return {record.trial: record.to_dict() for record in records}


def _order(written: dict[str, Any], payload: dict[str, Any]) -> TrialOrder:
    """With its files where they are now."""
    files = {name: payload[f"{name} {written['trial']}"] for name in FILES}
    return TrialOrder(**{**written, **files})


def _run_together(orders: list[TrialOrder], report: Report, notice: Notice) -> list[Record]:
    begun = time.perf_counter()
    first, device = orders[0].config, torch.device(orders[0].device)
    task = load_task(freeze(first["task"]))
    records = [new_record(order, task, device) for order in orders]
    seeds = [order.config["seed"] for order in orders]
    sizes = task.source_size, task.target_size
    models = [build(first["model"], *sizes, seed).to(device) for seed in seeds]
    pack = Pack(models, task, TrainConfig(**first["train"]), seeds, device)
    trainings = pack.run(report, notice)
    each = (time.perf_counter() - begun) / len(orders)
    del pack  # and the weights and moments of all lanes
    for order, record, model, training in zip(orders, records, models, trainings, strict=True):
        begun = time.perf_counter()
        record.status, record.reason = training.status, training.reason
        record.readings += training.readings
        record.env["packed"] = len(orders)
        save_weights(model, Path(order.weights), stamp_for(record))
        _measure(order, record, model, task, device, notice)
        record.env["seconds"] = round(each + time.perf_counter() - begun, 3)
    return records
