"""What the tests of launchers run in workers: each function is one way for a job to behave.

Most workers import this anew, so it loads no torch.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ablations.launch import Report
from ablations.signals import Stopped, catching_sigterm


class OutOfMemoryError(RuntimeError):
    """Named like torch's own."""


ERRORS = {
    "value": ValueError("width 7\nis not  divisible by 2"),
    "memory": MemoryError(),
    "accelerator": OutOfMemoryError("tried to allocate 2.00 GiB"),
    "allocator": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
    "runtime": RuntimeError("size mismatch"),
    "exit": SystemExit(3),
}


def echo(payload: dict[str, Any], _report: Report) -> Any:
    return payload


def revise(payload: dict[str, Any], _report: Report) -> str | None:
    """Write two files, one of them over what it held; what that was."""
    given = Path(payload["given"])
    found = given.read_text() if given.exists() else None
    given.write_text("as it is now")
    Path(payload["made"]).write_text("new")
    return found


def recite(payload: dict[str, Any], _report: Report) -> dict[str, Any]:
    """What a user's file holds here, whether that is a copy, and what else came along."""
    import ablations
    from ablations.tasks.data.files import brought_to, read_text
    from ablations.tasks.task import announced

    copy = brought_to(payload["path"])
    found = {"text": read_text(payload["path"]), "is_copy": copy is not None and copy.exists()}
    return found | {"tasks": announced(), "code": ablations.__file__}


def who(_payload: dict[str, Any], _report: Report) -> dict[str, Any]:
    return {"pid": os.getpid(), "group": os.getpgrp(), "threads": os.environ["OMP_NUM_THREADS"]}


def fail(payload: dict[str, Any], _report: Report) -> None:
    print("about to fail")
    raise ERRORS[payload["error"]]


def shapeless(_payload: dict[str, Any], _report: Report) -> object:
    return object()


def big(payload: dict[str, Any], _report: Report) -> str:
    return "x" * payload["size"]


def count(payload: dict[str, Any], report: Report) -> None:
    for step in range(payload["steps"]):
        report(step / payload["steps"], f"step {step}")


def hold(payload: dict[str, Any], report: Report) -> str:
    """Say so, then wait until someone opens the other end of the named pipe."""
    report(0.0, "started")
    with open(payload["fifo"]) as fifo:
        return fifo.read()


def begin(payload: dict[str, Any], report: Report) -> str:
    """Hold, and leave a line for each time that this was begun."""
    with open(payload["log"], "a") as log:
        log.write(f"{os.getpid()}\n")
    return hold(payload, report)


def learn(payload: dict[str, Any], report: Report) -> str:
    """Keep a checkpoint when told to stop; the next time, go on from there to the end."""
    checkpoint = Path(payload["unfinished"])
    if checkpoint.exists():
        return f"went on from {checkpoint.read_text()}"
    with catching_sigterm() as notice:
        try:
            with notice.raising():
                report(0.5, "learning")
                while True:
                    signal.pause()
        except Stopped:
            checkpoint.write_text("step 7")
            raise


SLOTS: list[int] = []


def take_slot(slot: int) -> None:
    """What a worker does before its job."""
    SLOTS.append(slot)


def hold_slot(payload: dict[str, Any], report: Report) -> list[int]:
    """Say which it is, then wait as `hold` does."""
    report(0.0, str(SLOTS[0]))
    with open(payload["fifo"]) as fifo:
        fifo.read()
    return SLOTS


def chatter(payload: dict[str, Any], _report: Report) -> None:
    print("x" * payload["size"])
    print("from Python")
    print("to the error stream", file=sys.stderr)
    os.system("echo from a child")
    if payload["fail"]:
        raise ValueError


def die(payload: dict[str, Any], report: Report) -> None:
    report(0.5, "last words")
    os.kill(os.getpid(), payload["signal"])


def leave(payload: dict[str, Any], _report: Report) -> None:
    os._exit(payload["code"])


def _start_child(fork: bool = False) -> int:
    """A child in the worker's group that is deaf to SIGTERM, forked or run anew."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # which children inherit
    if fork:
        child = os.fork()
        while child == 0:
            signal.pause()
    else:
        child = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"]).pid
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return child


def parent(_payload: dict[str, Any], report: Report) -> None:
    report(0.0, f"{os.getpid()} {_start_child()}")
    while True:
        signal.pause()


def abandon(payload: dict[str, Any], report: Report) -> None:
    report(0.0, str(_start_child(payload["fork"])))
    with open(payload["fifo"]) as fifo:
        fifo.read()


def stubborn(_payload: dict[str, Any], report: Report) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report(0.0, "started")
    while True:
        signal.pause()


def polite(_payload: dict[str, Any], report: Report) -> str:
    def stop(*_: object) -> None:
        raise InterruptedError

    signal.signal(signal.SIGTERM, stop)
    try:
        report(0.0, str(os.getpid()))
        while True:
            signal.pause()
    except InterruptedError:
        return "what there was so far"


def keep_the_lock(_payload: dict[str, Any], report: Report) -> None:
    """Backtrack for years inside one C call, in which no other thread can run."""
    report(0.0, str(os.getpid()))
    re.match(r"(a+)+$", "a" * 64 + "b")
