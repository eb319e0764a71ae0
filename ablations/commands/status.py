"""status: what is done, failed, running, stale or waiting, and how long the rest takes."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ablations.commands.arguments import as_json, cores, names, names_of, place, results_of
from ablations.commands.terminal import working
from ablations.commands.trial_list import Place, places, print_places, score
from ablations.store.record import TRAINED, WHOLE, Record
from ablations.store.results import Asked, Results
from ablations.store.schema import STATUSES, RecordError
from ablations.store.stamp import changed
from model.config import ConfigError, nearest

STATES = (*STATUSES, "running", "stale", "waiting")
_LISTED = 20  # reasons; --json has them all


def arguments(parser: ArgumentParser) -> None:
    names(parser)
    as_json(parser)
    place(parser)


def act(options: Namespace) -> int:
    results, asked = results_of(options), names_of(options)
    with working(f"Reading the records of {results.root}"):
        state = look(results, asked)
        found = placed(results, state, asked)
        if options.json:
            trials = [{**each, "score": score(each, results)} for each in found]
            print(json.dumps({**state.document(), "trials": trials}, indent=1, ensure_ascii=False))
            return 0
        print(state.text())
        if found:
            print()
            print_places(found, results, bool(asked))
    return 0


@dataclass(frozen=True)
class Picture:
    """One look at a results folder."""

    counts: dict[str, int]
    stale_by: dict[str, int]  # status
    unmeasured: int  # trained, but not all that the plan asks is measured
    seconds_left: float | None
    reasons: list[str]
    set_aside: list[str]
    outcomes: dict[str, str] = field(default_factory=dict)  # trial → its state
    stale: frozenset[str] = frozenset()  # trials

    def document(self) -> dict[str, Any]:
        told = ("unmeasured", "seconds_left", "reasons", "set_aside")
        return {**self.counts, **{name: getattr(self, name) for name in told}}

    def text(self) -> str:
        from ablations.progress import roughly

        told = []
        for state, number in self.counts.items():
            if number and state != "stale":
                stale = self.stale_by.get(state)
                told.append(f"{number} {state}" + (f" ({stale} stale)" if stale else ""))
        lines = [", ".join(told) or "nothing is planned"]
        if self.unmeasured:
            lines[0] += f"; {self.unmeasured} not all measured"
        if self.seconds_left:
            lines[0] += f"; left {roughly(self.seconds_left)}"
        lines += [f"  {reason}" for reason in self.reasons[:_LISTED]]
        if len(self.reasons) > _LISTED:
            lines.append(f"  and {len(self.reasons) - _LISTED} more; --json lists all")
        if self.set_aside:
            lines.append(f"  set aside, unusable: {', '.join(self.set_aside)}")
        return "\n".join(lines)


def look(results: Results, names: Sequence[str] = ()) -> Picture:
    """The trials of the named ablations, or of all that are planned, as they are now."""
    from ablations.leases import Leases
    from ablations.progress import TimeLeft

    asked = _asked(results, names)
    leases = {lease.name for lease in Leases(results.root / "leases").live()}
    running = sum(trial in leases for trial in asked)
    sizes = {trial: each.size for trial, each in asked.items()}
    left = TimeLeft(len(sizes), sizes, running or cores())
    outcomes: dict[str, str] = {}
    stale: set[str] = set()
    unmeasured = 0
    reasons = []
    for trial, wanted in asked.items():
        head: Record | None = None
        try:
            head = results.read(trial)
        except RecordError as error:  # it will be run again
            reasons.append(str(error))
        if head is not None and (reason := _reason(head)):
            reasons.append(reason)
        if trial in leases:
            outcomes[trial] = "running"
        elif head is None:
            outcomes[trial] = "waiting"
        else:
            outcomes[trial] = head.status
            made_by = [head.env.get("code") or {}]
            made_by += [head.measures.get(name, {}) for name in wanted.measures]
            stale |= {trial} if any(map(changed, made_by)) else set()
            is_whole = wanted.measures <= head.measures.keys()
            unmeasured += head.status in TRAINED and not is_whole
            seconds = head.env.get("seconds")
            left.finished(trial, seconds if head.status in WHOLE else None)
    bad = sorted(path.name for path in results.trials.glob("*.bad-*"))
    counts = {**dict.fromkeys(STATES, 0), **Counter(outcomes.values()), "stale": len(stale)}
    stale_by = dict(Counter(outcomes[trial] for trial in stale))
    told = left.seconds(), reasons, bad, outcomes, frozenset(stale)
    return Picture(counts, stale_by, unmeasured, *told)


def placed(results: Results, state: Picture, names: Sequence[str]) -> list[Place]:
    """The cells of the named ablations, as they were found."""
    plan = results.read_plan()
    tables = list(dict.fromkeys(table for name in names for table in _tables(results, name)))
    return places(plan, tables or list(plan["ablations"]), state.outcomes, state.stale)


def _asked(results: Results, names: Sequence[str]) -> dict[str, Asked]:
    """What the named ablations ask of each of their trials, which they may share."""
    planned = results.planned()
    tables = [table for name in names for table in _tables(results, name)]
    asked: dict[str, Asked] = {}
    for trial, each in (both for t in tables or planned for both in planned[t].items()):
        asked.setdefault(trial, each).measures.update(each.measures)
    return asked


def _tables(results: Results, name: str) -> list[str]:
    """The tables of the plan that a word means: one of them, or all of a question."""
    known = results.names()
    tables = [table for table, question in known.items() if name in (table, question)]
    if not tables:
        hint = nearest(name[:100], known)
        raise ConfigError([f"no ablation '{name[:100]}' in {results.root}. {hint}"])
    return tables


def _reason(head: Record) -> str | None:
    told = [head.reason.splitlines()[0]] if head.reason else []
    told += [f"{what} failed: {why}" for what, why in head.failures.items()]
    reason = f"{head.trial} {head.status}: {'; '.join(told)}" if told else None
    if reason and head.attempts > 1:
        reason += f" (attempt {head.attempts})"
    return reason
