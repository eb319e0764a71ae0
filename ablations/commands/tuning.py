"""run --tune: try the same settings for every arm, and keep the best of each."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from ablations.commands.arguments import plan_of
from model.arguments import complain
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan.wanted import Plan, PlannedTable
    from ablations.store.results import Results


def tune(plan: Plan, options: Namespace, results: Results, sweep: Callable[[Plan], object]) -> None:
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
    from ablations.plan.question import catalogue
    from ablations.plan.tuning import choose, committed, in_words, keep_choices, tried

    made = [
        choose(arm, table.ablation, options.profile, tried(table.cells, arm, results))
        for arm in table.tried
    ]
    path = keep_choices(results, table.question, made)
    for choice in made:
        complain(f"{table.question}: {in_words(choice)}")
    complain(f"{table.question}: tuned settings kept in {path}")
    if table.question in catalogue() and not (options.overrides or options.factors):
        complain(f"To go by them elsewhere: cp {path} {committed(table.question, options.profile)}")
