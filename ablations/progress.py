"""What a run shows while it runs: bars on a terminal, one line per finished trial elsewhere."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from ablations.store.record import WHOLE

_TITLE, _NOTE = 60, 120  # characters; a label may be of any length


class TimeLeft:
    """How long the rest takes: relative sizes, and what jobs that finished really took.

    A job whose size is not known counts as an average one.
    """

    def __init__(
        self, jobs: int, sizes: Mapping[str, float] | None = None, workers: int = 1
    ) -> None:
        self._sizes = dict(sizes or {})
        self._average, self._workers = fmean(self._sizes.values() or [1.0]), workers
        self._rest = dict(self._sizes)
        self._unnamed = max(0, jobs - len(self._sizes))
        self._took = self._sized = 0.0

    def progress(self, job_id: str, fraction: float) -> None:
        size = self._size(job_id)
        if job_id in self._rest:
            self._rest[job_id] = size * (1 - min(max(fraction, 0.0), 1.0))

    def finished(self, job_id: str, seconds: float | None) -> None:
        """One job less; None for a time that says nothing about the others."""
        size = self._size(job_id)
        self._rest.pop(job_id, None)
        if seconds is not None:
            self._took, self._sized = self._took + seconds, self._sized + size

    def seconds(self) -> float | None:
        """None while nothing is known; never less than the longest job, which has one worker."""
        rest = [*self._rest.values(), *[self._average] * self._unnamed]
        if not rest or self._sized == 0:
            return None if rest else 0.0
        return self._took / self._sized * max(sum(rest) / self._workers, max(rest))

    def _size(self, job_id: str) -> float:
        if job_id not in self._sizes:
            self._sizes[job_id] = self._rest[job_id] = self._average
            self._unnamed = max(0, self._unnamed - 1)
        return self._sizes[job_id]


class Display:
    """The live picture of a run of `total` trials, of which `done` were on disk before.

    `sizes` says how large the trials that are still to run are, beside each other.
    """

    def __init__(
        self,
        total: int,
        done: int = 0,
        sizes: Mapping[str, float] | None = None,
        workers: int = 1,
        stream: TextIO | None = None,
    ) -> None:
        self._total, self._done = total, done
        self._counts: Counter[str] = Counter()
        self._left = TimeLeft(total - done, sizes, workers)
        self._part = ""
        self._lines: dict[str, TaskID] = {}
        screen = cast(TextIO, Screen(stream or sys.stderr))
        self._is_live = screen.isatty() and os.environ.get("TERM") != "dumb"
        # A column gives way in a narrow terminal.
        columns = [Column(ratio=ratio, no_wrap=True, overflow="ellipsis") for ratio in (4, 2, 4)]
        self._bars = Progress(
            TextColumn("{task.description}", markup=False, table_column=columns[0]),
            BarColumn(bar_width=None, table_column=columns[1]),
            TextColumn("{task.fields[note]}", markup=False, table_column=columns[2]),
            console=Console(file=screen, force_terminal=self._is_live),
            refresh_per_second=4,
            expand=True,
            disable=not self._is_live,
        )
        self._overall = self._bars.add_task("", total=total, note="")
        self._update()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines.values():
            self._bars.remove_task(line)
        self._bars.stop()

    def describe(self, part: str) -> None:
        """Which part of the run begins, such as "pass 2 of 5"."""
        self._part = part
        self._update()
        if not self._is_live:
            self.say(part)

    def started(self, job_id: str, title: str) -> None:
        self._lines[job_id] = self._bars.add_task(_tidy(title, _TITLE), total=1.0, note="")
        self._bars.refresh()

    def progress(self, job_id: str, fraction: float, note: str) -> None:
        self._left.progress(job_id, fraction)
        if job_id in self._lines:
            self._bars.update(self._lines[job_id], completed=fraction, note=_tidy(note, _NOTE))
            self._update()

    def finished(
        self, job_id: str, title: str, status: str, seconds: float, note: str = ""
    ) -> None:
        self._left.finished(job_id, seconds if status in WHOLE else None)
        self._done += 1
        self._counts[status] += 1
        if job_id in self._lines:
            self._bars.remove_task(self._lines.pop(job_id))
        self._update()
        self._bars.refresh()
        if self._is_live and status == "ok":
            return  # the bar counts it
        left = "" if self._is_live else self._time_left()
        place = f"[{self._done:>{len(str(self._total))}}/{self._total}] {_tidy(title, _TITLE)}"
        parts = [place, status, f"{seconds:.1f} s", _tidy(note, _NOTE), left and f"({left})"]
        self.say("  ".join(part for part in parts if part))

    def say(self, line: str) -> None:
        """One line that stays, above the bars where there are any."""
        self._bars.console.print(Text(line), soft_wrap=True)

    def _update(self) -> None:
        counts = ", ".join(f"{number} {status}" for status, number in self._counts.items())
        label = f"{self._done}/{self._total}  {counts}".rstrip()
        note = ", ".join(filter(None, [self._part, self._time_left()]))
        self._bars.update(self._overall, completed=self._done, description=label, note=note)

    def _time_left(self) -> str:
        seconds = self._left.seconds()
        return f"left {roughly(seconds)}" if seconds else ""


def _tidy(text: str, length: int) -> str:
    """One line of what can be shown, whatever a label holds."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    return line if len(line) <= length else line[: length - 1] + "…"


def roughly(seconds: float) -> str:
    """A duration as one would say it: about 40 s, about 3 h 20 min, about 5 days."""
    if seconds < 55:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"about {minutes} min"
    if minutes >= 24 * 60:
        days = round(minutes / 60 / 24, 1 if minutes < 3 * 24 * 60 else None)
        return f"about {days:,.10g} day{'s' * (days != 1)}"
    hours, minutes = divmod(10 * round(minutes / 10), 60)
    return f"about {hours} h {minutes} min" if minutes else f"about {hours} h"


class Screen:
    """A stream, or none: once it is closed or full, what is written to it is dropped."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        self._do("write", text.encode(self.encoding, "replace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        self._do("flush")

    def isatty(self) -> bool:
        return bool(self._do("isatty"))

    def _do(self, what: str, *words: str) -> Any:
        try:
            return self._stream and getattr(self._stream, what)(*words)
        except (OSError, ValueError):  # ValueError: it is closed
            self._stream = None
