"""run, of a question at equal time: time a step of every arm before any is trained."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ablations.store.words import quoted
from model.arguments import complain
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan.pacing import Pace
    from ablations.plan.wanted import Plan, PlannedTable
    from ablations.store.results import Results


NORMAL = 1.96  # standard errors that make half of a 95 % interval


def pace(plan: Plan, results: Results, sweep: Callable[[Plan], Counter[str]]) -> Counter[str]:
    """Time what a plan lacks the pace of, and keep it; counts what was not begun in time."""
    from ablations.plan.pacing import keep_paces
    from ablations.sweep.runner import UNBEGUN

    tables = {word: table for word, table in plan.tables.items() if table.arms == "pacing"}
    trials = {cell.trial for table in tables.values() for cell in table.cells}
    wanted = {trial: want for trial, want in plan.wanted.items() if trial in trials}
    counts = sweep(replace(plan, tables=tables, wanted=wanted, notes=[]))
    if counts[UNBEGUN]:
        return counts
    for table in tables.values():
        made = _paces(table, results)
        keep_paces(results, table.question, made)
        told = ", ".join(f"{quoted(each.label)} {each.ratio:.2f}" for each in made)
        complain(f"{table.question}: a step takes, beside the control's: {told}")
    return Counter()


def _paces(table: PlannedTable, results: Results) -> list[Pace]:
    from ablations.plan.pacing import METRIC, Pace
    from ablations.store.frozen import freeze
    from analysis import stats

    control = table.ablation.control
    controls = {freeze(c.across): c.trial for c in table.cells if c.label == control}
    found = []
    for cell in table.cells:
        record = results.read(cell.trial)
        beside = controls[freeze(cell.across)]
        timed = [
            reading
            for reading in (record.readings if record is not None else [])
            if reading.metric == METRIC and reading.against == beside
        ]
        logs = [stats.log_ratio(r.samples, r.reference) for r in timed if r.samples and r.reference]
        if len(logs) < stats.LEAST:
            fewer = f"timed in {len(logs)} processes, {stats.LEAST} are needed"
            why = next((r.reason for r in timed if r.reason), fewer)
            raise ConfigError([f"{table.question}: no pace of {cell.label}: {why}"])
        mean = stats.mean_of(logs, scale=1.0)
        is_control = cell.label == control
        # As wide as its own few processes make it, whatever it is added to.
        low, high = mean.ends() if mean.error > 0 else (mean.value, mean.value)
        error = 0.0 if is_control else (high - low) / 2 / NORMAL
        ratio = 1.0 if is_control else math.exp(mean.value)
        place = cell.label, cell.across, cell.settings
        found.append(Pace(*place, ratio, error, len(logs)))
    return found
