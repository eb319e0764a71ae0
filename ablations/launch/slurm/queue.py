"""Slurm itself: told through submitit, and asked by squeue, which every cluster has (not sacct)."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which
from typing import Any

from ablations.launch.slurm.element import ArrayElement
from ablations.launch.slurm.profile import Request, SlurmProfile
from model.config import ConfigError

GONE = "GONE"  # nobody knows it any more
ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT", GONE,
}  # fmt: skip
ENDING = ENDED | {"COMPLETING"}
_STRETCHES = 10_000  # time limits that one job may use up, one after the other
_ANSWER = 30.0  # seconds until Slurm has not answered
_PASSING = ("unable to contact", "timed out", "temporarily", "connection refused", "zero bytes")


class Unanswered(Exception):
    """Slurm did not answer; it may later."""


def submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError:
        problem = "Slurm needs the package submitit: pip install -e '.[slurm]'"
        raise ConfigError([problem]) from None


def files_of(folder: Path, number: str) -> dict[str, Path]:
    """Submitit's files of one job: result, submitted, stdout, stderr."""
    names = {"result": "0_result.pkl", "submitted": "submitted.pkl"}
    names |= {"stdout": "0_log.out", "stderr": "0_log.err"}
    return {kind: folder / f"{number}_{name}" for kind, name in names.items()}


class SlurmQueue:
    """The cluster: all elements that are submitted together are one job array."""

    def __init__(self, profile: SlurmProfile, at_once: int) -> None:
        self._profile, self._at_once = profile, at_once
        self._submitit = submitit()
        lacking = [word for word in ("sbatch", "srun", "squeue", "scancel") if not which(word)]
        if lacking:
            where = "start this where jobs are submitted, such as on a login node"
            raise ConfigError([f"no Slurm here ({', '.join(lacking)} not found): {where}"])

    def submit(self, folder: Path, elements: Sequence[ArrayElement], request: Request) -> list[str]:
        """Hand them over, as one array; what Slurm calls each."""
        python = f"exec {shlex.quote(sys.executable)}"
        executor = self._submitit.SlurmExecutor(folder, _STRETCHES, python=python)
        options = self._profile.options(request, _name(folder), self._at_once)
        executor.update_parameters(**options)
        try:
            with _environment(), contextlib.redirect_stderr(io.StringIO()):  # told once
                return [job.job_id for job in executor.submit_array(elements)]
        except (
            self._submitit.core.utils.FailedJobError,
            self._submitit.core.utils.FailedSubmissionError,
        ) as error:
            raise _refusal(str(error)) from None

    def states(self, numbers: Sequence[str]) -> dict[str, str] | None:
        """How each stands, in Slurm's words; None where there is no answer."""
        words = ["--me", "--noheader", "--array", "--states=all", "--format=%i|%T"]
        told = _ask("squeue", *words)
        if told is None:
            return None
        known = dict(line.strip().split("|", 1) for line in told.splitlines() if "|" in line)
        return {number: known.get(number, GONE) for number in numbers}

    def cancel(self, numbers: Sequence[str]) -> None:
        """Tell these to stop; no mistake where one has ended."""
        _ask("scancel", *numbers)

    def withdraw(self, folder: Path) -> None:
        """Cancel whatever was submitted from this folder, though it has no numbers."""
        _ask("scancel", "--me", f"--name={_name(folder)}")


def _name(folder: Path) -> str:
    return f"ablations-{folder.name}"


def _ask(*words: str) -> str | None:
    """What a command of Slurm's says; None where it fails."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=_ANSWER,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _refusal(told: str) -> Exception:
    """Why sbatch took nothing, in one line."""
    lines = [line.strip() for line in told.splitlines() if line.strip()] or ["no reason given"]
    if any(word in told.lower() for word in _PASSING):
        return Unanswered(lines[-1])
    return ConfigError([f"{' '.join(lines)}; mend the Slurm profile"])


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """What jobs inherit: the driver's modules, and nothing of a job that it may be itself."""
    hidden = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("SLURM_", "SUBMITIT_")) and name != "SLURM_CONF"
    }
    path = os.environ.get("PYTHONPATH")
    for name in hidden:
        del os.environ[name]
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
    try:
        yield
    finally:
        os.environ.update(hidden)
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path
