"""From a plan to records: train what is missing, then time what is missing, and lose nothing.

What needs no training comes first, then pass 1 (the first seed of every variant), the benchmarks,
and the other passes, each a seed more. Several runs may work on one folder: a job's trials are
leased right before it starts, and what another run has leased is looked at again when all else of
its pass is done.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from ablations.estimate import may_fit
from ablations.expand import Trial
from ablations.facts import model_facts
from ablations.jobs import (
    NOTHING_LEFT,
    TIMING,
    BenchmarkJob,
    Ended,
    Setting,
    TrainingJob,
    benchmarks,
    set_aside,
)
from ablations.launch import Changed, Event, Launcher, Outcome, Progress
from ablations.leases import HOST, Leases
from ablations.missing import missing
from ablations.plan import Plan
from ablations.plan_document import merge_into
from ablations.progress import Display
from ablations.signals import Terminated, defer_signals
from ablations.store.results import Results

RETRIES = 2  # of a job that failed for a cause that may pass
EARLIER = "failed earlier"  # and not tried again: not how a job of this run ended
ALIKE = 3  # so many first trials that all fail in one way end the run
Work = TrainingJob | BenchmarkJob
AfterPass = Callable[[int, int], None]


def run(
    plan: Plan,
    results: Results,
    launcher: Launcher,
    device: str,
    imports: Sequence[str] = (),
    rerun: str | None = None,
    *,
    limit: float | None = None,
    call: str = "ablations.worker:run_trials",
    leases: Leases | None = None,
    poll: float = 1.0,
    accelerators: float = 0.0,
    workers: int = 1,
    devices: int = 1,
    pack: int = 1,
    after_pass: AfterPass = lambda number, of: None,
) -> Counter[str]:
    """Run what the folder lacks; count how it ended, and what is not tried again (EARLIER).

    `limit` is the time of a trial and `poll` that between two looks at others' work, in seconds;
    `call` is what a worker does with trials. A job needs so many `accelerators` for each of the
    `devices` that train one trial, or its share of them where several `workers` are on one. A pass
    has `pack` seeds, which are trained as one model where they can be. After each pass but the last
    that has stored something, and where Ctrl-C ends one, `after_pass` is called with its number and
    how many there are.
    """
    leases = leases or Leases(results.root / "leases")
    setting = Setting(plan, results, device, list(imports), rerun, limit, call)
    setting.accelerators, setting.workers, setting.devices = accelerators, workers, devices
    passes = Passes(plan, pack)
    runner = None
    try:
        with leases:
            with leases.locked():  # a run that starts at the same time must not lose its part of it
                lacks = missing(plan, results, rerun)
                if not lacks.is_nothing:
                    results.check_writable()
                notes = set_aside(lacks, results)
                # After a look that may refuse the folder.
                notes = [*plan.notes, *merge_into(results, plan), *notes]
            if lacks.stale and rerun != "stale":
                notes.append(
                    f"{len(lacks.stale)} records were made by other code and count as stale; "
                    "--rerun stale makes them anew"
                )
            tried = {trial.id for trial in lacks.train}
            left = {trial.id for trial in lacks.failed} - tried
            proven = {w.trained for w in plan.trials.values() if w.id not in tried | left}
            work = passes.of(lacks.work, tried, setting)
            timed = sorted(benchmarks(lacks.timings, setting), key=lambda each: each.trained)
            # What cannot be trained here takes no time, whatever its size.
            kind = device.partition(":")[0]
            sizes = {w.id: w.work for w in lacks.work if may_fit(w, kind)}
            total = len(lacks.work) + len(timed)
            with Display(total, sizes) as display:
                setting.say = display.say
                for note in notes:
                    display.say(note)
                runner = _Runner(launcher, leases, display, poll)
                try:
                    runner.expect(work.get(0, ()), is_proven=False in proven)
                    runner.work(work.pop(0, ()), launcher.capacity)
                    runner.expect([each for some in work.values() for each in some], True in proven)
                    for number in range(1, passes.count + 1):
                        runner.number = number
                        if some := work.get(number):
                            if passes.count > 1:
                                display.describe(f"pass {number} of {passes.count}")
                            runner.work(some, launcher.capacity)
                        if number < passes.count:
                            runner.tell(after_pass, passes.count)
                        if number == 1:
                            runner.work(timed, 1)
                    if not passes.count:
                        runner.work(timed, 1)
                except BaseException:
                    with defer_signals():
                        runner.stop()
                    raise
    except KeyboardInterrupt as stop:
        if runner is not None and not isinstance(stop, Terminated):
            runner.tell(after_pass, passes.count)
        raise
    return runner.counts + Counter({EARLIER: len(left)})  # a sum leaves out what is 0


class Passes:
    """Which pass each seed of what is trained belongs to, from 1; a pass holds `pack` seeds."""

    def __init__(self, plan: Plan, pack: int) -> None:
        trained = [trial for trial in plan.trials.values() if trial.trained]
        seeds = list(dict.fromkeys(trial.config["seed"] for trial in trained))
        self.pack, self.count = pack, -(-len(seeds) // pack)
        self._number = {
            seed: 1 + rank * self.count // len(seeds) for rank, seed in enumerate(seeds)
        }

    def of(
        self, trials: Iterable[Trial], tried: set[str], setting: Setting
    ) -> dict[int, list[TrainingJob]]:
        """Pass → its trainings, in the order of the plan; 0: what needs no training.

        Of those that are to be trained (`tried`) the seeds of a variant are one training, each
        where its first stands; a trial that has a checkpoint goes on from it, alone.
        """
        groups: dict[tuple[int, str], list[Trial]] = {}
        for trial in trials:
            number = self._number[trial.config["seed"]] if trial.trained else 0
            is_begun = setting.results.unfinished(trial.id).exists()
            is_packed = self.pack > 1 and trial.id in tried and not is_begun
            is_packed = is_packed and can_pack(trial)
            group = str(trial.sections) if is_packed else trial.id
            groups.setdefault((number, group), []).append(trial)
        found: dict[int, list[TrainingJob]] = {}
        for (number, _), some in groups.items():
            found.setdefault(number, []).append(TrainingJob(some, setting))
        return found


def can_pack(trial: Trial) -> bool:
    """Whether it can be trained as one model with its other seeds."""
    from ablations.train.config import OPTIMIZER

    model, train = trial.config["model"], trial.config["train"]
    if any(share for option, share in model.items() if option.endswith("dropout")):
        return False  # its random numbers would be others
    modules = model_facts(trial.sections["model"], trial.sections["task"]).modules
    packages = {name.split(".")[0] for name in modules}
    packages |= {OPTIMIZER.component(train["optimizer"]["name"]).__module__.split(".")[0]}
    is_ours = packages <= {"torch", "model", "ablations"}  # whether others' replicas mix is unknown
    return trial.trained and not train["compile"] and is_ours


class _Runner:
    """What waits, what runs, and how the others ended."""

    def __init__(self, launcher: Launcher, leases: Leases, display: Display, poll: float) -> None:
        self.counts: Counter[str] = Counter()
        self.number = 1
        """Of the pass that runs."""
        self._launcher, self._leases, self._display = launcher, leases, display
        self._poll = poll
        self._queue: deque[Work] = deque()
        self._later: deque[Work] = deque()  # leased by others, or to be tried again
        self._running: dict[str, Work] = {}
        self._retries: Counter[str] = Counter()
        self._first: dict[str, tuple[str, Outcome]] | None = None
        self._kinds = 0
        self._told = 0
        self._is_stopping = False
        self._has_told = False

    def expect(self, work: Iterable[Work], is_proven: bool) -> None:
        """Watch the first of these, until one succeeds, where no good record is of their kind."""
        self._first = None if is_proven else {}
        self._kinds = len({each.settings for each in work})

    def work(self, work: Iterable[Work], at_once: int) -> None:
        """Do all of these, so many at once."""
        self._queue.extend(work)
        while self._queue and not self._is_stopping:
            self._fill(at_once)
            for event in self._launcher.events():
                with defer_signals():  # an outcome that was read must be written
                    self._take(event)
                self._fill(at_once)
            if self._later and not self._is_stopping:
                self._tell_of_others()
                time.sleep(self._poll)
                self._queue, self._later = self._later, self._queue

    def tell(self, after_pass: AfterPass, count: int) -> None:
        """That a pass has ended, where something was stored since this was told before."""
        if self.counts.total() > self._told:
            self._told = self.counts.total()
            after_pass(self.number, count)

    def stop(self) -> None:
        """End what runs. A trial without a record waits, and goes on from its checkpoint."""
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
                self._leases.release(*work.leases)
                self._show(work.nothing_left())
            else:
                self._running[work.id] = work
                self._launcher.submit(job)

    def _would_disturb(self, work: Work) -> bool:
        """Whether it would run beside a benchmark on this machine, its own or another's."""
        others = [c for c in self._leases.live() if c.host == HOST and not self._leases.owns(c)]
        return bool(others) if TIMING in work.leases else any(c.name == TIMING for c in others)

    def _take(self, event: Event) -> None:
        work = self._running[event.job]
        if isinstance(event, Progress):
            if event.fraction == 0 and not self._retries[work.id]:
                self._display.started(work.id, work.title)
            self._display.progress(work.id, event.fraction, event.note)
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
                f"{event.reason} since this sweep began: nothing of {work.title} was kept. "
                "The same command plans it anew."
            )
        elif isinstance(work, TrainingJob) and len(work.trials) > 1:
            self._fall_apart(work, event)
        elif _may_pass(event) and self._retries[work.id] < RETRIES:
            self._try_again(work, event)
        else:
            self._finish(work, event)
            self._stop_if_all_fail_alike(work, event)

    def _save(self, work: Work, outcome: Outcome, again: bool = False) -> list[Ended]:
        return work.save(outcome, self._leases.holds, again)

    def _finish(self, work: Work, outcome: Outcome) -> None:
        ended = self._save(work, outcome)
        self.counts.update(each.status for each in ended if each.status != NOTHING_LEFT)
        self._show(ended)
        self._leases.release(*work.leases)

    def _show(self, ended: Iterable[Ended]) -> None:
        for each in ended:
            self._display.finished(*each)

    def _fall_apart(self, work: TrainingJob, outcome: Outcome) -> None:
        """Whatever several trials have failed of, one of them alone may fare better."""
        self._leases.release(*work.leases)
        self._queue.extendleft(reversed(work.apart()))
        self._display.say(
            f"{work.title}: {outcome.status} ({outcome.reason}); its trials go on alone"
        )

    def _try_again(self, work: Work, outcome: Outcome) -> None:
        """At the end of the pass; at once where nothing has succeeded yet. It stays leased."""
        ((*_, note),) = ended = self._save(work, outcome, again=True)
        self._retries[work.id] += 1
        is_first = self._first is not None
        if is_first:
            self._queue.appendleft(work)
        else:
            self._later.append(work)
        self._display.say(
            f"{work.title}: {ended[0].status} ({note}), attempt {self._retries[work.id]} of "
            f"{RETRIES + 1}; to be tried again {'now' if is_first else 'at the end'}"
        )

    def _stop_if_all_fail_alike(self, work: Work, outcome: Outcome) -> None:
        """End the run where its first trials all fail in one way: so will the others.

        The seeds of one variant say nothing of other variants; nor does its memory, which is its
        own size.
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
                f"{outcome.reason}). Mend that; then the same command with --rerun failed goes on."
            )

    def _tell_of_others(self) -> None:
        """Say once what is being waited for."""
        names = {name for work in self._later for name in work.leases}
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
