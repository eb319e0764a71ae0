"""run --tune: try the same settings for every arm, and keep the best of each."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ablations.commands.arguments import plan_of
from model.arguments import complain
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan.wanted import Plan, PlannedTable
    from ablations.store.results import Results


def tune(plan: Plan, options: Namespace, results: Results, sweep: Callable[[Plan], Any]) -> None:
    """Tune every question of a plan that names a grid; ConfigError where none does."""
    from ablations.plan.tuning import EXTENSIONS, extended

    asked = {table.question: table.ablation for table in plan.tables.values()}
    grids = {name: dict(ablation.tune) for name, ablation in asked.items() if ablation.tune}
    if not grids:
        raise ConfigError(["--tune: none of these questions names what to tune"])
    open_ = dict(grids)
    for last in range(EXTENSIONS + 1):
        tried = plan_of(options, grids=open_)
        sweep(tried)
        wider = {}
        for table in tried.tables.values():
            at = _conclude(table, options, results, keep=last == EXTENSIONS)
            if at:
                wider[table.question] = extended(open_[table.question], at)
        if last == EXTENSIONS or not wider:
            return
        for name, grid in wider.items():
            for path, values in grid.items():
                if values != open_[name][path]:
                    told = ", ".join(f"{value:g}" for value in values)
                    complain(f"{name}: the best {path} is at an end; trying {told}")
        open_ = wider


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
        if table.question in catalogue():
            complain(f"To go by them elsewhere: cp {path} {committed(table.question)}")
    return at
