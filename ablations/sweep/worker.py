"""What a worker does with a job: train and measure one trial, or time one session."""

from __future__ import annotations

import importlib
import platform
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # every optimiser loads it: here that happens once, in the server

from ablations.measure import discover
from ablations.measure.timing import TimingConfig, probe_memory, time_blocks
from ablations.store.frozen import freeze
from ablations.store.record import Reading, Record
from ablations.tasks.cache import load_task
from ablations.train.device import device_name
from ablations.train.loop import train
from ablations.train.settings import TrainConfig
from ablations.train.stopping import Notice, Stopped, noticing
from ablations.train.unfinished import Keeper
from ablations.train.weights import load_weights, save_weights, stamp_for
from model.build import build

Report = Callable[[float, str], None]


def run_trial(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Train a trial and take its measures, or take missing measures from its checkpoint.

    Told to stop, it raises `Stopped` while it trains, and goes on from there the next time; after
    that it gives the record with what is measured by then.
    """
    with noticing() as notice:
        return _run_trial(payload, report, notice)


def _run_trial(payload: dict[str, Any], report: Report, notice: Notice) -> dict[str, Any]:
    started, clock = datetime.now(UTC), time.perf_counter()
    report(0.0, "starting")
    _import(payload)
    config, device = payload["config"], torch.device(payload["device"])
    task = load_task(freeze(config["task"]))
    model = build(config["model"], task.source_size, task.target_size, config["seed"]).to(device)
    checkpoint = Path(payload["checkpoint"])
    steps = config["train"]["steps"]
    if payload["record"] is None:
        record = Record(
            payload["trial"],
            status="ok",
            config=config,
            **payload["counts"],
            data=task.card(),
        )
        stamp = {"trial": payload["trial"], "code": payload["code"], "device": device.type}
        stamp["torch"] = torch.__version__
        keeper = Keeper(Path(payload["unfinished"]), stamp, is_stopping=notice)
        settings = TrainConfig(**config["train"])
        training = train(model, task, settings, config["seed"], device, report, keeper)
        clock -= keeper.earlier  # a training that went on counts all its time
        record.status, record.reason = training.status, training.reason
        record.readings += training.readings
        record.env = {
            **payload["env"],
            "code": payload["code"],
            "torch": torch.__version__,
            "python": platform.python_version(),
            "device": device_name(device),
            "threads": torch.get_num_threads(),
            "started": started.isoformat(timespec="seconds"),
        }
        save_weights(model, checkpoint, stamp_for(record))
    else:
        record = Record.from_dict(payload["record"])
        load_weights(model, checkpoint, stamp_for(record))
    failures = []
    for name in payload["measures"]:
        if record.status != "diverged":  # a diverged model answers nothing
            try:
                with notice.raising():
                    readings, examples = discover().build(name).take(model, task, device, steps)
            except Stopped:
                break
            except Exception as error:  # the training stays; the next run tries the measure again
                told = f"{type(error).__name__}: {error}".replace("; ", ", ")  # which parts reasons
                failures.append(f"measure {name} failed: {told}")
                continue
            record.readings += readings
            record.examples = examples or record.examples
        record.measures.append(name)
    before = [part for part in (record.reason or "").split("; ") if not part.startswith("measure ")]
    record.reason = "; ".join(filter(None, [*before, *failures])) or None
    record.env.setdefault("seconds", round(time.perf_counter() - clock, 3))
    return record.to_dict()


def run_session(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Time candidates beside their reference and its twin; each trial's readings stand alone."""
    _import(payload)
    device = torch.device(payload["device"])
    config = TimingConfig(**payload["timing"])
    measure = discover().build(payload["measure"])
    place = {"session": secrets.token_hex(4), "against": payload["against"]}
    env = {"torch": torch.__version__, "device": device_name(device), "code": payload["code"]}
    env |= {**payload["env"], "threads": torch.get_num_threads()}
    trials: dict[str, Any] = {
        "reference": payload["reference"],
        "twin": payload["reference"],
        **payload["candidates"],
    }
    results: dict[str, list[Reading]] = {trial: [] for trial in payload["candidates"]}

    def prepare(name: str, length: int, batch: int) -> Callable[[], None]:
        task = load_task(freeze(trials[name]["task"]))
        return measure.prepare(trials[name], task, device, length, batch)

    # All probes are forked before this process computes anything: a child that inherits a used heap
    # would seem to need less, and one that inherits an accelerator cannot use it.
    probed = {
        (name, index): probe_memory(
            lambda name=name: prepare(name, 2, 1),  # type: ignore[misc]
            lambda name=name, shape=shape: prepare(name, **shape),  # type: ignore[misc]
            device,
        )
        for index, shape in enumerate(config.shapes)
        for name in trials
    }
    for index, shape in enumerate(config.shapes):
        at: dict[str, float] = dict(shape)
        failures = {name: probed[name, index][1] for name in trials}
        for name, readings in results.items():
            extra, reason = probed[name, index]
            readings.append(Reading("peak_memory", "bytes", extra, at=at, reason=reason))
        calls = {name: prepare(name, **shape) for name in trials if failures[name] is None}
        samples = time_blocks(calls, config, device, report=report)
        for name, readings in results.items():
            reason = failures.get(name) or failures.get("reference") or failures.get("twin")
            times: dict[str, Any] = {"reason": reason}
            if reason is None:
                times = {role: samples[role] for role in ("reference", "twin")}
                times["samples"] = samples[name]
            readings.append(Reading(measure.metric, measure.unit, at=at, **place, **times))
    taken = {trial: [vars(reading) for reading in readings] for trial, readings in results.items()}
    return {"session": place["session"], "env": env, "readings": taken}


def _import(payload: dict[str, Any]) -> None:
    for module in payload["imports"]:
        importlib.import_module(module)
