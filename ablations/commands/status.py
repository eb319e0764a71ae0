"""status: what is done, failed, running, stale or waiting, and how long the rest takes."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablations.commands.arguments import as_json, cores, names, names_of, place, results_of
from ablations.commands.trial_list import PlacedTrial, places, print_places
from ablations.store.record import TRAINED, WHOLE, RecordHead
from ablations.store.results import Asked, Results
from ablations.store.schema import STATUSES, RecordError
from ablations.store.stamp import Stamp, changed
from model.arguments import working
from model.config import ConfigError, nearest

EVERY = 1.0  # second between two looks
STATES = (*STATUSES, "running", "stale", "waiting")
_LISTED = 20  # reasons; --json has them all


def arguments(parser: ArgumentParser) -> None:
    names(parser)
    as_json(parser)
    place(parser)
    parser.add_argument(
        "--follow", action="store_true", help="look every second until nothing is left to do"
    )


def act(options: Namespace) -> int:
    if options.follow and options.json:
        raise ConfigError(["--follow and --json do not go together: leave one out"])
    watched = Watched(results_of(options))
    asked = names_of(options)
    if options.follow:
        _follow(watched, asked)
        return 0
    with working(f"Reading the records of {watched.results.root}"):
        state = watched.look(asked)
        found = watched.places(state, asked)
        if options.json:
            trials = [each.document(watched.results) for each in found]
            document = {**state.document(), "trials": trials}
            print(json.dumps(document, indent=1, ensure_ascii=False))
            return 0
        print(state.text())
        if found:
            print()
            print_places(found, watched.results, bool(asked))
    return 0


@dataclass(frozen=True)
class Picture:
    """One look at a results folder."""

    counts: dict[str, int]
    stale_by: dict[str, int]  # status
    unmeasured: int  # trained, but not all that the plan asks is measured
    is_owed: bool  # some of that has not failed, so a sweep will take it
    is_at_work: bool  # a sweep, be it on trials that have records
    seconds_left: float | None
    reasons: list[str]
    set_aside: list[str]
    outcomes: dict[str, str] = field(default_factory=dict)  # trial → its state
    stale: frozenset[str] = frozenset()  # trials

    @property
    def is_over(self) -> bool:
        return not (self.is_at_work or self.counts["waiting"] or self.is_owed)

    def document(self) -> dict[str, Any]:
        told = ("unmeasured", "seconds_left", "reasons", "set_aside")
        return {**self.counts, **{name: getattr(self, name) for name in told}}

    def text(self) -> str:
        from ablations.sweep.progress import roughly

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


@dataclass(frozen=True)
class Seen:
    """What a look keeps of one record."""

    status: str | None  # None: it cannot be used
    reason: str | None
    seconds: float | None = None
    code: Stamp | None = None
    measures: dict[str, Stamp] = field(default_factory=dict)
    failures: frozenset[str] = frozenset()

    def is_stale(self, asked: Asked) -> bool:
        """Whether other code has made it, or what is asked of it, than is here now."""
        made_by = [self.code or {}, *(self.measures.get(name, {}) for name in asked.measures)]
        return any(map(changed, made_by))

    def lacks(self, asked: Asked) -> bool:
        """Whether a model that is trained has still to be measured."""
        return self.status in TRAINED and not asked.measures <= self.measures.keys()


class Watched:
    """A results folder that is looked at again and again; a record is read when it has changed."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self._seen: dict[str, tuple[tuple[int, int, int], Seen]] = {}

    def look(self, names: Sequence[str] = ()) -> Picture:
        from ablations.sweep.lease import Leases
        from ablations.sweep.progress import TimeLeft

        asked = self._asked(names)
        leases = {lease.name: lease for lease in Leases(self.results.root / "leases").live()}
        running = [trial for trial in asked if trial in leases]
        sizes = {trial: each.size for trial, each in asked.items()}
        left = TimeLeft(len(sizes), sizes, len(running) or cores())
        outcomes: dict[str, str] = {}
        stale: set[str] = set()
        unmeasured, is_owed = 0, False
        reasons = []
        for trial in asked:
            seen = self._read(trial)
            if seen and seen.reason:
                reasons.append(seen.reason)
            if trial in leases:
                outcomes[trial] = "running"
            elif seen is None or seen.status is None:
                outcomes[trial] = "waiting"
            else:
                outcomes[trial] = seen.status
                is_stale, lacks = seen.is_stale(asked[trial]), seen.lacks(asked[trial])
                stale |= {trial} if is_stale else set()
                unmeasured += lacks
                is_owed |= lacks and not is_stale and not seen.failures
                left.finished(trial, seen.seconds if seen.status in WHOLE else None)
        for trial in running:
            left.running(trial, time.time() - leases[trial].since)
        bad = sorted(path.name for path in self.results.trials.glob("*.bad-*"))
        work = unmeasured, is_owed, bool(leases)
        counts = {**dict.fromkeys(STATES, 0), **Counter(outcomes.values()), "stale": len(stale)}
        stale_by = dict(Counter(outcomes[trial] for trial in stale))
        told = left.seconds(), reasons, bad
        return Picture(counts, stale_by, *work, *told, outcomes, frozenset(stale))

    def places(self, state: Picture, names: Sequence[str]) -> list[PlacedTrial]:
        """The cells of the named ablations, as they were found."""
        plan = self.results.read_plan()
        tables = list(dict.fromkeys(t for name in names for t in self._tables(name)))
        return places(plan, tables or list(plan["ablations"]), state.outcomes, state.stale)

    def _asked(self, names: Sequence[str]) -> dict[str, Asked]:
        """What the named ablations ask of each of their trials, which they may share."""
        planned = self.results.planned()
        tables = [table for name in names for table in self._tables(name)]
        asked: dict[str, Asked] = {}
        for trial, each in (both for t in tables or planned for both in planned[t].items()):
            asked.setdefault(trial, each).measures.update(each.measures)
        return asked

    def _tables(self, name: str) -> list[str]:
        """The tables of the plan that a word means: one of them, or all of a question."""
        known = self.results.names()
        tables = [table for table, question in known.items() if name in (table, question)]
        if not tables:
            hint = nearest(name, known)
            raise ConfigError([f"no ablation '{name[:100]}' in {self.results.root}. {hint}"])
        return tables

    def _read(self, trial: str) -> Seen | None:
        try:
            file = self.results.path(trial).stat()
        except FileNotFoundError:
            return None
        except RecordError as error:
            return Seen(None, str(error))
        stamp = (file.st_ino, file.st_mtime_ns, file.st_size)
        if self._seen.get(trial, (None,))[0] != stamp:
            try:
                head = self.results.head(trial)
            except RecordError as error:
                self._seen[trial] = stamp, Seen(None, str(error))
            else:
                if head is None:
                    return None
                self._seen[trial] = stamp, _summary(head)
        return self._seen[trial][1]


def _summary(head: RecordHead) -> Seen:
    told = [head.reason.splitlines()[0]] if head.reason else []
    told += [f"{what} failed: {why}" for what, why in head.failures.items()]
    reason = f"{head.trial} {head.status}: {'; '.join(told)}" if told else None
    if reason and head.attempts > 1:
        reason += f" (attempt {head.attempts})"
    seconds, code = head.env.get("seconds"), head.env.get("code")
    return Seen(head.status, reason, seconds, code, head.measures, frozenset(head.failures))


def _follow(watched: Watched, names: Sequence[str]) -> None:
    """Draw anew on a terminal; elsewhere, tell of each change."""
    if sys.stdout is not None and sys.stdout.isatty():
        from rich.live import Live
        from rich.text import Text

        with Live(auto_refresh=False) as live:
            for state in _states(watched, names):
                live.update(Text(state.text()), refresh=True)
        return
    told = None
    for state in _states(watched, names):
        timeless = replace(state, seconds_left=None).text()
        if told != timeless:
            print(state.text(), flush=True)
        told = timeless


def _states(watched: Watched, names: Sequence[str]) -> Iterator[Picture]:
    """Until all is over twice in a row: between two jobs a sweep holds nothing for a moment."""
    was_over = False
    while True:
        state = watched.look(names)
        yield state
        if state.is_over and was_over:
            return
        was_over = state.is_over
        time.sleep(EVERY)
