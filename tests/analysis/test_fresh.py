"""A report is made anew exactly when something that it is made of has changed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from analysis import fresh, style
from analysis.__main__ import main


@pytest.fixture
def reported(folder: Any) -> Path:
    folder.ablation("position", ["control", "none"], seeds=[0, 1])
    for label in ("control", "none"):
        for seed in (0, 1):
            folder.record(label, seed, 0.2 + 0.01 * seed + 0.3 * (label == "none"))
    assert main(["report", "--results", str(folder.root)]) == 0
    return folder.root


def stamp(root: Path) -> int:
    return (root / "report" / "index.html").stat().st_mtime_ns


def test_an_unchanged_folder_is_not_drawn_again(reported: Path) -> None:
    before = stamp(reported)
    words = "import sys; from analysis.__main__ import main; main(sys.argv[1:]); "
    words += "print(sorted({'matplotlib', 'pandas', 'torch'} & sys.modules.keys()))"
    command = [sys.executable, "-c", words, "report", "--results", str(reported)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, page, loaded = done.stdout.splitlines()
    assert page == str(reported / "report" / "index.html")
    assert loaded == "[]"
    assert stamp(reported) == before


def test_a_changed_record_or_a_lost_figure_makes_a_new_report(reported: Path, folder: Any) -> None:
    before = stamp(reported)
    folder.record("none", 1, 0.9)
    assert main(["report", "--results", str(reported)]) == 0
    changed = stamp(reported)
    assert changed != before
    shutil.rmtree(reported / "figures")
    assert main(["report", "--results", str(reported)]) == 0
    assert stamp(reported) != changed
    assert list((reported / "figures").iterdir())


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every figure that is drawn from now on, by its files' name."""
    names: list[str] = []
    save = style.save

    def counted(figure: Any, folder: Path, name: str) -> list[Path]:
        names.append(name)
        return save(figure, folder, name)

    monkeypatch.setattr(style, "save", counted)
    return names


@pytest.fixture
def two_questions(reported: Path, folder: Any) -> Path:
    folder.ablation("width", ["64", "128"], seeds=[0, 1], task="text")
    for label in ("64", "128"):
        for seed in (0, 1):
            folder.record(label, seed, 0.4 + 0.02 * seed + 0.1 * (label == "64"))
    assert main(["report", "--results", str(reported)]) == 0
    return reported


def test_only_figures_whose_data_changed_are_drawn_again(
    two_questions: Path, folder: Any, drawn: list[str]
) -> None:
    def own(question: str) -> set[str]:
        return {f"{question}/{p.stem}" for p in (two_questions / "figures" / question).iterdir()}

    folder.record("128", 1, 0.9)
    assert main(["report", "--results", str(two_questions)]) == 0
    assert own("width") & set(drawn)
    assert not own("position") & set(drawn)
    assert len(drawn) == len(set(drawn))


def test_a_damaged_or_lost_figure_is_drawn_again_and_no_other(
    two_questions: Path, drawn: list[str]
) -> None:
    files = sorted((two_questions / "figures").rglob("*.svg"))
    damaged, lost = files[0], files[-1]
    flip_a_byte(damaged)
    lost.with_suffix(".png").unlink()
    assert main(["report", "--results", str(two_questions)]) == 0
    folder = two_questions / "figures"
    hurt = {str(file.relative_to(folder).with_suffix("")) for file in (damaged, lost)}
    assert sorted(drawn) == sorted(hurt)


def test_a_figure_that_stands_nowhere_any_more_is_cleared_away(
    two_questions: Path, folder: Any
) -> None:
    mine = two_questions / "figures" / "width" / "mine.svg"
    mine.write_text("drawn by hand")
    del folder.plan["ablations"]["width"]
    folder.results.write_plan(folder.plan)
    assert main(["report", "--results", str(two_questions)]) == 0
    assert list((two_questions / "figures" / "width").iterdir()) == [mine]


def test_other_code_draws_every_figure_again(
    two_questions: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "makers", lambda: "other code")
    assert main(["report", "--results", str(two_questions)]) == 0
    assert len(drawn) == len(list((two_questions / "figures").rglob("*.svg")))


def flip_a_byte(path: Path) -> None:
    """Damage that leaves size and times as they were."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_size == before.st_size


@pytest.mark.parametrize(
    "name", ["plan.json", "trials/*.json", "report/index.html", "figures/**/*.*"]
)
def test_damage_without_a_trace_in_time_or_size_is_seen(reported: Path, name: str) -> None:
    assert fresh.paths(reported) is not None
    flip_a_byte(sorted(reported.glob(name))[0])
    assert fresh.paths(reported) is None


def test_a_touched_or_moved_folder_is_still_fresh(reported: Path) -> None:
    for path in reported.rglob("*.json"):
        os.utime(path, (1, 1))
    moved = reported.rename(reported.with_name("moved"))
    assert (fresh.paths(moved) or [])[-1] == moved / "report" / "index.html"


def test_a_new_version_of_a_drawing_library_makes_a_new_report(
    reported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = metadata.version
    for library in ("matplotlib", "pandas", "seaborn"):
        with monkeypatch.context() as patch:
            patch.setattr(
                metadata, "version", lambda n, k=library: f"{installed(n)}{'a' * (n == k)}"
            )
            assert fresh.paths(reported) is None
        assert fresh.paths(reported) is not None


@pytest.fixture
def not_for_ever() -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise AssertionError("still waiting after ten seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("not_for_ever")
def test_a_pipe_among_the_records_is_counted_and_not_waited_for(reported: Path) -> None:
    pipe = reported / "trials" / "pipe.json"
    os.mkfifo(pipe)
    with_pipe = fresh.inputs(reported)
    pipe.rename(pipe.with_name("other.json"))
    with_other = fresh.inputs(reported)
    pipe.with_name("other.json").unlink()
    assert len({with_pipe, with_other, fresh.inputs(reported)}) == 3


def test_what_cannot_be_opened_is_counted_by_its_name(reported: Path) -> None:
    before = fresh.inputs(reported)
    (reported / "trials" / "nowhere.json").symlink_to("gone")
    (reported / "trials" / "folder.json").mkdir()
    assert fresh.inputs(reported) != before


def test_a_thousand_records_are_read_in_less_than_a_second(folder: Any) -> None:
    folder.results.write_plan(folder.plan)
    trials = folder.root / "trials"
    trials.mkdir(exist_ok=True)
    for index in range(1000):
        (trials / f"{index:012x}.json").write_bytes(os.urandom(1000) * 60)
    start = time.process_time()  # of this process alone, however busy the machine
    fresh.inputs(folder.root)
    assert time.process_time() - start < 1
