"""Jobs on a Slurm cluster, through submitit: what waits is submitted as one job array.

The disk is shared, as on every cluster, so that results, progress and a job's own files need no
carrying. What is in flight is written down in the folder: when a driver was killed, its jobs go on,
and the next driver that submits the same job is given the one that is queued, runs or has ended.
Leaving the launcher's context, by Ctrl-C as by an error, cancels what it has in flight.

Slurm takes machines away and gives others: a job that is preempted, loses its node or comes near
its time limit is started again by Slurm and goes on from its checkpoint. That is no outcome yet.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ablations.launch import Job, Launcher, Outcome
from ablations.launch.slurm.element import ArrayElement
from ablations.launch.slurm.flight import (
    Flight,
    Submitted,
    forget,
    left_behind,
    new_folder,
    note,
    order_of,
    private,
)
from ablations.launch.slurm.profile import Request, SlurmProfile
from ablations.launch.slurm.queue import ENDED, ENDING, SlurmQueue, Unanswered, files_of
from ablations.signals import undisturbed
from model.config import ConfigError

_LARGEST = 1_000  # elements of one array: most clusters take no more (MaxArraySize)
_LOOKS = 15  # polls of the files between two questions to Slurm, which everybody shares
_SETTLES = 5  # polls that the disk may lag behind what Slurm says
_PATIENCE = 120.0  # seconds until what was cancelled is no longer waited for
_REFILL = 4  # so many times are jobs added until all of the capacity is new
_LOST = 20  # so many lost machines are no accident


class SlurmLauncher(Launcher):
    """Up to `capacity` jobs at once on a cluster, by default as many as its profile says.

    `poll` is how many seconds lie between two looks at the files; Slurm is asked more rarely.
    """

    def __init__(
        self, folder: Path, profile: SlurmProfile, capacity: int | None = None, poll: float = 2.0
    ) -> None:
        super().__init__(profile.parallel if capacity is None else capacity)
        self._queue = SlurmQueue(profile, self.capacity)
        self._folder = private(folder)
        self._profile, self._poll = profile, poll
        self._unsought: set[str] = set()  # of those, for which no earlier driver's was looked for
        self._running: dict[str, Flight] = {}
        self._told: list[Flight] = []  # ended, and to be forgotten once their reader comes back
        self._jobs: dict[str, Job] = {}  # of the flights
        self._losses: Counter[str] = Counter()
        self._look_at = self._submit_at = self._tell_again_at = 0.0  # not before
        self._give_up_at = math.inf
        self._has_submitted = False

    def submit(self, job: Job) -> None:
        super().submit(job)
        self._unsought.add(job.id)

    def _stop(self, names: Sequence[str]) -> None:
        flights = [self._running[name] for name in names]
        for flight in flights:
            flight.cancel()
        if flights:
            self._tell_to_stop([flight.number for flight in flights])
            self._look_at = time.monotonic() + self._poll
            self._give_up_at = time.monotonic() + _PATIENCE

    def _let_go(self) -> None:
        self._forget_told()

    def _fill(self) -> None:
        """Find waiting jobs among those that were left behind; submit the others where there is
        room, those that need the same together."""
        self._forget_told()
        with undisturbed():
            self._attach()
        while self._waiting and time.monotonic() >= self._submit_at:
            room = self.capacity - len(self._running)
            if not self._running:  # the array holds back what is more than its capacity
                room = _LARGEST
            if room < max(1, self.capacity // _REFILL):  # a few together, not one by one
                return
            requests = {name: self._profile.request(job) for name, job in self._waiting.items()}
            request = next(iter(requests.values()))
            alike = [job for name, job in self._waiting.items() if requests[name] == request]
            self._submit(alike[:room], request)

    def _submit(self, jobs: Sequence[Job], request: Request) -> None:
        with undisturbed():  # what is submitted must be written down
            folder = new_folder(self._folder)
            elements = [
                ArrayElement(
                    json.dumps(asdict(job)),
                    str(one.file("progress")),
                    str(one.file("cancelled")),
                    self._profile.grace,
                )
                for job, one in zip(jobs, note(folder, jobs, None), strict=True)
            ]
            try:
                numbers = self._queue.submit(folder, elements, request)
            except BaseException as error:
                self._queue.withdraw(folder)  # it may have been heard all the same
                shutil.rmtree(folder, ignore_errors=True)
                # What was taken once will be taken again, such as when others leave the queue.
                may_pass = isinstance(error, ConfigError) and self._has_submitted
                if not isinstance(error, Unanswered) and not may_pass:
                    raise
                self._submit_at = time.monotonic() + _LOOKS * self._poll
                return
            self._has_submitted = True
            for one in note(folder, jobs, numbers):
                self._jobs[one.job] = self._waiting.pop(one.job)
                self._running[one.job] = Flight(one)
            self._look_at = time.monotonic() + _LOOKS * self._poll

    def _attach(self) -> None:
        """Go on with what an earlier driver has submitted, if it is the same and can still end."""
        sought, self._unsought = self._unsought & self._waiting.keys(), set()
        found = [one for one in left_behind(self._folder) if one.job in sought] if sought else []
        numbers = [one.number for one in found if one.number is not None]
        states = self._queue.states(numbers) if numbers else {}
        for one in found:
            job = self._waiting.get(one.job)  # None: there was another one of the same
            is_same = job is not None and one.order == order_of(job)
            if one.number is None:
                self._queue.withdraw(one.folder)
                forget(one, [])
            elif (
                is_same and not one.file("cancelled").exists() and _can_end(one, one.number, states)
            ):
                self._jobs[one.job] = self._waiting.pop(one.job)
                self._running[one.job] = Flight(one)
            else:
                self._queue.cancel([one.number])
                forget(one, [*files_of(one.folder, one.number).values()])

    def _wait(self) -> None:
        """Take note of whatever jobs have written, and now and then of what Slurm says."""
        if self._running:
            self._watch()
        if not self._ready:
            time.sleep(self._poll)

    def _watch(self) -> None:
        if time.monotonic() >= self._look_at:
            self._look()
        for flight in [*self._running.values()]:
            with undisturbed():  # what is taken must not be lost
                outcome = flight.outcome(_SETTLES * self._poll)
                self._ready += flight.news()
                if flight.is_cancelled and time.monotonic() >= self._give_up_at:
                    reason = "cancelled; the cluster does not say that it has ended"
                    outcome = outcome or Outcome(flight.job, "killed", reason=reason)
                if outcome is None:
                    continue
                job = self._jobs.pop(flight.job)
                self._told.append(self._running.pop(flight.job))
                if flight.is_lost and self._losses[job.id] < _LOST:
                    self._losses[job.id] += 1
                    self._waiting[job.id] = job
                else:
                    self._ready.append(outcome)

    def _look(self) -> None:
        flights = self._running.values()
        states = self._queue.states([flight.number for flight in flights])
        told = [flight.number for flight in flights if flight.is_cancelled]  # and waited for
        self._look_at = time.monotonic() + (1 if told else _LOOKS) * self._poll
        if states is None:
            return
        for flight in flights:
            flight.see(states[flight.number])
        deaf = [number for number in told if states[number] not in ENDING]
        if deaf and time.monotonic() >= self._tell_again_at:
            self._tell_to_stop(deaf)

    def _tell_to_stop(self, numbers: Sequence[str]) -> None:
        self._queue.cancel(numbers)
        self._tell_again_at = time.monotonic() + _LOOKS * self._poll  # Slurm may not have heard it

    def _forget_told(self) -> None:
        """Their reader has taken the outcomes: from now on the same job would be run again."""
        kept = {event.job for event in self._ready if isinstance(event, Outcome)}
        for flight in [each for each in self._told if each.job not in kept]:
            self._told.remove(flight)
            flight.forget()


def _can_end(one: Submitted, number: str, states: dict[str, str] | None) -> bool:
    """Whether it has a result, or may still have one."""
    if files_of(one.folder, number)["result"].exists():
        return True
    return states is None or states[number] not in ENDED
