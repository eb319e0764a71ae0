"""From a plan to records: train what is missing, then time what is missing, and lose nothing.

Several sweeps may work on one folder. A piece of work is claimed right before it starts; what
another sweep has claimed is passed over, and looked at again when all else is done.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from ablations.claim import Claims
from ablations.jobs import Attempt, Piece, SessionPiece, Setting, TrialPiece, sessions
from ablations.launch import NOT_STARTED, Event, Launcher, Outcome, Progress
from ablations.plan import Plan, merge_into, missing
from ablations.progress import Display
from ablations.record import Results
from ablations.stop import undisturbed

FAILED = ("error", "oom", "timeout", "killed")
RETRIES = 2  # of a job that failed for a cause that may pass
ALIKE = 3  # so many first trials that all fail in one way end the sweep


def run(
    plan: Plan,
    results: Results,
    launcher: Launcher,
    device: str,
    imports: Sequence[str] = (),
    rerun: str | None = None,
    *,
    limit: float | None = None,
    call: str = "ablations.worker:run_trial",
    claims: Claims | None = None,
    poll: float = 1.0,
) -> Counter[str]:
    """Run what the folder lacks; count how the jobs ended.

    `limit` is the time of a job and `poll` that between two looks at others' work, in seconds;
    `call` is what a worker does with a trial.
    """
    claims = claims or Claims(results.root / "claims")
    setting = Setting(plan, results, device, list(imports), rerun, limit, call)
    with claims:
        with claims.locked():  # a sweep that starts at the same time must not lose its part of it
            merge_into(results, plan)
            trials, timings, notes = _look(setting)
        expected = {piece.id: plan.wanted[piece.id].work for piece in trials}
        total = len(trials) + len(timings)
        with Display(total, 0, expected, launcher.capacity) as display:
            setting.say = display.say
            for note in notes:
                display.say(note)
            sweep = _Sweep(launcher, claims, display, poll)
            try:
                sweep.work(trials, launcher.capacity)
                sweep.work(timings, 1)  # timing has the machine to itself
            except BaseException:
                with undisturbed():
                    sweep.stop()
                raise
    return sweep.counts


def _look(setting: Setting) -> tuple[list[TrialPiece], list[SessionPiece], list[str]]:
    """What is to be done, and what people should know before."""
    lacks = missing(setting.plan, setting.results, setting.rerun)
    notes = list(lacks.set_aside)
    if lacks.stale and setting.rerun != "stale":
        notes.append(
            f"{len(lacks.stale)} records were made by other code and count as stale; "
            "--rerun stale makes them anew"
        )
    if lacks.failed and setting.rerun != "failed":
        notes.append(f"{len(lacks.failed)} trials failed earlier; --rerun failed tries them again")
    wants = [*lacks.train, *(want for want, _ in lacks.measure)]
    trials = [TrialPiece(want, setting) for want in wants]
    timings = sessions(lacks.untimed | {want.trial: want.timings for want in wants}, setting)
    return trials, timings, notes


class _Sweep:
    """The pieces that wait, those that run, and how the others ended."""

    def __init__(self, launcher: Launcher, claims: Claims, display: Display, poll: float) -> None:
        self.counts: Counter[str] = Counter()
        self._launcher, self._claims, self._display = launcher, claims, display
        self._poll = poll
        self._queue: deque[Piece] = deque()
        self._later: deque[Piece] = deque()  # claimed by others, or to be tried again
        self._running: dict[str, Piece] = {}
        self._earlier: dict[str, list[Attempt]] = {}  # failed attempts at pieces in `_later`
        self._first: dict[str, tuple[Piece, Outcome]] | None = {}  # failures, until one succeeds
        self._is_stopping = False
        self._has_told = False

    def work(self, pieces: Iterable[Piece], at_once: int) -> None:
        """Do all of these, so many at once."""
        self._queue.extend(pieces)
        while self._queue and not self._is_stopping:
            self._fill(at_once)
            for event in self._launcher.events():
                with undisturbed():  # an outcome that was read must be written
                    self._take(event)
                self._fill(at_once)
            if self._later and not self._is_stopping:
                self._tell_of_others()
                time.sleep(self._poll)
                self._queue, self._later = self._later, self._queue

    def stop(self) -> None:
        """End what runs. A trial without a record waits, and goes on from its checkpoint."""
        self._is_stopping = True
        self._launcher.cancel()
        for event in self._launcher.events():
            self._take(event)

    def _fill(self, at_once: int) -> None:
        while self._queue and len(self._running) < at_once and not self._is_stopping:
            piece = self._queue.popleft()
            if not self._claims.take(*piece.claims):
                self._later.append(piece)
                continue
            job = piece.job()
            if job is None:
                self._claims.release(*piece.claims)
                self._display.finished(piece.id, piece.title, "nothing left to do", 0.0)
                continue
            self._running[piece.id] = piece
            self._launcher.submit(job)

    def _take(self, event: Event) -> None:
        piece = self._running[event.job]
        if isinstance(event, Progress):
            if event.fraction == 0 and piece.id not in self._earlier:
                self._display.started(piece.id, piece.title)
            self._display.progress(piece.id, event.fraction, event.note)
            return
        del self._running[piece.id]
        if event.value is not None:
            self._first = None
            self._finish(piece, event)
        elif self._is_stopping:
            self._claims.release(*piece.claims)
        elif _may_pass(event) and len(self._earlier.get(piece.id, ())) < RETRIES:
            self._put_off(piece, event)
        else:
            self._finish(piece, event)
        if event.value is None and not self._is_stopping:
            self._beware(piece, event)

    def _finish(self, piece: Piece, outcome: Outcome) -> None:
        earlier = self._earlier.pop(piece.id, [])
        with self._claims.locked():  # nobody can take over between the look and the writing
            status, note = piece.keep(outcome, earlier, self._claims.holds)
        self._claims.release(*piece.claims)
        self.counts[status] += 1
        self._display.finished(piece.id, piece.title, status, outcome.seconds, note)

    def _put_off(self, piece: Piece, outcome: Outcome) -> None:
        """Try it again at the end; it stays claimed."""
        reason = outcome.reason or outcome.status
        attempt = {"status": outcome.status, "reason": reason, "seconds": round(outcome.seconds, 3)}
        self._earlier.setdefault(piece.id, []).append(attempt)
        self._later.append(piece)
        number = len(self._earlier[piece.id])
        self._display.say(
            f"{piece.title}: {outcome.status} ({reason}), attempt {number} of {RETRIES + 1}; "
            "to be tried again at the end"
        )

    def _beware(self, piece: Piece, outcome: Outcome) -> None:
        """End the sweep where its first trials all fail in one way: so will the others."""
        if self._first is None:
            return
        self._first[piece.id] = piece, outcome
        ways = {(failed.status, failed.reason) for _, failed in self._first.values()}
        if len(ways) > 1:
            self._first = None
        elif len(self._first) == ALIKE:
            self._is_stopping = True
            self._launcher.cancel()
            for each, failed in self._first.values():
                if each in self._later:
                    self._earlier[each.id].pop()  # which is the failure to be kept
                    self._finish(each, failed)
            self._display.say(
                f"Stopped: the first {ALIKE} trials all failed alike ({outcome.status}: "
                f"{outcome.reason}). Mend that; then the same command with --rerun failed goes on."
            )

    def _tell_of_others(self) -> None:
        """Say once what is being waited for."""
        names = {name for piece in self._later for name in piece.claims}
        others = [c for c in self._claims.live() if c.name in names and not self._claims.owns(c)]
        if others and not self._has_told:
            who = sorted({f"process {claim.pid} on {claim.host}" for claim in others})
            self._has_told = True
            self._display.say(
                f"Waiting for what {', '.join(who)} is working on; if that ends, this goes on."
            )


def _may_pass(outcome: Outcome) -> bool:
    """Whether a second try may fare better: memory may be free again, a killer gone."""
    return outcome.status in ("killed", "oom") or (outcome.reason or "").startswith(NOT_STARTED)
