"""status: what is done, failed, running, stale or waiting, and how long the rest takes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ablations.commands.arguments import as_json, names, names_of, place, results_of
from ablations.record import STATUSES, Head, RecordError, Results
from model.config import ConfigError, nearest

EVERY = 1.0  # second between two looks
STATES = (*STATUSES, "running", "stale", "waiting")
_LISTED = 20  # reasons; --json has them all
_WHOLE = ("ok", "stuck")  # trained to the end, so their time tells of the others'


def arguments(parser: ArgumentParser) -> None:
    names(parser)
    as_json(parser)
    place(parser)
    parser.add_argument(
        "--follow", action="store_true", help="look every second until nothing runs or waits"
    )


def act(options: Namespace) -> int:
    if options.follow and options.json:
        raise ConfigError(["--follow and --json do not go together: leave one out"])
    watched = Watched(results_of(options))
    asked = names_of(options)
    if options.follow:
        _follow(watched, asked)
        return 0
    state = watched.look(asked)
    if options.json:
        print(json.dumps(state.document(), indent=1, ensure_ascii=False))
    else:
        print(state.text())
    return 0


@dataclass(frozen=True)
class State:
    """One look at a results folder."""

    counts: dict[str, int]
    seconds_left: float | None
    reasons: list[str]
    set_aside: list[str]

    @property
    def is_over(self) -> bool:
        return not self.counts["running"] and not self.counts["waiting"]

    def document(self) -> dict[str, Any]:
        rest = {name: value for name, value in vars(self).items() if name != "counts"}
        return {**self.counts, **rest}

    def text(self) -> str:
        from ablations.progress import roughly

        told = ", ".join(f"{number} {state}" for state, number in self.counts.items() if number)
        lines = [told or "nothing is planned"]
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
    is_stale: bool = False


class Watched:
    """A results folder that is looked at again and again; a record is read when it has changed."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._seen: dict[str, tuple[tuple[int, int, int], Seen]] = {}

    def look(self, names: Sequence[str] = ()) -> State:
        from ablations.claim import Claims
        from ablations.progress import TimeLeft

        sizes = self._planned(names)
        claims = {claim.name: claim for claim in Claims(self._results.root / "claims").live()}
        running = [trial for trial in sizes if trial in claims]
        left = TimeLeft(len(sizes), sizes, len(running) or os.cpu_count() or 1)
        counts = Counter(dict.fromkeys(STATES, 0))
        reasons = []
        for trial in sizes:
            seen = self._read(trial)
            if seen and seen.reason:
                reasons.append(seen.reason)
            if trial in claims:
                counts["running"] += 1
            elif seen is None or seen.status is None:
                counts["waiting"] += 1
            else:
                counts[seen.status] += 1
                counts["stale"] += seen.is_stale
                left.finished(trial, seen.seconds if seen.status in _WHOLE else None)
        for trial in running:
            left.running(trial, time.time() - claims[trial].since)
        bad = sorted(path.name for path in self._results.trials.glob("*.bad-*"))
        return State(dict(counts), left.seconds(), reasons, bad)

    def _planned(self, names: Sequence[str]) -> dict[str, float]:
        """Every trial of the named ablations, with its size."""
        sizes = self._results.planned()
        for name in names:
            if name not in sizes:
                hint = nearest(name, sizes)
                raise ConfigError([f"no ablation '{name[:100]}' in {self._results.root}. {hint}"])
        return {trial: size for name in names or sizes for trial, size in sizes[name].items()}

    def _read(self, trial: str) -> Seen | None:
        try:
            file = self._results.path(trial).stat()
        except FileNotFoundError:
            return None
        except RecordError as error:
            return Seen(None, str(error))
        stamp = (file.st_ino, file.st_mtime_ns, file.st_size)
        if self._seen.get(trial, (None,))[0] != stamp:
            try:
                head = self._results.head(trial)
            except RecordError as error:
                self._seen[trial] = stamp, Seen(None, str(error))
            else:
                if head is None:
                    return None
                self._seen[trial] = stamp, _summary(head)
        return self._seen[trial][1]


def _summary(head: Head) -> Seen:
    from ablations.expand import code, freeze

    reason = None
    if head.reason:
        reason = f"{head.trial} {head.status}: {head.reason.splitlines()[0]}"
        if head.attempts > 1:
            reason += f" (attempt {head.attempts})"
    is_stale = False
    with contextlib.suppress(ConfigError, KeyError):  # a part from a module not loaded here
        now = code(*(freeze(head.config[part]) for part in ("model", "task", "train")))
        is_stale = head.env.get("code") != now
    return Seen(head.status, reason, head.env.get("seconds"), is_stale)


def _follow(watched: Watched, names: Sequence[str]) -> None:
    """Draw anew on a terminal; elsewhere, tell of each change."""
    if sys.stdout.isatty():
        from rich.live import Live
        from rich.text import Text

        with Live(auto_refresh=False) as live:
            for state in _states(watched, names):
                live.update(Text(state.text()), refresh=True)
        return
    told = None
    for state in _states(watched, names):
        if told != (state.counts, state.reasons):
            print(state.text(), flush=True)
        told = state.counts, state.reasons


def _states(watched: Watched, names: Sequence[str]) -> Iterator[State]:
    while True:
        state = watched.look(names)
        yield state
        if state.is_over:
            return
        time.sleep(EVERY)
