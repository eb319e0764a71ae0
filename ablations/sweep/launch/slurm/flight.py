"""One job that is on a cluster, as its driver sees it: by its files, and by what Slurm says."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path

from ablations.sweep.launch import Outcome, Progress
from ablations.sweep.launch.slurm.element import read_outcome
from ablations.sweep.launch.slurm.manifest import Submitted, forget
from ablations.sweep.launch.slurm.queue import ENDED, files_of

_TAIL = 2_000  # characters of a job's log
_LOST = ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED")  # its machine was, by no fault of its own
_STATUS = {"TIMEOUT": "timeout", "DEADLINE": "timeout", "OUT_OF_MEMORY": "oom"}  # else: killed


class Flight:
    """A job between its submission and its outcome."""

    def __init__(self, one: Submitted) -> None:
        assert one.number is not None
        self.job, self.number = one.job, one.number
        self.is_cancelled = False
        self._one, self._files = one, files_of(one.folder, one.number)
        self._read = 0  # bytes of progress
        self._began: float | None = None
        self._state: str | None = None  # in which Slurm says that it has ended
        self._ended = math.inf
        self._is_done = False

    def cancel(self) -> None:
        """Let the job know that it is its driver who tells it to stop."""
        self.is_cancelled = True
        with contextlib.suppress(OSError):  # then what it has so far is lost, and no more
            self._one.cancelled.touch()

    def see(self, state: str) -> None:
        """How Slurm says that it stands: ended, or not, or not any more."""
        if state not in ENDED:
            self._state, self._ended = None, math.inf
        elif self._state is None:
            self._state, self._ended = state, time.monotonic()

    def news(self) -> list[Progress]:
        """What it has reported since the last time."""
        try:
            with open(self._one.progress, "rb") as file:
                file.seek(self._read)
                told = file.read()
        except FileNotFoundError:
            return []
        self._began = self._began or time.monotonic()
        whole = told[: told.rfind(b"\n") + 1]
        self._read += len(whole)
        events = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError, TypeError):  # torn when its writer was killed
                events.append(Progress(self.job, **json.loads(line)))
        return events

    def outcome(self, settling: float) -> Outcome | None:
        """How it ended; None while it has not, or while the disk may not show it yet."""
        with contextlib.suppress(OSError):  # else a network disk may go on to hide what is new
            os.listdir(self._one.folder)
        found = read_outcome(self.job, self._files["result"])
        if found is None:
            if time.monotonic() - self._ended < settling:
                return None
            found = self._death()
        elif (found.status, (found.reason or "")[:7]) == ("killed", "SIGKILL"):
            if self._state is None:
                return None  # Slurm will tell whether it was for memory
            if self._state == "OUT_OF_MEMORY":
                found = replace(found, status="oom", reason="more memory than it had asked for")
        if self.is_cancelled:
            found = replace(found, status="killed", reason="cancelled")
        self._is_done = found.status == "done"
        return found

    @property
    def is_lost(self) -> bool:
        """Whether it ended with its machine, on a cluster that does not start it again."""
        return self._state in _LOST and not self.is_cancelled and not self._is_done

    def forget(self) -> None:
        """Its outcome was taken. The log of one that failed stays as long as its array."""
        kept = () if self._is_done else ("stdout", "stderr")
        forget(self._one, [file for kind, file in self._files.items() if kind not in kept])

    def _death(self) -> Outcome:
        """The outcome of a job that has ended and left no result."""
        assert self._state is not None
        words = self._state.lower().replace("_", " ")
        return Outcome(
            self.job,
            _STATUS.get(self._state, "killed"),
            reason=f"ended without a result ({words})",
            detail="\n".join(filter(None, map(_tail, self._logs))) or None,
            seconds=0.0 if self._began is None else time.monotonic() - self._began,
            began=self._began is not None,
        )

    @property
    def _logs(self) -> list[Path]:
        return [self._files["stdout"], self._files["stderr"]]


def _tail(path: Path) -> str:
    try:
        return path.read_bytes()[-4 * _TAIL :].decode("utf-8", "replace")[-_TAIL:]
    except OSError:
        return ""
