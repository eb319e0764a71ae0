"""Runs a plan: trains, evaluates and times what a results folder lacks.

Untrained trials come first, then pass 1 (the first seed of every variant), the benchmarks, and the
other passes. Several runs may share a folder: each leases the trials of its running jobs and of the
next one, and tries leased trials again at the end of the pass.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from ablations.benchmark_jobs import BenchmarkJob, benchmarks
from ablations.estimate import may_fit
from ablations.jobs import NOTHING_LEFT, TIMING, Passes, RunConfig, TrainingJob, set_aside
from ablations.launch import Changed, Event, Launcher, Outcome, Progress
from ablations.leases import HOST, Leases
from ablations.missing import Missing, missing
from ablations.plan_document import merge_into
from ablations.progress import Display
from ablations.signals import Terminated, defer_signals

RETRIES = 2  # of a job that ran out of memory or was killed
EARLIER = "failed earlier"  # in another run, and not retried
ALIKE = 3  # if the first so many jobs fail in the same way, the run ends
Work = TrainingJob | BenchmarkJob
AfterPass = Callable[[int, int], None]


def run(
    config: RunConfig, launcher: Launcher, after_pass: AfterPass = lambda number, of: None
) -> Counter[str]:
    """Run what the folder lacks; count the outcomes, and trials that are not retried (EARLIER).

    `after_pass` gets the pass and the number of passes: after each pass but the last that stored
    something, and after Ctrl-C.
    """
    plan, passes, runner = config.plan, Passes(config.plan, config.pack), None
    try:
        with Leases(config.results.root / "leases") as leases:
            with leases.locked():  # a run that starts at the same time must not lose its part of it
                lacks, notes = _look(config)
            tried = {trial.id for trial in lacks.train}
            failed = {trial.id for trial in lacks.failed} - tried
            good = [trial for trial in plan.trials.values() if trial.id not in tried | failed]
            proven = {trial.trained for trial in good}
            # Models that do not fit here take no time.
            kind = config.device.partition(":")[0]
            sizes = {trial.id: trial.work for trial in lacks.work if may_fit(trial, kind)}
            timed = benchmarks(lacks.timings, config)
            timed.sort(key=lambda each: each.trained)
            with Display(len(lacks.work) + len(timed), sizes) as display:
                config = replace(config, say=display.say)
                for note in notes:
                    display.say(note)
                work = passes.of(lacks.work, tried, config)
                runner = _Runner(launcher, leases, display, config.poll)
                try:
                    runner.watch(work.get(0, ()), is_proven=False in proven)
                    for number in range(passes.count + 1):
                        runner.number = number
                        if number == 1:
                            rest = [each for n, some in work.items() if n for each in some]
                            runner.watch(rest, is_proven=True in proven)
                        if number and passes.count > 1 and number in work:
                            display.describe(f"pass {number} of {passes.count}")
                        # One more waits in the launcher, so that no worker waits for this process.
                        runner.work(work.get(number, ()), launcher.capacity + 1)
                        if 0 < number < passes.count:
                            runner.end_pass(after_pass, passes.count)
                        if number == min(1, passes.count):
                            runner.work(timed, 1)
                except BaseException:
                    with defer_signals():
                        runner.stop()
                    raise
    except KeyboardInterrupt as stop:
        if runner is not None and not isinstance(stop, Terminated):
            runner.end_pass(after_pass, passes.count)
        raise
    return runner.counts + Counter({EARLIER: len(failed)})  # a sum drops zeros


def _look(config: RunConfig) -> tuple[Missing, list[str]]:
    """Write the folder's plan; return what it lacks, and messages for the user."""
    plan, results = config.plan, config.results
    lacks = missing(plan, results, config.rerun)
    if lacks.work or lacks.untimed:
        results.check_writable()
    unusable = set_aside(lacks, results)
    notes = [*plan.notes, *merge_into(results, plan), *unusable]
    if lacks.stale and config.rerun != "stale":
        notes.append(
            f"{len(lacks.stale)} records were made by other code and count as stale; "
            "--rerun stale runs them again"
        )
    return lacks, notes


class _Runner:
    """The jobs that wait or run, and the outcomes of the others."""

    def __init__(self, launcher: Launcher, leases: Leases, display: Display, poll: float) -> None:
        self.counts: Counter[str] = Counter()
        self.number = 0
        """The number of the pass."""
        self._launcher, self._leases, self._display = launcher, leases, display
        self._poll = poll
        self._queue: deque[Work] = deque()
        self._later: deque[Work] = deque()  # leased by others, or to be tried again
        self._running: dict[str, Work] = {}
        self._retries: Counter[str] = Counter()
        self._first: dict[str, tuple[str, Outcome]] | None = None
        self._kinds = 0
        self._reported = 0
        self._is_stopping = self._has_waited = False

    def watch(self, work: Iterable[Work], is_proven: bool) -> None:
        """End the run if the first of these all fail alike, unless a good record is proof."""
        self._first = None if is_proven else {}
        self._kinds = len({each.settings for each in work})

    def work(self, work: Iterable[Work], at_once: int) -> None:
        """Do all of these, `at_once` at a time."""
        self._queue.extend(work)
        while self._queue and not self._is_stopping:
            self._fill(at_once)
            for event in self._launcher.events():
                with defer_signals():  # an outcome that was read must be written
                    self._take(event)
                self._fill(at_once)
            if self._later and not self._is_stopping:
                self._say_who_is_waited_for()
                time.sleep(self._poll)
                self._queue, self._later = self._later, self._queue

    def end_pass(self, after_pass: AfterPass, count: int) -> None:
        """Call `after_pass` if something was stored since the last call."""
        if self.counts.total() > self._reported:
            self._reported = self.counts.total()
            after_pass(max(1, self.number), count)

    def stop(self) -> None:
        """End all running jobs; the next run resumes from their checkpoints."""
        self._is_stopping = True
        self._launcher.cancel()
        for event in self._launcher.events():
            self._take(event)

    def _fill(self, at_once: int) -> None:
        while self._queue and len(self._running) < at_once and not self._is_stopping:
            work = self._queue.popleft()
            if not self._leases.take(*work.leases):
                self._later.append(work)
            elif self._would_disturb(work):
                self._leases.release(*work.leases)
                self._later.append(work)
            elif (job := work.job()) is None:
                self._finish(work, Outcome(work.id, NOTHING_LEFT))
            else:
                self._running[work.id] = work
                self._launcher.submit(job)

    def _would_disturb(self, work: Work) -> bool:
        """Whether it would run beside a benchmark on this machine, its own or another's."""
        others = [c.name for c in self._leases.live() if c.host == HOST and not c.is_own]
        return bool(others) if TIMING in work.leases else TIMING in others

    def _take(self, event: Event) -> None:
        """Show how far a job is; save what came of it, or try it again."""
        work = self._running[event.job]
        if isinstance(event, Progress):
            self._display.progress(work.id, work.title, event.fraction, event.note)
            return
        del self._running[work.id]
        if event.value is not None:
            self._first = None
            self._finish(work, event)
        elif self._is_stopping:
            self._leases.release(*work.leases)
        elif event.status == "storage":
            raise OSError(event.reason)
        elif event.status == "changed":
            raise Changed(
                f"{event.reason} since this run began: nothing of {work.title} was kept. "
                "The same command plans it anew."
            )
        elif isinstance(work, TrainingJob) and len(work.trials) > 1:
            self._split(work, event)
        elif (
            # Memory may be free again, a killer gone.
            (event.status in ("killed", "oom") or not event.began)
            and self._retries[work.id] < RETRIES
        ):
            self._try_again(work, event)
        else:
            self._finish(work, event)
            self._stop_if_all_fail_alike(work, event)

    def _finish(self, work: Work, outcome: Outcome) -> None:
        ended = work.save(outcome, self._leases.holds)
        self.counts.update(each.status for each in ended if each.status != NOTHING_LEFT)
        for each in ended:
            self._display.finished(*each)
        self._leases.release(*work.leases)

    def _split(self, work: TrainingJob, outcome: Outcome) -> None:
        """Run the trials of a failed pack one by one."""
        self._leases.release(*work.leases)
        self._queue.extendleft(reversed(work.apart()))
        self._display.say(
            f"{work.title}: {outcome.status} ({outcome.reason}); its trials run one by one"
        )

    def _try_again(self, work: Work, outcome: Outcome) -> None:
        """Queue the job again: at once if nothing has succeeded, else at the end of the pass."""
        ((*_, note),) = ended = work.save(outcome, self._leases.holds, again=True)
        self._retries[work.id] += 1
        is_first = self._first is not None
        if is_first:
            self._queue.appendleft(work)
        else:
            self._later.append(work)
        self._display.say(
            f"{work.title}: {ended[0].status} ({note}), attempt {self._retries[work.id]} of "
            f"{RETRIES + 1}; next try {'now' if is_first else 'at the end of the pass'}"
        )

    def _stop_if_all_fail_alike(self, work: Work, outcome: Outcome) -> None:
        """End the run if the first trials, of several variants, all fail in the same way.

        Running out of memory does not count: other variants may be smaller.
        """
        if self._first is None or outcome.status == "oom":
            return
        self._first[work.id] = work.settings, outcome
        kinds = {settings for settings, _ in self._first.values()}
        ways = {(failed.status, failed.reason) for _, failed in self._first.values()}
        if len(ways) > 1:
            self._first = None
        elif len(self._first) >= ALIKE and len(kinds) >= min(ALIKE, self._kinds):
            self._is_stopping = True
            self._launcher.cancel()
            self._display.say(
                f"Stopped: the first {len(self._first)} trials all failed alike ({outcome.status}: "
                f"{outcome.reason}). Fix that, then run the same command with --rerun failed."
            )

    def _say_who_is_waited_for(self) -> None:
        """Say once which other runs hold the leases."""
        names = {name for work in self._later for name in work.leases}
        others = [
            lease
            for lease in self._leases.live()
            if not lease.is_own
            and (lease.name in names or (lease.host == HOST and TIMING in (lease.name, *names)))
        ]
        if others and not self._has_waited:
            who = sorted({f"process {lease.pid} on {lease.host}" for lease in others})
            self._has_waited = True
            self._display.say(f"Waiting for trials that {', '.join(who)} works on.")
