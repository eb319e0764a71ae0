"""run --tune: try the same settings for every arm, and keep the best of each."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from ablations.commands.arguments import plan_of
from model.arguments import complain
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan.wanted import Plan, PlannedTable
    from ablations.store.results import Results


def tune(
    plan: Plan, options: Namespace, results: Results, sweep: Callable[[Plan], Counter[str]]
) -> Counter[str]:
    """Tune every question of a plan that names a grid; ConfigError where none does.

    Counts how trials ended if the budget was spent before all had begun; nothing is chosen then.
    """
    from ablations.plan.tuning import EXTENSIONS, extended
    from ablations.sweep.runner import UNBEGUN

    asked = {table.question: table.ablation for table in plan.tables.values()}
    grids = {name: dict(ablation.tune) for name, ablation in asked.items() if ablation.tune}
    if not grids:
        raise ConfigError(["--tune: none of these questions names what to tune"])
    if set_here := [path for grid in grids.values() for path in grid if path in options.overrides]:
        raise ConfigError([f"--tune: {set_here[0]} is set on the command line: leave one out"])
    tried = plan_of(options, grids=grids)
    for extension in range(EXTENSIONS + 1):
        counts = sweep(tried)
        if counts[UNBEGUN]:
            return counts
        wider = {}
        for table in tried.tables.values():
            at = _conclude(table, options, results, keep=extension == EXTENSIONS)
            if at:
                wider[table.question] = extended(grids[table.question], at)
        if extension == EXTENSIONS or not wider:
            break
        try:
            wide = plan_of(options, grids=wider)
        except ConfigError as error:  # a setting has bounds of its own
            complain(f"The grid cannot grow: {error}")
            for table in tried.tables.values():
                _conclude(table, options, results, keep=True)
            break
        for name, grid in wider.items():
            for path, values in grid.items():
                if values != grids[name][path]:
                    told = ", ".join(f"{value:g}" for value in values)
                    complain(f"{name}: the best {path} is at an end; trying {told}")
        tried, grids = wide, wider
    return Counter()


def _conclude(
    table: PlannedTable, options: Namespace, results: Results, keep: bool
) -> set[tuple[str, bool]]:
    """Keep what was chosen if no best setting is at an end of the grid, or if it must be."""
    from ablations.plan.question import catalogue
    from ablations.plan.tuning import choose, committed, edges, keep_choices, tried

    found = [(arm, tried(table.cells, arm, results)) for arm in table.tried]
    made = [choose(arm, table.ablation, options.profile, each) for arm, each in found]
    at = {end for choice, (_, each) in zip(made, found, strict=True)
          for end in edges(choice.chosen, each)}  # fmt: skip
    if keep or not at:
        path = keep_choices(results, table.question, made)
        complain(f"{table.question}: tuned settings kept in {path}")
        if table.question in catalogue() and not (options.overrides or options.factors):
            elsewhere = committed(table.question, options.profile)
            complain(f"To go by them elsewhere: cp {path} {elsewhere}")
    return at
