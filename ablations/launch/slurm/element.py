"""What a cluster runs for one job: a local launcher at the far end, and what crosses from there.

Slurm says SIGTERM before it takes a machine away, and soon kills what is left. A job that anyone
but its own driver has told to stop leaves no result: Slurm starts it again, and it goes on from its
checkpoint. Near the time limit another signal comes; then the job asks to be started again itself.

Progress crosses as lines of a file, the outcome as text in submitit's pickle.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from ablations.launch import Job, Launcher, Outcome, Progress
from ablations.launch.local import LocalLauncher
from ablations.signals import stoppable

_AGAIN = "Told to stop: it goes on from its checkpoint when it is started again."
_TOO_LONG = "longer than the cluster's time limit: give the Slurm profile more minutes"
_DETAIL = 20_000  # characters
_NEAR_THE_LIMIT = signal.SIGUSR2


@dataclass(frozen=True)
class ArrayElement:
    """One job, as it is called where the cluster has put it; submitit keeps it as a pickle."""

    job: str
    """A `Job` as JSON."""
    progress: str
    """The file that tells how far it is; it is there once the job has begun."""
    cancelled: str
    """The file that is there once the job's own driver has cancelled it."""
    grace: float
    """Seconds from being told to stop until it is killed."""

    def __call__(self) -> str:
        """How the job ended, as JSON. No return where it is to be started again."""
        plain = json.loads(self.job)
        job = Job(**{**plain, "files": tuple(plain["files"])})
        requeue: Any = signal.getsignal(_NEAR_THE_LIMIT)  # submitit's
        is_near_the_limit = False

        def warn(*_: object) -> None:
            nonlocal is_near_the_limit
            is_near_the_limit = True
            signal.raise_signal(signal.SIGTERM)

        signal.signal(_NEAR_THE_LIMIT, warn)
        outcome, is_told = self._run(job)
        has_value = outcome is not None and outcome.value is not None
        if is_told and not has_value and not self._is_cancelled():
            if is_near_the_limit and not _has_checkpoint(job):  # the next stretch would be as short
                return json.dumps(asdict(Outcome(job.id, "timeout", reason=_TOO_LONG)))
            if is_near_the_limit:
                requeue(_NEAR_THE_LIMIT, None)  # and does not return
            raise SystemExit(_AGAIN)  # for what is no Exception, submitit writes no result
        outcome = outcome or Outcome(job.id, "killed", reason="cancelled before it started")
        return json.dumps(asdict(outcome))

    def checkpoint(self) -> Any:
        """What submitit is to start again: the very same, since the job has its own checkpoint."""
        from submitit.core.utils import DelayedSubmission

        return DelayedSubmission(self)

    def _run(self, job: Job) -> tuple[Outcome | None, bool]:
        """How it ended, if it did, and whether it was told to stop."""
        outcome: Outcome | None = None
        with LocalLauncher(1, preload=(), grace=self.grace) as launcher:
            try:
                with stoppable():
                    if self._is_cancelled():  # told before anyone could hear it
                        return None, True
                    Path(self.progress).touch()
                    launcher.submit(job)
                    outcome = self._follow(launcher)
            except KeyboardInterrupt:
                launcher.cancel()
                return self._follow(launcher) or outcome, True
        # Slurm tells all processes of a job: its own may have heard before this one.
        is_told = outcome is not None and (outcome.status, outcome.reason) == ("killed", "SIGTERM")
        return outcome, is_told

    def _follow(self, launcher: Launcher) -> Outcome | None:
        for event in launcher.events():
            if isinstance(event, Outcome):
                return event
            self._tell(event)
        return None

    def _tell(self, event: Progress) -> None:
        line = json.dumps({"fraction": event.fraction, "note": event.note}) + "\n"
        # A full disk is the job's own to tell of.
        with contextlib.suppress(OSError), open(self.progress, "ab", buffering=0) as file:
            file.write(line.encode())

    def _is_cancelled(self) -> bool:
        return Path(self.cancelled).exists()


def _has_checkpoint(job: Job) -> bool:
    """Whether a job has kept what it can go on from."""
    kept = [path for name, path in job.payload.items() if name.startswith("unfinished")]
    return any(Path(path).exists() for path in kept)


class _Plain(pickle.Unpickler):
    """Reads text and tuples, and executes nothing."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which no job has written")


def read_outcome(job: str, path: Path) -> Outcome | None:
    """The result that submitit has kept for a job; None where there is none yet."""
    try:
        with open(path, "rb") as file:
            kind, text = _Plain(file).load()
        if kind == "success":
            plain = json.loads(text)
            return Outcome(**{**plain, "job": job})
        reason = str(text).strip().splitlines()[-1]
    except FileNotFoundError:
        return None
    except (pickle.UnpicklingError, EOFError, LookupError, ValueError, TypeError) as error:
        reason, text = f"its result cannot be read: {error}", ""
    # What failed is around the job's function, not that.
    return Outcome(job, "error", reason=reason, detail=str(text)[-_DETAIL:] or None, began=False)
