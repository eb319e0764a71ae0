"""run: whatever the results folder lacks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ablations.commands.arguments import Machine, count, duration, plan_of, results_of, trials
from ablations.commands.launching import launcher_of, launching
from ablations.commands.terminal import complain
from ablations.spec import experiments
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.launch import Launcher
    from ablations.plan.wanted import Plan, PlannedTable
    from ablations.store.results import Results


def arguments(parser: ArgumentParser) -> None:
    trials(parser)
    launching(parser)
    parser.add_argument(
        "--devices",
        type=partial(count, option="--devices"),
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


def act(options: Namespace) -> int:
    plan, results = plan_of(options), results_of(options)
    from ablations.runner import EARLIER
    from ablations.store.schema import FAILED
    from ablations.tasks.cache import announce

    with ExitStack() as held:
        held.enter_context(announce(want.config["task"] for want in plan.wanted.values()))
        launcher, on = launcher_of(options, results)
        held.enter_context(launcher)
        sweep = Sweep(options, results, launcher, on)
        if options.tune:
            tune(plan, options, results, sweep)
            plan = plan_of(options)
        sweep.tell_days(plan)
        counts = sweep(plan)
    earlier = counts.pop(EARLIER, 0)
    ended = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    told = [f"{len(plan.wanted)} trials in {results.root}", ended or "nothing was left to run"]
    told += [f"{earlier} failed earlier: --rerun failed tries them again"] if earlier else []
    print("; ".join(told))
    if results.plan_file.exists():
        from ablations.commands.answers import harmless, print_answers, renew_page

        print_answers(plan, results, options.claim)
        page, asked = results.root / "report" / "index.html", results.plan_file
        if counts or not page.exists() or page.stat().st_mtime < asked.stat().st_mtime:
            with harmless():
                renew_page(results)
    return 1 if earlier or any(counts[status] for status in FAILED) else 0


@dataclass(frozen=True)
class Sweep:
    """Runs what a folder lacks of a plan, in one setting for all plans of a command."""

    options: Namespace
    results: Results
    launcher: Launcher
    on: Machine

    def __call__(self, plan: Plan) -> Counter[str]:
        from ablations.runner import run

        return run(
            plan,
            self.results,
            self.launcher,
            str(self.on.device),
            self.options.imports,
            self.options.rerun,
            limit=self.options.limit,
            accelerators=self.on.share,
            workers=self.on.workers,
            devices=self.on.devices,
            pack=self.on.pack,
            after_pass=lambda number, of: self.renew(plan, number, of),
        )

    def renew(self, plan: Plan, number: int, of: int) -> None:
        """The page, and what stands on the screen, as they are after a pass."""
        from ablations.commands.answers import harmless, print_answers, renew_page

        print(f"\nPass {number} of {of}")
        with harmless():
            print_answers(plan, self.results, self.options.claim)
            renew_page(self.results)

    def tell_days(self, plan: Plan) -> None:
        """Say so before a plan that takes days is begun; what a cluster needs, only it can say."""
        from ablations.plan.estimate import DAY, rate_of, seconds_each, side_by_side
        from ablations.plan.missing import missing
        from ablations.progress import roughly

        if self.options.on != "local":
            return
        rest = missing(plan, self.results, self.options.rerun).train
        device = self.on.device
        each = seconds_each(rest, plan, self.results, device, lambda: rate_of(device))
        seconds = side_by_side([took or 0.0 for took in each], self.on.at_once)
        if seconds >= DAY:
            complain(f"This takes {roughly(seconds)} on {self.on}; it may be stopped.")


def tune(plan: Plan, options: Namespace, results: Results, sweep: Sweep) -> None:
    """Tune every question of a plan that names a grid; ConfigError where none does."""
    grids = [table.ablation.tune for table in plan.tables.values() if table.ablation.tune]
    if not grids:
        raise ConfigError(["--tune: none of these questions names what to tune"])
    if set_here := [path for grid in grids for path in grid if path in options.overrides]:
        raise ConfigError([f"--tune: {set_here[0]} is set on the command line: leave one out"])
    tried = plan_of(options, tuning=True)
    sweep(tried)
    for table in tried.tables.values():
        _conclude(table, options, results)


def _conclude(table: PlannedTable, options: Namespace, results: Results) -> None:
    """Choose for every arm, keep the choices, and say what they are."""
    from ablations.plan.tuning import choose, committed, in_words, keep_choices, tried

    made = [
        choose(arm, table.ablation, options.profile, tried(table.cells, arm, results))
        for arm in table.tried
    ]
    path = keep_choices(results, table.question, made)
    for choice in made:
        complain(f"{table.question}: {in_words(choice)}")
    complain(f"{table.question}: tuned settings kept in {path}")
    if table.question in experiments() and not (options.overrides or options.factors):
        complain(f"To go by them elsewhere: cp {path} {committed(table.question, options.profile)}")
