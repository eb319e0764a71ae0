"""What a worker does with an order: train and measure a trial or a pack of them, or time a session.

A record must hold what its id and its stamps say. So data and source files are compared with the
order before anything is computed, and the files again before the result is handed over.
"""

from __future__ import annotations

import importlib
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # every optimiser loads it: here that happens once, in the server
from torch import nn

from ablations.launch import Changed
from ablations.measure import Probe, discover
from ablations.measure.session import Watch, time_session
from ablations.measure.timing import TimingConfig
from ablations.orders import FILES, Order, SessionOrder, TrialOrder
from ablations.plan.facts import identity_of
from ablations.plan.missing import needs_weights
from ablations.store.identity import freeze
from ablations.store.record import Reading, Record
from ablations.store.stamp import changed, loaded_otherwise, note_loaded, short
from ablations.tasks.cache import load_task
from ablations.tasks.task import Task
from ablations.train.ddp import SharedKeeper, ranks_on, run_together
from ablations.train.device import device_name, numerics, own_device
from ablations.train.loop import train
from ablations.train.pack import Pack
from ablations.train.settings import TrainConfig
from ablations.train.stopping import Notice, Stopped, noticing
from ablations.train.unfinished import Keeper
from ablations.train.weights import load_weights, save_weights, stamp_for
from model.build import build
from model.config import ConfigError

Report = Callable[[float, str], None]


def run_trial(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Train a trial and take its measures, or take missing measures from its weights.

    Told to stop, it raises `Stopped` while it trains, and goes on from there the next time; after
    that it gives the record with what is measured by then.
    """
    order = TrialOrder(**payload)
    with noticing() as notice:
        report(0.0, "starting")
        import_parts(order)
        check_data(order.config, order.trial, order.trained)
        check_code([order.code, *order.measures.values()])
        record = _run_trial(order, report, notice)
        check_code([order.code, *order.measures.values()])
        return record.to_dict()


def _run_trial(order: TrialOrder, report: Report, notice: Notice) -> Record:
    clock = time.perf_counter()
    config, device = order.config, torch.device(order.device)
    if order.devices > 1:  # each has a thread of its own, and measures are taken as on one
        torch.set_num_threads(1)
    task = load_task(freeze(config["task"]))
    if order.record is not None:
        record = Record.from_dict(order.record)
    else:
        record = new_record(order, task, device)
    model: nn.Module | None = None
    if order.trained and (order.record is None or needs_weights(order.measures)):
        if order.devices > 1:
            clock -= _train_together(order, record, report, notice)
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        if order.record is None and order.devices == 1:
            clock -= _train(order, record, model, task, device, report, notice)
        else:
            load_weights(model, Path(order.weights), stamp_for(record))
    _measure(order, record, model, task, device, notice)
    record.env.setdefault("seconds", round(time.perf_counter() - clock, 3))
    return record


def new_record(order: TrialOrder, task: Task, device: torch.device) -> Record:
    """What is known of a trial before it is trained."""
    record = Record(order.trial, "ok", order.config, trained=order.trained, **order.counts)
    record.data = task.described
    record.env = {
        **order.env,
        "code": order.code,
        **_place(device),
        "devices": order.devices,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return record


def _train(
    order: TrialOrder,
    record: Record,
    model: nn.Module,
    task: Task,
    device: torch.device,
    report: Report,
    notice: Notice,
) -> float:
    """Train the model in place and keep its weights; seconds that earlier stretches of it took."""
    keeper = Keeper(Path(order.unfinished), made_with(order, device), is_stopping=notice)
    settings = TrainConfig(**order.config["train"])
    training = train(model, task, settings, order.config["seed"], device, report, keeper)
    record.status, record.reason = training.status, training.reason
    record.readings += training.readings
    save_weights(model, Path(order.weights), stamp_for(record))
    return keeper.earlier


def _train_together(order: TrialOrder, record: Record, report: Report, notice: Notice) -> float:
    """Have a process for each device train, and keep the weights; seconds as `_train` has them."""
    first = replace(order, device=own_device(order.device))
    training = run_together(train_rank, first.payload(), order.devices, report, notice)
    if training is None:
        raise Stopped
    record.status, record.reason = training["status"], training["reason"]
    record.readings += [Reading(**reading) for reading in training["readings"]]
    return float(training["earlier"])


def train_rank(payload: dict[str, Any], report: Report, notice: Notice) -> dict[str, Any] | None:
    """What one of the processes that train a trial together does; None where it was told to stop.

    Rank 0 keeps the weights.
    """
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


def made_with(order: TrialOrder, device: torch.device) -> dict[str, Any]:
    """What a checkpoint must have been made with to be gone on from, on any number of devices."""
    made = {"trial": order.trial, "code": short(order.code)}
    return made | {"device": device.type, "torch": torch.__version__}


def _measure(
    order: TrialOrder,
    record: Record,
    model: nn.Module | None,
    task: Task,
    device: torch.device,
    notice: Notice,
) -> None:
    """Take what is asked; a measure that fails is noted, and the next run tries it again."""
    steps = order.config["train"]["steps"]
    for name, made_by in order.measures.items():
        part = discover().build(name)
        if record.status == "diverged" and not isinstance(part, Probe):  # it answers nothing
            record.take(name, made_by, [])
            continue
        try:
            with notice.raising():
                if isinstance(part, Probe):
                    taken = part.take(order.config, task, device)
                else:
                    taken = part.take(model, task, device, steps)
        except Stopped:
            return
        except Exception as error:
            record.failures[name] = f"{type(error).__name__}: {error}"
            continue
        record.take(name, made_by, taken.readings)
        if order.record is not None:  # where it was trained says nothing of this
            record.env.setdefault("later", {})[name] = _place(device)
        record.examples = taken.examples or record.examples
        record.items |= taken.items


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


def run_session(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Time candidates beside their reference: the session, and the readings of each trial."""
    order = SessionOrder(**payload)
    import_parts(order)
    for trial, config in {order.against: order.reference, **order.candidates}.items():
        check_data(config, trial, trial not in order.untrained)
    check_code([order.code, order.models])
    device = torch.device(order.device)
    watch, lost = Watch(), []  # type: tuple[Watch, list[str]]
    taken = time_session(
        discover().build(order.measure),
        order.reference,
        order.candidates,
        order.places,
        TimingConfig(**order.timing),
        device,
        report,
        lost,
    )
    check_code([order.code, order.models])
    env = {**order.env, **watch.state(device), "code": order.models, "lost": lost}
    readings = {trial: [vars(reading) for reading in readings] for trial, readings in taken.items()}
    return {"session": secrets.token_hex(4), "env": env, "readings": readings}


def _place(device: torch.device) -> dict[str, Any]:
    """Where numbers are computed."""
    return {
        "torch": torch.__version__,
        "numerics": numerics(device),
        "python": platform.python_version(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
    }


def import_parts(order: Order) -> None:
    """Have the user's own parts registered."""
    for module in order.imports:
        importlib.import_module(module)
    note_loaded()


def check_data(config: dict[str, Any], trial: str, trained: bool) -> None:
    """Refuse data that is not what the trial's id was made of."""
    try:
        is_same = identity_of(config, trained) == trial
    except ConfigError:  # it can no longer be read at all
        is_same = False
    if not is_same:
        raise Changed(f"the data of task {config['task']['name']} has changed")


def check_code(stamps: Iterable[Mapping[str, str]]) -> None:
    """Refuse source files, or code that was loaded from them, that are not what the order says."""
    looks = changed, loaded_otherwise
    files = sorted({name for made_by in stamps for look in looks for name in look(made_by)})
    if files:
        raise Changed(f"{', '.join(files[:3])}{' and others' * (len(files) > 3)} changed")


note_loaded()  # before anything is edited: servers load this module, and fork workers
