"""run: whatever the results folder lacks."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ablations.commands.arguments import (
    Machine,
    budget,
    devices,
    duration,
    is_until_decided,
    plan_of,
    results_of,
    trials,
)
from ablations.commands.launching import launcher_of, launching
from ablations.commands.packing import Packing
from model.arguments import complain

if TYPE_CHECKING:
    from ablations.commands.renewing import Renewal
    from ablations.plan.wanted import Plan
    from ablations.store.results import Results
    from ablations.sweep.launch import Launcher


def arguments(parser: ArgumentParser) -> None:
    trials(parser)
    launching(parser)
    parser.add_argument(
        "--devices",
        type=devices,
        default=1,
        metavar="N",
        help="so many train one trial together, a process each; default: 1",
    )
    parser.add_argument(
        "--limit", type=duration, metavar="SECONDS", help="a job that takes longer is ended"
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="choose the settings of every arm that is asked for anew, then run",
    )
    parser.add_argument(
        "--report", action="store_true", help="write the page as each question ends, and last"
    )
    parser.add_argument(
        "--budget",
        type=budget,
        default=math.inf,
        metavar="45m",
        help="begin no trial after this time",
    )


def act(options: Namespace) -> int:
    plan, results = plan_of(options), results_of(options)
    from ablations.store.schema import FAILED
    from ablations.sweep.runner import EARLIER, UNBEGUN
    from ablations.tasks.cache import announce

    watcher = _watcher(options, results)
    with ExitStack() as held:
        held.enter_context(_abandoning(watcher))
        held.enter_context(announce(want.config["task"] for want in plan.wanted.values()))
        launcher, on = launcher_of(options, results)
        held.enter_context(launcher)
        begun = time.monotonic()
        sweep = Sweep(options, results, launcher, on, begun, begun + options.budget, watcher)
        counts: Counter[str] = Counter()
        if not plan.is_paced:
            from ablations.commands.pacing import pace

            counts = pace(plan, results, sweep)
            plan = plan if counts[UNBEGUN] else plan_of(options)
        if options.tune and not counts[UNBEGUN]:
            from ablations.commands.tuning import tune

            counts = tune(plan, options, results, sweep)
            plan = plan_of(options)
        if not counts[UNBEGUN]:
            sweep.tell_days(plan)
            if is_until_decided(options):
                from ablations.commands.deciding import decide

                later = sweep if options.budget < math.inf else sweep.within(plan.profile.minutes)
                counts, plan = decide(plan, options, results, sweep, later)
            else:
                counts = sweep(plan)
    earlier, unbegun = counts.pop(EARLIER, 0), counts.pop(UNBEGUN, 0)
    ended = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    told = [f"{len(plan.wanted)} trials in {results.root}", ended or "nothing was left to run"]
    told += [f"{earlier} failed earlier: --rerun failed tries them again"] if earlier else []
    told += [f"the budget is spent: {unbegun} wait, the same command begins them"] * bool(unbegun)
    print("; ".join(told))
    if results.plan_file.exists():
        from ablations.commands.answers import next_command, print_answers

        print_answers(plan, results, options.claim)
        print(f"\n{next_command(results, options.report)}")
    if watcher is not None and (code := watcher.conclude()):
        return code
    return 1 if earlier or any(counts[status] for status in FAILED) else 0


def _watcher(options: Namespace, results: Results) -> Renewal | None:
    if not options.report:
        return None
    from ablations.commands.renewing import Renewal

    return Renewal(results.root)


@contextmanager
def _abandoning(watcher: Renewal | None) -> Iterator[None]:
    """Nothing that it has begun outlives a sweep that is cut."""
    try:
        yield
    except BaseException:
        if watcher is not None:
            watcher.abandon()
        raise


@dataclass(frozen=True)
class Sweep:
    """Runs what a folder lacks of a plan, in one setting for all plans of a command."""

    options: Namespace
    results: Results
    launcher: Launcher
    on: Machine
    begun: float
    deadline: float
    watcher: Renewal | None = None
    swept: set[str] = field(default_factory=set)

    def __call__(self, plan: Plan) -> Counter[str]:
        from ablations.plan.missing import missing
        from ablations.sweep.runner import run

        spared = frozenset(self.swept)  # what this command has made anew is not made so again
        self.swept.update(plan.wanted)
        rerun = self.options.rerun
        ways = self._packing.ways(lambda: missing(plan, self.results, rerun, spared).train)
        return run(
            plan,
            self.results,
            self.launcher,
            str(self.on.device),
            self.options.imports,
            self.options.rerun,
            spared=spared,
            limit=self.options.limit,
            deadline=self.deadline,
            watcher=self.watcher,
            accelerators=self.on.share,
            devices=self.on.devices,
            ways=ways,
        )

    @property
    def _packing(self) -> Packing:
        return Packing(self.options, self.results, self.launcher, self.on)

    def within(self, minutes: float) -> Sweep:
        """The same, for looks after the first: it begins no trial later than that."""
        return replace(self, deadline=min(self.deadline, self.begun + 60 * minutes))

    def tell_days(self, plan: Plan) -> None:
        """Say so before a plan that takes days is begun; what a cluster needs, only it can say."""
        if self.options.on != "local":
            return
        from ablations.plan.estimate import days_ahead
        from ablations.sweep.progress import roughly

        steps = self._packing.clock(list(plan.wanted.values()))
        rerun, on = self.options.rerun, self.on
        if seconds := days_ahead(plan, self.results, rerun, on.device, on.at_once, steps):
            complain(f"This takes {roughly(seconds)} on {on}; it may be stopped.")
