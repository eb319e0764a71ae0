"""Who is told when a question ends, and in which order work is done."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import InProcess
from small import SETTINGS

from ablations.commands.renewing import NICE, Renewal
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


def test_what_is_timed_untrained_waits_for_the_training_that_the_plan_has_before_it(
    ask: Ask, tmp_path: Path, here: InProcess
) -> None:
    timed = {"measures": ["throughput"], "metric": "step_time"}
    post = {"with": {}, "post": {"model.residual": "post"}}
    other = {"settings": {**SETTINGS, "train.clip": 0.5}, "variants": post}
    files = [ask("one"), ask("timed", **timed), ask("two", **other)]
    diary = sweep(files, tmp_path, here)
    assert diary.told == [("one", 4), ("quiet", 4), ("timed", 5), ("two", 7)]


def test_where_others_have_the_machine_training_does_not_wait_for_timing(
    ask: Ask, tmp_path: Path, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablations.sweep import runner

    busy = iter([True, False])
    monkeypatch.setattr(
        runner._Sweep,
        "_would_disturb",
        lambda self, piece: runner.TIMING in piece.leases and next(busy),
    )
    timed = {"measures": ["throughput"], "metric": "step_time"}
    diary = sweep([ask("timed", **timed), ask("trained")], tmp_path, here)
    assert diary.told == [("trained", 4), ("quiet", 4), ("timed", 5)]


def test_trainings_that_all_fail_alike_end_a_sweep_though_its_probes_succeed(
    ask: Ask, tmp_path: Path, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablations.sweep import worker

    def broken(*_: object, **__: object) -> None:
        raise ArithmeticError("nobody can count today")

    monkeypatch.setattr(worker, "_train", broken)
    variants = {str(n): {"train.clip": n + 0.5} for n in range(8)}
    trained = ask("trained", variants=variants, control="0")
    plan = make_plan([ask("probed", **PROBED), trained], "smoke", {}, [0])
    counts = run(plan, Results(tmp_path / "out"), here, "cpu")
    assert counts["ok"] == 2
    assert counts["error"] < 8


def test_a_question_with_nothing_left_to_do_is_not_told_again(
    ask: Ask, tmp_path: Path, here: InProcess
) -> None:
    file = ask("one")
    sweep([file], tmp_path, here)
    assert sweep([file], tmp_path, here).told == []


class Page:
    """A drawing that goes on until it is let go."""

    def __init__(self) -> None:
        self.is_done = self.is_ended = False

    def terminate(self) -> None:
        self.is_ended = True

    def poll(self) -> int | None:
        return 0 if self.is_done else None

    def wait(self) -> int:
        self.is_done = True
        return 0


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[Page]:
    drawn: list[Page] = []

    def draw(self: Renewal, errors: object, nice: int = NICE) -> Page:
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
    assert pages[0].is_ended
    renewal.tick()  # what was left undone is drawn when timing has ended
    assert len(pages) == 2
    pages[1].wait()
    renewal.quiet()  # nothing is left undone
    renewal.tick()
    assert len(pages) == 2


def test_a_page_that_could_not_be_drawn_at_once_is_drawn_later(
    pages: list[Page], tmp_path: Path
) -> None:
    renewal = Renewal(tmp_path, pause=0.0)
    renewal.question_ended("one")
    renewal.question_ended("two")  # while the first is drawn
    pages[0].wait()
    renewal.tick()
    assert len(pages) == 2
    pages[1].wait()
    renewal.tick()  # and nothing is owed
    assert len(pages) == 2


def test_a_page_leaves_the_processors_to_training(tmp_path: Path) -> None:
    """Also where these are shared out by sessions: a worker has one of its own."""
    drawing = Renewal(tmp_path)._draw(subprocess.DEVNULL)
    try:
        assert os.getsid(drawing.pid) == drawing.pid
        assert os.getpriority(os.PRIO_PROCESS, drawing.pid) == NICE
        group = Path(f"/proc/{drawing.pid}/autogroup")
        if group.exists():
            assert group.read_text().split()[-1] == str(NICE)
    finally:
        drawing.kill()
        drawing.wait()


def test_a_page_does_not_outlive_a_sweep_that_is_cut(pages: list[Page], tmp_path: Path) -> None:
    renewal = Renewal(tmp_path, pause=0.0)
    renewal.abandon()  # without one nothing happens
    renewal.question_ended("one")
    renewal.abandon()
    assert pages[0].is_done
    assert pages[0].is_ended


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
