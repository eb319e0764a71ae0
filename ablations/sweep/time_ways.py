"""How long a trial takes in each way that it can share a device, by steps that workers take."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.plan.wanted import Want
from ablations.plan.ways import Stopwatch, Way
from ablations.store.frozen import freeze
from ablations.sweep.launch import Job, Launcher, Outcome, Report
from ablations.tasks.cache import load_task

if TYPE_CHECKING:
    import torch

_LIMIT = 300.0  # seconds for the steps of one worker
_SPAN = 3.0  # seconds of steps
_WARMUP = 3  # calls: the first pay for much that later ones find done
_LEAST = 3  # calls that are timed, however long they take
_PAUSE = 0.001  # seconds between two looks at who has come: of _SPAN, next to nothing


def stopwatch(
    launcher: Launcher, device: str, devices: int, imports: Sequence[str], span: float = _SPAN
) -> Stopwatch:
    """Steps are taken by as many workers as the way has, on all devices at once; those that the
    launcher runs side by side begin together."""

    def seconds(want: Want, way: Way) -> float | None:
        share = 0.0 if device.partition(":")[0] == "cpu" else 1.0 / way.workers
        count = way.workers * devices
        payload = {"config": want.config, "packed": way.packed, "span": span}
        payload |= {"device": device, "imports": list(imports)}
        payload["meeting"] = min(count, launcher.capacity)
        call = f"{__name__}:{time_way.__name__}"
        with tempfile.TemporaryDirectory() as folder:
            jobs = [
                Job(
                    f"{way} of {want.trial}, {number}",
                    call,
                    {**payload, "number": number, "folder": folder},
                    seconds=_LIMIT,
                    accelerators=share,
                )
                for number in range(count)
            ]
            each = all_values(launcher, jobs)
        return None if each is None else sum(each) / count / way.workers

    return seconds


def all_values(launcher: Launcher, jobs: Sequence[Job]) -> list[float] | None:
    """What each returns; None where one fails: the others would wait for it, so they are ended."""
    for job in jobs:
        launcher.submit(job)
    ended: list[Outcome] = []
    for event in launcher.events():
        if isinstance(event, Outcome):
            ended.append(event)
            if event.status != "done":
                launcher.cancel()
    is_whole = all(each.status == "done" for each in ended)
    return [each.value for each in ended] if is_whole else None


@dataclass(frozen=True)
class Meeting:
    """Workers that begin together: one that has the device to itself would be too quick."""

    folder: Path
    number: int
    """Which of them this is."""
    count: int

    def wait(self, name: str) -> None:
        """Until all have come to what is called so."""
        (self.folder / f"{name}-{self.number}").touch()
        while len([*self.folder.glob(f"{name}-*")]) < self.count:
            time.sleep(_PAUSE)


def time_way(payload: dict[str, Any], _report: Report) -> float:
    """What a worker does for the stopwatch."""
    import torch

    for module in payload["imports"]:
        importlib.import_module(module)
    device = torch.device(payload["device"])
    meeting = Meeting(Path(payload["folder"]), payload["number"], payload["meeting"])
    return seconds_a_trial(payload["config"], payload["packed"], device, payload["span"], meeting)


def seconds_a_trial(
    config: dict[str, Any], packed: int, device: torch.device, span: float, meeting: Meeting
) -> float:
    """What a worker spends on one of so many trials that it trains as one, none of it compiled."""
    from ablations.train.loop import Trainer
    from ablations.train.pack import Pack
    from ablations.train.settings import TrainConfig
    from ablations.train.validation import validate
    from model.build import build

    task = load_task(freeze(config["task"]))
    settings = replace(TrainConfig(**config["train"]), compile=False)
    seeds = list(range(packed))
    sizes = task.source_size, task.target_size
    models = [build(config["model"], *sizes, seed).to(device) for seed in seeds]
    stream = zip(*(task.steps(seed, settings.budget) for seed in seeds), strict=True)
    step: Callable[[], object]
    look: Callable[[], object]
    if packed > 1:
        pack = Pack(models, task, settings, seeds, device)
        pack.step = 1
        step, look = lambda: pack.learn(next(stream)), pack.validate
    else:
        trainer = Trainer(models[0], task, settings, seeds[0], device)
        trainer.step = 1
        step = lambda: trainer.learn(next(stream)[0])  # noqa: E731
        look = lambda: validate(models[0], task, device)  # noqa: E731
    looks = 1 + min(settings.evaluations, settings.steps)  # the first before any step
    spent = settings.steps * mean_seconds(step, device, span, lambda: meeting.wait("steps"))
    looking = mean_seconds(look, device, span / 3, lambda: meeting.wait("looks"))
    return (spent + looks * looking) / packed


def mean_seconds(
    call: Callable[[], object], device: torch.device, span: float, meet: Callable[[], None]
) -> float:
    """Of calls one after another for so long, the first ones left out, from when all have met."""
    from ablations.measure.timing import synchronise

    for _ in range(_WARMUP):
        call()
    synchronise(device)
    meet()
    calls, begun = 0, time.perf_counter()
    while True:
        call()
        synchronise(device)
        calls, passed = calls + 1, time.perf_counter() - begun
        if calls >= _LEAST and passed >= span:
            return passed / calls
