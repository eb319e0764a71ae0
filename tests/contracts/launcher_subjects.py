"""Every launcher, and how a check opens one. A new launcher is one line in LAUNCHERS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from in_process import InProcess

from ablations.sweep.launch.local import LocalLauncher


@dataclass(frozen=True)
class LauncherSubject:
    """A launcher under examination."""

    name: str
    file: str
    open: Callable[[], Any]
    isolates: bool = True
    """Whether a job has a process of its own, which can be killed and told to stop."""
    patience: float = 30.0
    """Seconds until a process that should have ended counts as left over; none comes near."""

    def owes(self, method: str, sentence: str) -> str:
        """What is wrong, where, and where it says what is owed."""
        owed = f"what a launcher owes stands at Launcher.{method} and Outcome in"
        return f"{self.file}: {sentence}; {owed} ablations/sweep/launch/__init__.py"

    def __str__(self) -> str:
        return self.name


def local() -> LocalLauncher:
    return LocalLauncher(2, preload=(), grace=2.0)


LAUNCHERS = [
    LauncherSubject("local", "ablations/sweep/launch/local.py", local),
    LauncherSubject("in_process", "tests/ablations/in_process.py", InProcess, isolates=False),
]
