"""Who is told when a question ends, and in which order work is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import InProcess

from ablations.commands.renewing import Renewal
from ablations.plan.wanted import make_plan
from ablations.store.results import Results
from ablations.sweep.runner import Watcher, run

Ask = Callable[..., str]
PROBED = {"measures": ["permutation"], "metric": "permutation_gap"}


class Diary(Watcher):
    """Writes down what it is told, and how many jobs had begun by then."""

    def __init__(self, launcher: InProcess) -> None:
        self.launcher = launcher
        self.told: list[tuple[str, int]] = []

    def question_ended(self, name: str) -> None:
        self.told.append((name, len(self.launcher.jobs)))

    def quiet(self) -> None:
        self.told.append(("quiet", len(self.launcher.jobs)))


def sweep(files: list[str], folder: Path, here: InProcess) -> Diary:
    plan = make_plan(files, "smoke", {}, [0])
    diary = Diary(here)
    run(plan, Results(folder / "out"), here, "cpu", watcher=diary)
    return diary


def test_a_question_ends_with_its_last_trial_and_each_ends_once(
    ask: Ask, tmp_path: Path, here: InProcess
) -> None:
    post = {"with": {}, "post": {"model.residual": "post"}}
    diary = sweep([ask("one"), ask("two", variants=post)], tmp_path, here)
    assert diary.told == [("one", 2), ("two", 3)]  # which share their control


def test_what_needs_no_training_is_done_before_any_training_whatever_the_order(
    ask: Ask, tmp_path: Path, here: InProcess
) -> None:
    diary = sweep([ask("trained"), ask("probed", **PROBED)], tmp_path, here)
    assert diary.told == [("probed", 2), ("trained", 4)]


def test_a_timing_session_is_announced_before_it_begins(
    ask: Ask, tmp_path: Path, here: InProcess
) -> None:
    timed = {"measures": ["quality", "throughput"]}
    diary = sweep([ask("timed", **timed)], tmp_path, here)
    assert diary.told == [("quiet", 2), ("timed", 3)]


def test_a_question_with_nothing_left_to_do_is_not_told_again(
    ask: Ask, tmp_path: Path, here: InProcess
) -> None:
    file = ask("one")
    sweep([file], tmp_path, here)
    assert sweep([file], tmp_path, here).told == []


class Page:
    """A drawing that goes on until it is let go."""

    def __init__(self) -> None:
        self.is_done = False

    def poll(self) -> int | None:
        return 0 if self.is_done else None

    def wait(self) -> int:
        self.is_done = True
        return 0


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[Page]:
    drawn: list[Page] = []

    def draw(self: Renewal, errors: object) -> Page:
        drawn.append(Page())
        return drawn[-1]

    monkeypatch.setattr(Renewal, "_draw", draw)
    return drawn


def test_one_page_is_drawn_at_a_time_and_none_beside_timing(
    pages: list[Page], tmp_path: Path
) -> None:
    renewal = Renewal(tmp_path, pause=0.0)
    renewal.question_ended("one")
    renewal.question_ended("two")  # while the first is drawn
    assert len(pages) == 1
    renewal.quiet()
    assert pages[0].is_done
    renewal.question_ended("three")
    assert len(pages) == 2


def test_pages_keep_a_distance_and_the_last_one_is_of_all(
    pages: list[Page], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renewal = Renewal(tmp_path, pause=1000.0)
    renewal.question_ended("one")
    pages[0].wait()
    renewal.question_ended("two")
    assert len(pages) == 1
    assert renewal.conclude() == 0
    assert len(pages) == 2
    assert "index.html" in capsys.readouterr().err


def test_the_page_is_written_by_a_run_that_is_told_to(ask: Ask, tmp_path: Path) -> None:
    from ablations.commands import main

    words = ["--profile", "smoke", "--seeds", "0", "--jobs", "1", "--results", str(tmp_path / "o")]
    assert main(["run", ask("probed", **PROBED), *words, "--report"]) == 0
    assert (tmp_path / "o" / "report" / "index.html").is_file()
