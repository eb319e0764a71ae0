"""What the workers of a toy sweep do: a trial's config says what, and needs no torch.

Each start of a trial is a line in the folder's log. Servers load this module and little else, so
that a sweep of toys begins at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

from ablations.launch import Report
from ablations.signals import Stopped, catching_sigterm
from ablations.store.files import write_atomic
from ablations.store.record import Measurement, Record

CALL = f"{__name__}:train"


def starts(folder: Path) -> list[str]:
    """The trials that were started in a results folder, as often as they were."""
    log = folder / "starts.log"
    return log.read_text().split() if log.exists() else []


def train(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """The life of a trial: `do` names what happens, once or each time."""
    report(0.0, "starting")
    (asked,) = payload["trials"]
    trial, config = asked["trial"], asked["config"]
    paths = {kind: payload[f"{kind} {trial}"] for kind in ("weights", "unfinished")}
    folder = Path(paths["weights"]).parents[1]
    tries = starts(folder).count(trial)
    with open(folder / "starts.log", "a") as log:
        log.write(f"{trial}\n")
    if tries < config.get("times", 1_000):
        DO[config.get("do", "nothing")]({"config": config, **paths}, report)
    env = {"code": asked["code"], "worker": os.getpid(), "driver": config.get("driver")}
    loss = Measurement("loss", "nats/token", 1 / (1 + len(trial)), split="valid")
    record = Record(trial, "ok", config, env=env, measurements=[loss])
    if config.get("do") == "diverge":
        record.status, record.reason = "diverged", "loss nan at step 3"
    if begun := _begun(paths):
        record.env["begun"] = begun
    return {trial: record.to_dict()}


def _begun(payload: dict[str, Any]) -> int:
    """The step that is in the checkpoint."""
    path = Path(payload["unfinished"])
    return int(path.read_text()) if path.exists() else 0


def fail(payload: dict[str, Any], _report: Report) -> None:
    raise ValueError(payload["config"].get("words", "width 7 is not divisible by 2"))


def run_out_of_memory(_payload: dict[str, Any], _report: Report) -> None:
    bytearray(1 << 60)


def be_killed(_payload: dict[str, Any], _report: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_out_of_disk(payload: dict[str, Any], _report: Report) -> None:
    write_atomic(Path(payload["weights"]), bytes(payload["config"]["bytes"]))


def crash(_payload: dict[str, Any], _report: Report) -> None:
    ctypes.string_at(0)


def hang(_payload: dict[str, Any], report: Report) -> None:
    report(0.1, "hanging")
    while True:
        signal.pause()


def wait(payload: dict[str, Any], _report: Report) -> None:
    """Say the worker's id through one named pipe, and go on when another is opened."""
    Path(payload["config"]["told"]).write_text(f"{os.getpid()}")
    Path(payload["config"]["go"]).read_text()


def learn(payload: dict[str, Any], report: Report) -> None:
    """Wait in the middle, as `wait` does; told to stop there, keep a checkpoint."""
    if _begun(payload):
        return
    with catching_sigterm() as notice:
        try:
            with notice.raising():
                report(0.5, "learning")
                wait(payload, report)
        except Stopped:
            write_atomic(Path(payload["unfinished"]), "7")
            raise


def dawdle(payload: dict[str, Any], report: Report) -> None:
    """Told to stop, say so and wait for leave."""

    def stop(*_: object) -> None:
        Path(payload["config"]["stopping"]).write_text("")
        Path(payload["config"]["leave"]).read_text()
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    wait(payload, report)


DO = {
    "nothing": lambda _payload, _report: None,
    "diverge": lambda _payload, _report: None,
    "fail": fail,
    "memory": run_out_of_memory,
    "die": be_killed,
    "disk": run_out_of_disk,
    "crash": crash,
    "hang": hang,
    "wait": wait,
    "learn": learn,
    "dawdle": dawdle,
}
