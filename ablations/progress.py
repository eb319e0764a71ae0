"""The display of a run: bars on a terminal, elsewhere a line for each finished trial."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from ablations.store.record import WHOLE
from ablations.store.words import in_one_line

_TITLE, _NOTE = 60, 120  # characters; a variant's name may be of any length


class Display:
    """The progress of a run of `total` trials.

    `sizes` are the costs of the trials that train, relative to each other; any other trial counts
    as an average one. The time left follows from the time that the work so far has taken.
    """

    def __init__(
        self, total: int, sizes: Mapping[str, float] | None = None, stream: TextIO | None = None
    ) -> None:
        self._total, self._sizes = total, dict(sizes or {})
        self._average = fmean(self._sizes.values() or [1.0])
        self._work = self._average * max(total, len(self._sizes))
        self._work_done, self._began = 0.0, time.monotonic()
        self._counts: Counter[str] = Counter()
        self._running: dict[str, float] = {}  # the work done of each
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

    def progress(self, job_id: str, title: str, fraction: float, note: str) -> None:
        if job_id not in self._lines:
            self._lines[job_id] = self._bars.add_task("", total=1.0, note="")
        self._running[job_id] = fraction * self._size(job_id)
        title, note = _cut(title, _TITLE), _cut(note, _NOTE)
        line = self._lines[job_id]  # a trial of a split pack has a new title
        self._bars.update(line, description=title, completed=fraction, note=note)
        self._update()

    def finished(
        self, job_id: str, title: str, status: str, seconds: float, note: str = ""
    ) -> None:
        self._running.pop(job_id, None)
        if status in WHOLE:
            self._work_done += self._size(job_id)
        else:  # the time of a failed trial says nothing of the others'
            self._work -= self._size(job_id)
        self._counts[status] += 1
        if job_id in self._lines:
            self._bars.remove_task(self._lines.pop(job_id))
        self._update()
        self._bars.refresh()
        if self._is_live and status == "ok":
            return  # the bar counts it
        count = f"[{self._counts.total():>{len(str(self._total))}}/{self._total}]"
        words = [f"{count} {_cut(title, _TITLE)}", status, f"{seconds:.1f} s", _cut(note, _NOTE)]
        if not self._is_live and (left := self._time_left()):
            words.append(f"({left})")
        self.say("  ".join(filter(None, words)))

    def say(self, line: str) -> None:
        """Print a line that stays, above the bars where there are any."""
        self._bars.console.print(Text(line), soft_wrap=True)

    def _update(self) -> None:
        counts = ", ".join(f"{number} {status}" for status, number in self._counts.items())
        done = self._counts.total()
        note = ", ".join(filter(None, [self._part, self._time_left()]))
        label = f"{done}/{self._total}  {counts}".rstrip()
        self._bars.update(self._overall, completed=done, description=label, note=note)

    def _size(self, job_id: str) -> float:
        return self._sizes.get(job_id, self._average)

    def _time_left(self) -> str:
        done = self._work_done + sum(self._running.values())
        if not self._work_done or done >= self._work:
            return ""
        return f"left {roughly((time.monotonic() - self._began) * (self._work / done - 1))}"


def _cut(text: str, length: int) -> str:
    line = in_one_line(text)
    return line if len(line) <= length else line[: length - 1] + "…"


def roughly(seconds: float) -> str:
    """A duration as one would say it: about 40 s, about 3 h 20 min, about 5 days."""
    if seconds < 55:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if (minutes := round(seconds / 60)) < 60:
        return f"about {minutes} min"
    if minutes < 24 * 60:
        hours, minutes = divmod(10 * round(minutes / 10), 60)
        return f"about {hours} h" + f" {minutes} min" * bool(minutes)
    days = round(minutes / 1440, 1 if minutes < 3 * 1440 else None)
    return f"about {days:,.10g} day{'s' * (days != 1)}"


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
