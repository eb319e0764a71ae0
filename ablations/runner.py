"""From a plan to records: train what is missing, then time what is missing, and lose nothing.

Several sweeps may work on one folder. A piece of work is leased right before it starts; what
another sweep has leased is passed over, and looked at again when all else is done.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from ablations.jobs import (
    TIMING,
    Piece,
    SessionPiece,
    Setting,
    TrialPiece,
    packed,
    sessions,
    set_aside,
)
from ablations.launch import Changed, Event, Launcher, Outcome, Progress
from ablations.leases import HOST, Leases
from ablations.plan.document import merge_into
from ablations.plan.estimate import may_fit
from ablations.plan.missing import missing
from ablations.plan.wanted import Plan
from ablations.plan.ways import WayOf, one_at_a_time
from ablations.progress import Display
from ablations.signals import undisturbed
from ablations.store.results import Results

RETRIES = 2  # of a job that failed for a cause that may pass
EARLIER = "failed earlier"  # and not tried again: not how a job of this sweep ended
NOTHING_LEFT = "nothing left to do"  # another sweep has done it
ALIKE = 3  # so many first trials that all fail in one way end the sweep


def run(
    plan: Plan,
    results: Results,
    launcher: Launcher,
    device: str,
    imports: Sequence[str] = (),
    rerun: str | None = None,
    *,
    spared: frozenset[str] = frozenset(),
    limit: float | None = None,
    call: str = "ablations.worker:run_trial",
    leases: Leases | None = None,
    poll: float = 1.0,
    accelerators: float = 0.0,
    devices: int = 1,
    ways: WayOf = one_at_a_time,
) -> Counter[str]:
    """Run what the folder lacks; count how the jobs ended, and what is not tried again (EARLIER).

    `spared` trials are not rerun. `limit` is the time of a job and `poll` that between two looks at
    others' work, in seconds; `call` is what a worker does with a trial. A job needs so many
    `accelerators` for each of the `devices` that train one trial, or its share of them where `ways`
    has several on one.

    Probes run first, then training in the plan's order, then what is timed, alone.
    """
    leases = leases or Leases(results.root / "leases")
    setting = Setting(plan, results, device, list(imports), rerun, limit, call, spared=spared)
    setting.accelerators, setting.devices, setting.ways = accelerators, devices, ways
    with leases:
        with leases.locked():  # a sweep that starts at the same time must not lose its part of it
            trials, pieces, timings, notes, proven, earlier = _begin(setting)
            # After a look that may refuse the folder.
            notes = [*plan.notes, *merge_into(results, plan), *notes]
        wants = [plan.wanted[piece.id] for piece in trials]
        # What cannot be trained here takes no time, whatever its size.
        expected = {w.trial: w.work for w in wants if may_fit(w, device.partition(":")[0])}
        total = len(trials) + len(timings)
        with Display(total, 0, expected, launcher.capacity) as display:
            setting.say = display.say
            for note in notes:
                display.say(note)
            sweep = _Sweep(launcher, leases, display, poll)
            try:
                for is_trained in (False, True):
                    sweep.expect(is_proven=is_trained in proven)
                    some = [piece for piece in pieces if piece.trained == is_trained]
                    sweep.work(some, launcher.capacity)
                sweep.work(sorted(timings, key=lambda piece: piece.trained), 1)
            except BaseException:
                with undisturbed():
                    sweep.stop()
                raise
    return sweep.counts + Counter({EARLIER: earlier})  # a sum leaves out what is 0


def _begin(
    setting: Setting,
) -> tuple[list[TrialPiece], list[Piece], list[SessionPiece], list[str], set[bool], int]:
    """What is to be done, trial by trial and packed, what people should know before, whether there
    are good records of models that are trained, or not, and how many failed earlier and are not to
    be tried again.

    OSError where something is lacking and cannot be kept; unusable records are set aside.
    """
    lacks = missing(setting.plan, setting.results, setting.rerun, setting.spared)
    if not lacks.is_nothing:
        setting.results.check_writable()
    notes = set_aside(lacks, setting.results)
    if lacks.stale and setting.rerun != "stale":
        notes.append(
            f"{len(lacks.stale)} records were made by other code and count as stale; "
            "--rerun stale makes them anew"
        )
    trials = [TrialPiece(want, setting) for want in lacks.work]
    timings = sessions(lacks.timings, setting)
    tried = {want.trial for want in lacks.train}
    pieces = packed(trials, tried, setting)
    left = {want.trial for want in lacks.failed} - tried
    proven = {w.trained for w in setting.plan.wanted.values() if w.trial not in tried | left}
    return trials, pieces, timings, notes, proven, len(left)


class _Sweep:
    """The pieces that wait, those that run, and how the others ended."""

    def __init__(self, launcher: Launcher, leases: Leases, display: Display, poll: float) -> None:
        self.counts: Counter[str] = Counter()
        self._launcher, self._leases, self._display = launcher, leases, display
        self._poll = poll
        self._queue: deque[Piece] = deque()
        self._later: deque[Piece] = deque()  # leased by others, or to be tried again
        self._running: dict[str, Piece] = {}
        self._tries: Counter[str] = Counter()  # failures that were followed by another try
        self._first: dict[str, tuple[str, Outcome]] | None = None
        self._kinds = 0
        self._is_stopping = False
        self._has_told = False

    def expect(self, *, is_proven: bool) -> None:
        """Watch the first ones, until one succeeds, where no good record is of their kind."""
        self._first = None if is_proven else {}

    def work(self, pieces: Iterable[Piece], at_once: int) -> None:
        """Do all of these, so many at once."""
        self._queue.extend(pieces)
        self._kinds = len({piece.settings for piece in self._queue})
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
            if not self._leases.take(*piece.leases):
                self._later.append(piece)
                continue
            if self._would_disturb(piece):
                self._leases.release(*piece.leases)
                self._later.append(piece)
                continue
            job = piece.job()
            if job is None:
                self._leases.release(*piece.leases)
                for part in piece.parts:
                    self._display.finished(part.id, part.title, NOTHING_LEFT, 0.0)
                continue
            self._running[piece.id] = piece
            self._launcher.submit(job)

    def _would_disturb(self, piece: Piece) -> bool:
        """Whether it would run beside a timing session on this machine, its own or another's."""
        others = [c for c in self._leases.live() if c.host == HOST and not self._leases.owns(c)]
        return bool(others) if TIMING in piece.leases else any(c.name == TIMING for c in others)

    def _take(self, event: Event) -> None:
        piece = self._running[event.job]
        if isinstance(event, Progress):
            if event.fraction == 0 and not self._tries[piece.id]:
                self._display.started(piece.id, piece.title)
            self._display.progress(piece.id, event.fraction, event.note)
            return
        del self._running[piece.id]
        if event.value is not None:
            self._first = None
            self._finish(piece, event)
        elif self._is_stopping:
            self._leases.release(*piece.leases)
        elif event.status == "storage":
            raise OSError(event.reason)
        elif event.status == "changed":
            raise Changed(
                f"{event.reason} since this sweep began: nothing of {piece.title} was kept. "
                "The same command plans it anew."
            )
        elif len(piece.parts) > 1:
            self._fall_apart(piece, event)
        elif _may_pass(event) and self._tries[piece.id] < RETRIES:
            self._try_again(piece, event)
        else:
            self._finish(piece, event)
            self._beware(piece, event)

    def _keep(self, piece: Piece, outcome: Outcome, again: bool) -> tuple[str, str]:
        return piece.keep(outcome, self._leases.holds, again)

    def _finish(self, piece: Piece, outcome: Outcome) -> None:
        for part, own in piece.shares(outcome):
            if own is None:
                self._display.finished(part.id, part.title, NOTHING_LEFT, 0.0)
            else:
                status, note = self._keep(part, own, again=False)
                self.counts[status] += 1
                self._display.finished(part.id, part.title, status, own.seconds, note)
        self._leases.release(*piece.leases)

    def _fall_apart(self, piece: Piece, outcome: Outcome) -> None:
        """Whatever a pack has failed of, one of its trials alone may fare better."""
        self._leases.release(*piece.leases)
        self._queue.extendleft(reversed(piece.parts))
        self._display.say(
            f"{piece.title}: {outcome.status} ({outcome.reason}); its trials go on alone"
        )

    def _try_again(self, piece: Piece, outcome: Outcome) -> None:
        """At the end; at once where nothing has succeeded yet. It stays leased."""
        status, note = self._keep(piece, outcome, again=True)
        self._tries[piece.id] += 1
        if self._first is None:
            self._later.append(piece)
        else:
            self._queue.appendleft(piece)
        self._display.say(
            f"{piece.title}: {status} ({note}), attempt {self._tries[piece.id]} of {RETRIES + 1}; "
            f"to be tried again {'at the end' if self._first is None else 'now'}"
        )

    def _beware(self, piece: Piece, outcome: Outcome) -> None:
        """End the sweep where its first trials all fail in one way: so will the others.

        The seeds of one variant say nothing of other variants; nor does its memory, which is its
        own size.
        """
        if self._first is None or outcome.status == "oom":
            return
        self._first[piece.id] = piece.settings, outcome
        kinds = {settings for settings, _ in self._first.values()}
        ways = {(failed.status, failed.reason) for _, failed in self._first.values()}
        if len(ways) > 1:
            self._first = None
        elif len(self._first) >= ALIKE and len(kinds) >= min(ALIKE, self._kinds):
            self._is_stopping = True
            self._launcher.cancel()
            self._display.say(
                f"Stopped: the first {len(self._first)} trials all failed alike ({outcome.status}: "
                f"{outcome.reason}). Mend that; then the same command with --rerun failed goes on."
            )

    def _tell_of_others(self) -> None:
        """Say once what is being waited for."""
        names = {name for piece in self._later for name in piece.leases}
        others = [
            lease
            for lease in self._leases.live()
            if not self._leases.owns(lease)
            and (lease.name in names or (lease.host == HOST and TIMING in (lease.name, *names)))
        ]
        if others and not self._has_told:
            who = sorted({f"process {lease.pid} on {lease.host}" for lease in others})
            self._has_told = True
            self._display.say(
                f"Waiting for what {', '.join(who)} is working on; if that ends, this goes on."
            )


def _may_pass(outcome: Outcome) -> bool:
    """Whether a second try may fare better: memory may be free again, a killer gone."""
    return outcome.status in ("killed", "oom") or not outcome.began
