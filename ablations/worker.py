"""What a worker does with a job's payload: train and evaluate trials, or run a benchmark.

A record must hold what its id and its stamps say. So data and source files are compared with the
payload before anything is computed, and the files again before the result is handed over.
"""

from __future__ import annotations

import importlib
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # every optimizer loads it: here that happens once, in the server
from torch import nn

from ablations.benchmarks.session import TimingConfig, Watch, time_session
from ablations.facts import identity_of
from ablations.launch import Changed
from ablations.measurement import Probe, discover, needs_weights
from ablations.signals import Stopped, StopRequest, catching_sigterm
from ablations.store.identity import canonical_json
from ablations.store.record import Measurement, Record
from ablations.store.stamp import changed, loaded_otherwise, note_loaded, short
from ablations.tasks.task import Task, load_task
from ablations.train.checkpoint import Checkpointer, load_weights, save_weights, stamp_for
from ablations.train.config import TrainConfig
from ablations.train.ddp import SharedCheckpointer, ranks_on, run_together
from ablations.train.device import device_name, numerics, own_device
from ablations.train.loop import Training, train
from ablations.train.pack import Pack
from model.build import build
from model.config import ConfigError

Report = Callable[[float, str], None]
Payload = dict[str, Any]
"""What `ablations.jobs` sends."""
Asked = dict[str, Any]
"""What a payload says of one trial."""


def run_trials(payload: Payload, report: Report) -> dict[str, Any]:
    """Trial → its record: trained and evaluated, or only evaluated from its weights.

    Trials that are to be trained differ in their seed alone, and are trained as one model. Told to
    stop, this raises `Stopped` while it trains: one trial goes on from its checkpoint the next
    time, several begin again. After that it gives the records with what is measured by then.
    """
    asked = payload["trials"]
    stamps = [stamp for each in asked for stamp in (each["code"], *each["sources"].values())]
    with catching_sigterm() as notice:
        report(0.0, "starting")
        import_parts(payload)
        for each in asked:
            check_data(each["config"], each["trial"], each["trained"])
        check_code(stamps)
        together = [each for each in asked if each["record"] is None]
        together = together if len(together) > 1 else []
        # Others may have been trained elsewhere by now.
        apart = [each for each in asked if each not in together]
        records = _run_pack(payload, together, report, notice) if together else []
        records += [_run_trial(payload, each, report, notice) for each in apart]
        check_code(stamps)
        return {record.id: record.to_dict() for record in records}


def _run_trial(payload: Payload, asked: Asked, report: Report, notice: StopRequest) -> Record:
    clock = time.perf_counter()
    config, device, devices = asked["config"], torch.device(payload["device"]), payload["devices"]
    if devices > 1:  # each has a thread of its own, and measures are taken as on one
        torch.set_num_threads(1)
    task = load_task(canonical_json(config["task"]))
    is_new = asked["record"] is None
    record = new_record(payload, asked) if is_new else Record.from_dict(asked["record"])
    model: nn.Module | None = None
    if asked["trained"] and (is_new or needs_weights(asked["sources"])):
        if devices > 1:
            clock -= _train_together(payload, record, report, notice)
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        if is_new and devices == 1:
            checkpointer = Checkpointer(*checkpoint_of(payload, asked), is_stopping=notice)
            settings = TrainConfig(**config["train"])
            training = train(model, task, settings, config["seed"], device, report, checkpointer)
            end(record, training)
            save_weights(model, weights_of(payload, asked), stamp_for(record))
            clock -= checkpointer.earlier
        else:
            load_weights(model, weights_of(payload, asked), stamp_for(record))
    _measure(asked, record, model, task, device, notice)
    record.env.setdefault("seconds", round(time.perf_counter() - clock, 3))
    return record


def new_record(payload: Payload, asked: Asked) -> Record:
    """What is known of a trial before it is trained."""
    record = Record(
        asked["trial"], "ok", asked["config"], trained=asked["trained"], **asked["counts"]
    )
    record.data = load_task(canonical_json(asked["config"]["task"])).described
    record.env = {
        **payload["env"],
        "code": asked["code"],
        **_place(torch.device(payload["device"])),
        "devices": payload["devices"],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return record


def end(record: Record, training: Training) -> None:
    """Take over how a training ended, and what it has read."""
    record.status, record.reason = training.status, training.reason
    record.measurements += training.measurements


def _train_together(payload: Payload, record: Record, report: Report, notice: StopRequest) -> float:
    """Have a process for each device train, and keep the weights; seconds of earlier stretches."""
    own = {**payload, "device": own_device(payload["device"])}
    training = run_together(train_rank, own, payload["devices"], report, notice)
    if training is None:
        raise Stopped
    record.status, record.reason = training["status"], training["reason"]
    record.measurements += [Measurement(**measurement) for measurement in training["measurements"]]
    return float(training["earlier"])


def train_rank(payload: Payload, report: Report, notice: StopRequest) -> dict[str, Any] | None:
    """What one of the processes that train a trial together does; None where it was told to stop.

    Rank 0 keeps the weights.
    """
    (asked,) = payload["trials"]
    config = asked["config"]
    import_parts(payload)
    check_data(config, asked["trial"], asked["trained"])
    check_code([asked["code"]])  # this process has imported its own
    with ranks_on(torch.device(payload["device"])) as (ranks, device):
        task = load_task(canonical_json(config["task"]))
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        checkpointer = SharedCheckpointer(*checkpoint_of(payload, asked), ranks, notice)
        settings = TrainConfig(**config["train"])
        try:
            training = train(
                model, task, settings, config["seed"], device, report, checkpointer, ranks
            )
        except Stopped:
            return None
        if ranks.rank == 0:
            record = Record(asked["trial"], training.status, config, env={"code": asked["code"]})
            save_weights(model, weights_of(payload, asked), stamp_for(record))
        return {
            "status": training.status,
            "reason": training.reason,
            "measurements": [vars(measurement) for measurement in training.measurements],
            "earlier": checkpointer.earlier,
        }


def weights_of(payload: Payload, asked: Asked) -> Path:
    return Path(payload[f"weights {asked['trial']}"])


def checkpoint_of(payload: Payload, asked: Asked) -> tuple[Path, dict[str, Any]]:
    """Where a trial's checkpoint is, and what it must have been made with to be gone on from, on
    any number of devices."""
    device = torch.device(payload["device"]).type
    made_with = {"trial": asked["trial"], "code": short(asked["code"])}
    made_with |= {"device": device, "torch": torch.__version__}
    return Path(payload[f"unfinished {asked['trial']}"]), made_with


def _measure(
    asked: Asked,
    record: Record,
    model: nn.Module | None,
    task: Task,
    device: torch.device,
    notice: StopRequest,
) -> None:
    """Take what is asked; a measure that fails is noted, and the next run tries it again."""
    config = asked["config"]
    for name, made_by in asked["sources"].items():
        part = discover().build(name)
        if record.status == "diverged" and not isinstance(part, Probe):  # it answers nothing
            record.take(name, made_by, [])
            continue
        try:
            with notice.raising():
                if isinstance(part, Probe):
                    taken = part.measure(config, task, device)
                else:
                    taken = part.measure(model, task, device, config["train"]["steps"])
        except Stopped:
            return
        except Exception as error:
            record.failures[name] = f"{type(error).__name__}: {error}"
            continue
        record.take(name, made_by, taken.measurements)
        if asked["record"] is not None:  # where it was trained says nothing of this
            record.env.setdefault("later", {})[name] = _place(device)
        record.examples = taken.examples or record.examples
        record.per_example |= taken.per_example


def _run_pack(
    payload: Payload, asked: Sequence[Asked], report: Report, notice: StopRequest
) -> list[Record]:
    """Train several seeds as one model; each has an equal share of the time."""
    begun = time.perf_counter()
    first, device = asked[0]["config"], torch.device(payload["device"])
    task = load_task(canonical_json(first["task"]))
    records = [new_record(payload, each) for each in asked]
    seeds = [each["config"]["seed"] for each in asked]
    sizes = task.source_size, task.target_size
    models = [build(first["model"], *sizes, seed).to(device) for seed in seeds]
    pack = Pack(models, task, TrainConfig(**first["train"]), seeds, device)
    trainings = pack.run(report, notice)
    share = (time.perf_counter() - begun) / len(asked)
    del pack  # and the weights and moments of all lanes
    for each, record, model, training in zip(asked, records, models, trainings, strict=True):
        begun = time.perf_counter()
        end(record, training)
        record.env["packed"] = len(asked)
        save_weights(model, weights_of(payload, each), stamp_for(record))
        _measure(each, record, model, task, device, notice)
        record.env["seconds"] = round(share + time.perf_counter() - begun, 3)
    return records


def run_benchmark(payload: Payload, report: Report) -> dict[str, Any]:
    """Time candidates beside their baseline: the session, and the measurements of each trial."""
    import_parts(payload)
    candidates, baseline = payload["candidates"], payload["baseline_config"]
    for trial, config in {payload["baseline"]: baseline, **candidates}.items():
        check_data(config, trial, trial not in payload["untrained"])
    stamps = [payload["code"], payload["models"]]
    check_code(stamps)
    device = torch.device(payload["device"])
    watch, lost = Watch(), []  # type: tuple[Watch, list[str]]
    taken = time_session(
        discover().build(payload["measure"]),
        baseline,
        candidates,
        payload["places"],
        TimingConfig(**payload["timing"]),
        device,
        report,
        lost,
    )
    check_code(stamps)
    env = {**payload["env"], **watch.state(device), "code": payload["models"], "lost": lost}
    measurements = {
        trial: [vars(measurement) for measurement in measurements]
        for trial, measurements in taken.items()
    }
    return {"session": secrets.token_hex(4), "env": env, "measurements": measurements}


def _place(device: torch.device) -> dict[str, Any]:
    """Where numbers are computed."""
    return {
        "torch": torch.__version__,
        "numerics": numerics(device),
        "python": platform.python_version(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
    }


def import_parts(payload: Payload) -> None:
    """Have the user's own parts registered."""
    for module in payload["imports"]:
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
    """Refuse source files, or code that was loaded from them, that are not what the job says."""
    looks = changed, loaded_otherwise
    files = sorted({name for made_by in stamps for look in looks for name in look(made_by)})
    if files:
        raise Changed(f"{', '.join(files[:3])}{' and others' * (len(files) > 3)} changed")


note_loaded()  # before anything is edited: servers load this module, and fork workers
