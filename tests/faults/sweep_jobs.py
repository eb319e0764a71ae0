"""A sweep whose trials need no torch: what its workers do, and the program that drives it.

A trial's config says what it does. Each start of it is a line in the folder's log.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ablations.plan.profile import Profile
from ablations.plan.wanted import Plan, Want
from ablations.store.files import write_atomic
from ablations.store.record import Reading, Record
from ablations.store.results import Results
from ablations.store.schema import FAILED
from ablations.store.stamp import Stamp
from ablations.sweep.launch import Report
from ablations.sweep.launch.local import LocalLauncher
from ablations.sweep.lease import Leases
from ablations.sweep.runner import run
from ablations.sweep.signals import exit_code, stoppable
from ablations.train.stopping import Stopped, noticing

CALL = "sweep_jobs:train"


class ToyWant(Want):
    """A trial that is told what to do, and no model to count."""

    counts = {"parameters": 1, "flops_per_token": 1.0}  # type: ignore[assignment] # noqa: RUF012
    code = {"toy": "1"}  # type: ignore[assignment] # noqa: RUF012
    data = {"sha256": "0", "files": []}  # type: ignore[assignment] # noqa: RUF012
    parameters = 1  # type: ignore[assignment]
    kept_bytes = 0.0  # type: ignore[assignment]
    files = ()  # type: ignore[assignment]

    def measure_code(self, measure: str) -> Stamp:
        return {}


def toy_plan(trials: dict[str, dict[str, Any]]) -> Plan:
    """A plan that wants these, by name, each to do as its settings say."""
    wanted = {}
    for name, does in trials.items():
        config = {"seed": 0, "train": {"steps": 1, "batch_tokens": 1}, **does}
        wanted[name] = ToyWant(name, config, f"toy:{name}", {"kind": does.get("kind", "")})
    source: Any = None
    return Plan(Profile("toy", [0], {}, source), {}, {}, {}, wanted)


def starts(folder: Path) -> list[str]:
    """The trials that were started in a results folder, as often as they were."""
    log = folder / "starts.log"
    return log.read_text().split() if log.exists() else []


def train(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """The life of a trial: `do` names what happens, once or each time."""
    report(0.0, "starting")
    folder = Path(payload["weights"]).parents[1]
    tries = starts(folder).count(payload["trial"])
    with open(folder / "starts.log", "a") as log:
        log.write(f"{payload['trial']}\n")
    config = payload["config"]
    if tries < config.get("times", 1_000):
        DO[config.get("do", "nothing")](payload, report)
    env = {"code": payload["code"], "worker": os.getpid(), "driver": config.get("driver")}
    loss = Reading("loss", "nats/token", 1 / (1 + len(payload["trial"])), split="valid")
    record = Record(payload["trial"], "ok", config, env=env, readings=[loss])
    if config.get("do") == "diverge":
        record.status, record.reason = "diverged", "loss nan at step 3"
    if begun := _begun(payload):
        record.env["begun"] = begun
    return record.to_dict()


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
    """With a child that is deaf to SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    report(0.1, f"{os.getpid()}")
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
    with noticing() as notice:
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


def drive(settings: dict[str, Any]) -> int:
    """What the command `run` does, for a plan of toys."""
    results = Results(settings["folder"])
    leases = Leases(results.root / "leases", patience=settings.get("patience", 60.0))
    try:
        with LocalLauncher(settings.get("jobs", 1), ["sweep_jobs"], grace=30.0) as launcher:
            plan = toy_plan(settings["trials"])
            counts = run(plan, results, launcher, "cpu", call=CALL, leases=leases, poll=0.02)
    except KeyboardInterrupt as stop:
        print("Stopped. The same command goes on from here.", file=sys.stderr)
        return exit_code(stop)
    return 1 if any(counts[status] for status in FAILED) else 0


if __name__ == "__main__":
    with stoppable():
        sys.exit(drive(json.loads(sys.argv[1])))
