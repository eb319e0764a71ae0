"""run --report: the page written anew as each question ends, in a process of its own."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from ablations.sweep.runner import Watcher
from model.arguments import complain

PAUSE = 60.0  # seconds between two pages at least: one takes some of them
NICE = 10  # a tenth of a processor that something else could use


class Renewal(Watcher):
    """At most one page is drawn at a time, out of the way of training, and never beside timing."""

    def __init__(self, root: Path, pause: float = PAUSE) -> None:
        self._root, self._pause = root, pause
        self._drawing: subprocess.Popen[bytes] | None = None
        self._last = -math.inf
        self._is_owed = False

    def question_ended(self, name: str) -> None:
        self._is_owed = True
        self.tick()

    def tick(self) -> None:
        is_busy = self._drawing is not None and self._drawing.poll() is None
        if self._is_owed and not is_busy and time.monotonic() >= self._last + self._pause:
            self._last, self._is_owed = time.monotonic(), False
            self._drawing = self._draw(subprocess.DEVNULL)

    def quiet(self) -> None:
        """A page that is not done yet is drawn anew later: timing does not wait for it."""
        self._is_owed = self.abandon() or self._is_owed

    def abandon(self) -> bool:
        """Leave a page undone: nothing is to go on after the sweep. Whether there was one."""
        if self._drawing is None or self._drawing.poll() is not None:
            return False
        self._drawing.terminate()
        self._drawing.wait()
        return True

    def conclude(self) -> int:
        """The page of all that there is now; how drawing it ended."""
        self.abandon()
        code = self._draw(None, nice=0).wait()
        if code == 0:
            complain(f"The report: {self._root / 'report' / 'index.html'}")
        return code

    def _draw(self, errors: int | None, nice: int = NICE) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "analysis", "report", "--results", str(self._root)]
        drawing = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        with contextlib.suppress(OSError, AttributeError):  # it ended, or there is no such thing
            os.setpriority(os.PRIO_PROCESS, drawing.pid, nice)
        # Where the kernel shares out processors by sessions, a process's own word counts for
        # nothing beside workers, each of which has a session: this is the session's word.
        with contextlib.suppress(OSError):
            Path(f"/proc/{drawing.pid}/autogroup").write_text(str(nice), encoding="ascii")
        return drawing
