"""Seeds of one arm as one piece of work: leased together, trained together, kept one by one.

A pack keeps no checkpoint. One that is cut begins again, and one that fails falls apart: its trials
then go on alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from ablations.plan.estimate import PROCESS
from ablations.sweep.jobs import Piece, Setting, TrialPiece
from ablations.sweep.launch import Job, Outcome
from ablations.sweep.orders import FILES


class PackPiece(Piece):
    """Trials that differ in their seed alone."""

    def __init__(self, trials: Sequence[TrialPiece], setting: Setting) -> None:
        first = trials[0]
        self.id, self.settings = first.id, first.settings  # nobody else runs its first trial
        self.title = f"{first.title} and {len(trials) - 1} more"
        self.trained = True
        self.leases = tuple(piece.id for piece in trials)
        self._trials, self._setting = list(trials), setting
        self._ordered: set[str] = set()  # for which something was left to do

    @property
    def parts(self) -> Sequence[Piece]:
        return self._trials

    def job(self) -> Job | None:
        jobs = [job for piece in self._trials if (job := piece.job()) is not None]
        self._ordered = {job.id for job in jobs}
        if not jobs:
            return None
        # A launcher that carries files looks for their names at the top.
        files = {f"{name} {job.id}": job.payload[name] for job in jobs for name in FILES}
        limit = self._setting.limit
        return Job(
            self.id,
            "ablations.sweep.worker:run_pack",
            {"orders": [job.payload for job in jobs], **files},
            seconds=None if limit is None else limit * len(jobs),
            accelerators=max(job.accelerators for job in jobs),
            memory=sum(job.memory for job in jobs) - (len(jobs) - 1) * PROCESS,
            files=tuple(files),
            reads=jobs[0].reads,
        )

    def shares(self, outcome: Outcome) -> list[tuple[Piece, Outcome | None]]:
        """Its record and an equal share of the time for each trial that was ordered."""
        records = outcome.value if isinstance(outcome.value, dict) else {}
        seconds = outcome.seconds / max(1, len(self._ordered))
        return [
            (
                piece,
                replace(outcome, job=piece.id, value=records.get(piece.id, {}), seconds=seconds)
                if piece.id in self._ordered
                else None,
            )
            for piece in self._trials
        ]


def packed(
    trials: Sequence[TrialPiece], untrained: Collection[str], setting: Setting
) -> list[Piece]:
    """The untrained seeds of an arm in packs as large as its way says, each where its first stood.

    A trial that has a checkpoint goes on from it, alone.
    """
    arms: dict[str, list[TrialPiece]] = {}
    for piece in trials:
        is_begun = setting.results.unfinished(piece.id).exists()
        if piece.trained and piece.id in untrained and not is_begun:
            arms.setdefault(piece.settings, []).append(piece)
    packs: dict[str, Piece] = {}  # by each of their trials
    for arm in arms.values():
        for some in _cut(arm, setting.ways(arm[0].want).packed):
            pack = PackPiece(some, setting) if len(some) > 1 else some[0]
            packs.update(dict.fromkeys((piece.id for piece in some), pack))
    pieces = (packs.get(piece.id, piece) for piece in trials)
    return list({piece.id: piece for piece in pieces}.values())


def _cut(arm: Sequence[TrialPiece], most: int) -> list[Sequence[TrialPiece]]:
    """Into as few runs of at most so many as there can be, all about as long."""
    runs = -(-len(arm) // most)
    ends = [len(arm) * number // runs for number in range(runs + 1)]
    return [arm[begin:end] for begin, end in pairwise(ends)]
