"""What a cluster is to be told with every job, as a YAML file of the user's says it.

For example:

    partition: gpu
    minutes: 240
    gigabytes: 16
    setup: [module load cuda]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablations.config import located, read_yaml
from ablations.launch import Job
from model.config import ConfigError, too_small, validate

_START = 60.0  # seconds that a job may need until its function is called
_OURS = (
    "array", "error", "job-name", "no-requeue", "open-mode", "output", "requeue", "signal", "wrap",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What one job needs. Jobs that need the same can wait in one array."""

    minutes: int
    cpus: int
    megabytes: int | None
    gres: str | None
    alone: bool


@dataclass(frozen=True, kw_only=True)
class SlurmProfile:
    """What a cluster is to be told with every job; what is null is left to the cluster."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    minutes: int = 240
    """The time limit. Near it a job keeps a checkpoint and queues again, to go on from there."""
    warning: int = 120
    """Seconds before the time limit at which it does so."""
    grace: float = 25.0
    """Seconds from being told to stop until it is killed; below the cluster's KillWait."""
    cpus: int = 1
    """At least so many a job; one that has more threads asks for more."""
    gigabytes: float | None = None
    """At least so much memory a job, and more where it is expected to need more; without it, what
    the cluster gives. The cluster may kill what takes more than it has asked for."""
    device: str | None = None
    """What jobs compute on, such as cuda or cpu, unless --device says it."""
    gpu: str = "gpu"
    """What the cluster calls an accelerator, such as gpu:a100."""
    shards: int = 0
    """Into how many an accelerator is cut (gres/shard); 0: a share of one takes all of it."""
    parallel: int = 64
    """Jobs at once, unless the command says how many."""
    setup: list[str] = field(default_factory=list)
    """Shell lines before each job, such as `module load cuda`."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further options of sbatch, such as `mail-user: me@example.org`; true for a bare flag."""

    def __post_init__(self) -> None:
        problems = too_small(self, minutes=1, warning=1, cpus=1, shards=0, parallel=1)
        if 60 * self.minutes <= self.warning and not problems:
            problems.append(
                f"warning={self.warning}: must be below the {60 * self.minutes} seconds of a job"
            )
        if self.gigabytes is not None and self.gigabytes <= 0:
            problems.append(f"gigabytes={self.gigabytes:g}: must be positive, or null")
        if self.grace < 0:
            problems.append(f"grace={self.grace:g}: must be at least 0")
        problems += [
            f"extra.{name}: the launcher sets it itself; leave it out"
            for name in self.extra
            if name.replace("_", "-") in _OURS
        ]
        if problems:
            raise ConfigError(problems)

    def request(self, job: Job) -> Request:
        minutes = self.minutes
        if job.seconds is not None:  # what asks for less starts sooner
            needed = job.seconds + self.grace + self.warning + _START
            minutes = min(minutes, math.ceil(needed / 60))
        megabytes = None
        if self.gigabytes is not None:
            megabytes = 1024 * math.ceil(max(self.gigabytes, job.memory / 2**30))
        cpus = max(self.cpus, job.threads)
        return Request(minutes, cpus, megabytes, self._gres(job.accelerators), job.alone)

    def _gres(self, accelerators: float) -> str | None:
        if not accelerators:
            return None
        if accelerators < 1 and self.shards:
            return f"shard:{math.ceil(accelerators * self.shards)}"
        return f"{self.gpu}:{math.ceil(accelerators)}"

    def options(self, request: Request, name: str, at_once: int) -> dict[str, Any]:
        """The request in submitit's words for sbatch.

        The job's program takes the place of the batch shell: no srun or shell stands between it
        and Slurm's signals, either of which would end it at the first one.
        """
        return {
            "job_name": name,
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "time": request.minutes,
            "cpus_per_task": request.cpus,
            "mem": None if request.megabytes is None else f"{request.megabytes}MB",
            "gres": request.gres,
            "exclusive": request.alone or None,
            "array_parallelism": at_once,
            "setup": list(self.setup),
            "use_srun": False,
            "additional_parameters": {
                "signal": f"B:USR2@{self.warning}",
                "requeue": True,
                **{key: value for key, value in self.extra.items() if value is not None},
            },
        }


def read_slurm_profile(file: str | None) -> SlurmProfile:
    """What a file says; the cluster's own defaults where there is none."""
    if file is None:
        return SlurmProfile()
    source = read_yaml(Path(file))
    try:
        profile: SlurmProfile = validate(SlurmProfile, source.values, "")
    except ConfigError as error:
        raise located(error, [("", source)]) from None
    return profile
