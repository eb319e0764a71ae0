"""The functions that jobs call: train and evaluate trials, or run a benchmark.

Data and source files are compared with the payload before anything is computed, and the files
again before the result is returned.
"""

from __future__ import annotations

import importlib
import platform
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # every optimizer loads it: here that happens once, in the server
from torch import nn

from ablations.benchmarks.session import TimingConfig, Watch, time_session
from ablations.facts import identity_of
from ablations.launch import Changed, Report
from ablations.measurement import Probe, discover, needs_weights
from ablations.signals import Stopped, StopRequest, catching_sigterm
from ablations.store.identity import canonical_json
from ablations.store.record import Record
from ablations.store.stamp import changed, loaded_otherwise, note_loaded, short
from ablations.tasks.task import Task, load_task
from ablations.train.checkpoint import Checkpointer, load_weights, save_weights
from ablations.train.config import TrainConfig
from ablations.train.ddp import ALONE, Devices, SharedCheckpointer, ranks_on, run_together
from ablations.train.device import device_name, numerics, own_device
from ablations.train.loop import Training, train
from ablations.train.pack import Pack
from model.build import build
from model.config import ConfigError

Payload = dict[str, Any]
"""The payload of a job, made by `ablations.jobs`."""
Asked = dict[str, Any]
"""The entry of one trial in a payload."""


def run_trials(payload: Payload, report: Report) -> dict[str, Any]:
    """Trial → its record: trained and evaluated, or only evaluated from its weights.

    Several new trials are trained as one model. A request to stop raises `Stopped` during training;
    later it ends the measuring, and the records have what was measured by then.
    """
    asked = payload["trials"]
    stamps = [stamp for each in asked for stamp in (each["code"], *each["sources"].values())]
    with catching_sigterm() as notice:
        report(0.0, "starting")
        import_parts(payload)
        for each in asked:
            check_data(each)
        check_code(stamps)
        new = [each for each in asked if each["record"] is None]  # others may be trained by now
        together = new if len(new) > 1 else []
        records = _run_pack(payload, together, report, notice) if together else []
        apart = [each for each in asked if each not in together]
        records += [_run_trial(payload, each, report, notice) for each in apart]
        check_code(stamps)
        return {record.id: record.to_dict() for record in records}


def _run_trial(payload: Payload, asked: Asked, report: Report, notice: StopRequest) -> Record:
    clock = time.perf_counter()
    device, devices = torch.device(payload["device"]), payload["devices"]
    if devices > 1:  # each device has one thread
        torch.set_num_threads(1)
    is_new = asked["record"] is None
    record = new_record(payload, asked) if is_new else Record.from_dict(asked["record"])
    model: nn.Module | None = None
    if asked["trained"] and is_new:
        if devices == 1:
            checkpointer = Checkpointer(*_checkpoint_of(payload, asked), is_stopping=notice)
            model, training = _train(payload, asked, device, report, checkpointer)
            earlier = checkpointer.earlier
        else:
            own = {**payload, "device": own_device(payload["device"])}
            ended = run_together(train_rank, own, devices, report, notice)
            if ended is None:
                raise Stopped
            training, earlier = ended
        _end(record, training)
        clock -= earlier
    if asked["trained"] and model is None and (is_new or needs_weights(asked["sources"])):
        model = _model_of(asked, device)
        load_weights(model, _weights_of(payload, asked), _stamp(asked))
    _measure(asked, record, model, device, notice)
    record.env.setdefault("seconds", round(time.perf_counter() - clock, 3))
    return record


def _train(
    payload: Payload,
    asked: Asked,
    device: torch.device,
    report: Report,
    checkpointer: Checkpointer,
    ranks: Devices = ALONE,
) -> tuple[nn.Module, Training]:
    """Train a trial's model; rank 0 keeps its weights."""
    model, config = _model_of(asked, device), asked["config"]
    settings, seed = TrainConfig(**config["train"]), config["seed"]
    training = train(model, _task_of(asked), settings, seed, device, report, checkpointer, ranks)
    if ranks.rank == 0:
        save_weights(model, _weights_of(payload, asked), _stamp(asked))
    return model, training


def _task_of(asked: Asked) -> Task:
    return load_task(canonical_json(asked["config"]["task"]))


def _model_of(asked: Asked, device: torch.device) -> nn.Module:
    """A trial's model with its initial weights."""
    config, task = asked["config"], _task_of(asked)
    model = build(config["model"], task.source_size, task.target_size, config["seed"])
    return model.to(device)


def new_record(payload: Payload, asked: Asked) -> Record:
    """The record of a trial before it is trained."""
    record = Record(
        asked["trial"], "ok", asked["config"], trained=asked["trained"], **asked["counts"]
    )
    record.data = _task_of(asked).described
    record.env = {
        **payload["env"],
        "code": asked["code"],
        **_place(torch.device(payload["device"])),
        "devices": payload["devices"],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return record


def _end(record: Record, training: Training) -> None:
    """Copy the outcome and the measurements of a training."""
    record.status, record.reason = training.status, training.reason
    record.measurements += training.measurements


def train_rank(
    payload: Payload, report: Report, notice: StopRequest
) -> tuple[Training, float] | None:
    """One process of several that train a trial together: the training, and its earlier seconds;
    None if it was told to stop."""
    (asked,) = payload["trials"]
    import_parts(payload)
    check_data(asked)
    check_code([asked["code"]])  # this process has imported its own
    with ranks_on(torch.device(payload["device"])) as (ranks, device):
        checkpointer = SharedCheckpointer(*_checkpoint_of(payload, asked), ranks, notice)
        try:
            _, training = _train(payload, asked, device, report, checkpointer, ranks)
        except Stopped:
            return None
        return training, checkpointer.earlier


def _weights_of(payload: Payload, asked: Asked) -> Path:
    return Path(payload[f"weights {asked['trial']}"])


def _stamp(asked: Asked) -> dict[str, str]:
    """The stamp of a trial's weights."""
    return {"trial": asked["trial"], "code": short(asked["code"])}


def _checkpoint_of(payload: Payload, asked: Asked) -> tuple[Path, dict[str, str]]:
    """The path of a trial's checkpoint, and the stamp that it needs to be resumed."""
    made_on = {"device": torch.device(payload["device"]).type, "torch": torch.__version__}
    return Path(payload[f"unfinished {asked['trial']}"]), _stamp(asked) | made_on


def _measure(
    asked: Asked,
    record: Record,
    model: nn.Module | None,
    device: torch.device,
    notice: StopRequest,
) -> None:
    """Take the measurements; a source that fails is noted, and the next run tries it again."""
    config, task = asked["config"], _task_of(asked)
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
        if asked["record"] is not None:  # it may have been trained on another device
            record.env.setdefault("later", {})[name] = _place(device)
        record.examples = taken.examples or record.examples
        record.per_example |= taken.per_example


def _run_pack(
    payload: Payload, asked: Sequence[Asked], report: Report, notice: StopRequest
) -> list[Record]:
    """Train several seeds as one model; each has an equal share of the time."""
    begun = time.perf_counter()
    device = torch.device(payload["device"])
    records = [new_record(payload, each) for each in asked]
    models = [_model_of(each, device) for each in asked]
    seeds = [each["config"]["seed"] for each in asked]
    settings = TrainConfig(**asked[0]["config"]["train"])
    pack = Pack(models, _task_of(asked[0]), settings, seeds, device)
    trainings = pack.run(report, notice)
    share = (time.perf_counter() - begun) / len(asked)
    del pack  # frees the weights and moments of all replicas
    for each, record, model, training in zip(asked, records, models, trainings, strict=True):
        begun = time.perf_counter()
        _end(record, training)
        record.env["packed"] = len(asked)
        save_weights(model, _weights_of(payload, each), _stamp(each))
        _measure(each, record, model, device, notice)
        record.env["seconds"] = round(share + time.perf_counter() - begun, 3)
    return records


def run_benchmark(payload: Payload, report: Report) -> dict[str, Any]:
    """Time candidates beside their baseline: the session, and the measurements of each trial."""
    import_parts(payload)
    candidates, baseline = payload["candidates"], payload["baseline_config"]
    for trial, config in {payload["baseline"]: baseline, **candidates}.items():
        trained = trial not in payload["untrained"]
        check_data({"trial": trial, "config": config, "trained": trained})
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
    """The device and libraries that compute the numbers."""
    return {
        "torch": torch.__version__,
        "numerics": numerics(device),
        "python": platform.python_version(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
    }


def import_parts(payload: Payload) -> None:
    """Import the user's modules, which register components."""
    for module in payload["imports"]:
        importlib.import_module(module)
    note_loaded()


def check_data(asked: Asked) -> None:
    """Changed if the data is not that of the trial's id."""
    config = asked["config"]
    try:
        is_same = identity_of(config, asked["trained"]) == asked["trial"]
    except ConfigError:  # it can no longer be read at all
        is_same = False
    if not is_same:
        raise Changed(f"the data of task {config['task']['name']} has changed")


def check_code(stamps: Iterable[Mapping[str, str]]) -> None:
    """Changed if source files, or the code loaded from them, are not those of the stamps."""
    looks = changed, loaded_otherwise
    files = sorted({name for made_by in stamps for look in looks for name in look(made_by)})
    if files:
        raise Changed(f"{', '.join(files[:3])}{' and others' * (len(files) > 3)} changed")


note_loaded()  # before anything is edited: servers load this module, and fork workers
