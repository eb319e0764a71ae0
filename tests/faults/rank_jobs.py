"""What ranks may do, and as a program: two of them that do it, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import torch

from ablations.launch import Report, failure
from ablations.signals import StopRequest, catching_sigterm
from ablations.train.ddp import Devices, ranks_on, run_together


def _meet(ranks: Devices, report: Report) -> None:
    """Say the process ids of all, once all are there."""
    pids = [0.0] * ranks.count
    pids[ranks.rank] = os.getpid()
    report(0.5, " ".join(f"{pid:.0f}" for pid in ranks.gathered(pids)))


def pause(_payload: dict[str, Any], report: Report, notice: StopRequest) -> None:
    """Until told to stop."""
    with ranks_on(torch.device("cpu")) as (ranks, _):
        _meet(ranks, report)
        with notice.raising():
            while True:
                signal.pause()


def wait(_payload: dict[str, Any], report: Report, _notice: StopRequest) -> None:
    """Rank 0 waits for rank 1, which never comes."""
    with ranks_on(torch.device("cpu")) as (ranks, _):
        _meet(ranks, report)
        if ranks.rank == 0:
            ranks.gathered([0.0])
        signal.pause()


def fail(_payload: dict[str, Any], report: Report, _notice: StopRequest) -> None:
    """Rank 0 waits for rank 1, which fails."""
    with ranks_on(torch.device("cpu")) as (ranks, _):
        _meet(ranks, report)
        if ranks.rank == 0:
            ranks.gathered([0.0])
        raise ArithmeticError("this part cannot count")


def drive(name: str) -> dict[str, Any]:
    import rank_jobs  # whose functions the ranks find, and not those of this program

    def report(_fraction: float, note: str) -> None:
        print(note, flush=True)

    with catching_sigterm() as notice:
        try:
            return {
                "status": "done",
                "value": run_together(getattr(rank_jobs, name), {}, 2, report, notice),
            }
        except Exception as error:
            ended = failure("a", error)
            return {"status": ended.status, "reason": ended.reason, "detail": ended.detail}


if __name__ == "__main__":
    print(json.dumps(drive(sys.argv[1])), flush=True)
