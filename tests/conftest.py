"""What tests of several folders share: examples that stay the same, small questions, drivers.

Property tests try the same examples every time; `--hypothesis-profile=wander` tries others.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Before torch is loaded: one thread a test, and a forked child that finds no pool of threads gone.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Before Ray is loaded: its clusters stay on loopback, where no stranger has to be looked for.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself

from small import question  # noqa: E402

from ablations.commands import main  # noqa: E402
from ablations.store.results import Results  # noqa: E402

settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("wander", database=None, deadline=None)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What planning remembers is for these tests alone, and for the processes they start."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., str]:
    """Writes a small question, changed as told; gives the file's name."""

    def write(name: str = "small", **changes: Any) -> str:
        file = tmp_path / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(question(**changes), indent=1), encoding="utf-8")
        return str(file)

    return write


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "out")


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Gives a command's exit code, and what it wrote to each stream."""

    def answer(*words: str) -> tuple[int, str, str]:
        return (main(words), *capsys.readouterr())

    return answer


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """While one launcher is open, all others share its server: torch is loaded once."""
    from ablations.launch.local import LocalLauncher

    with LocalLauncher():
        yield


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine takes, no command says here what it is doing meanwhile."""
    monkeypatch.setattr("ablations.commands.terminal.PATIENCE", 3600.0)


@pytest.fixture(autouse=True)
def without_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command `run` writes the page, which takes seconds."""
    monkeypatch.setattr("ablations.commands.run.write_page", lambda results: None)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """SIGINT reaches every test and the processes it starts (fault 53).

    Under nohup, or in the background of a shell, it is ignored, and what is started inherits that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def drivers() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test starts; none outlives it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for driver in started:
        with contextlib.suppress(ProcessLookupError):
            driver.send_signal(signal.SIGCONT)
        driver.kill()
        with driver:  # closes its pipes, though an orphan may hold their other ends
            pass
