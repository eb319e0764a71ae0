"""What a results folder no longer needs: named first, deleted when told, and nothing else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.claim import Claims
from ablations.commands import main
from ablations.commands.clean import litter
from ablations.record import Record, Results, write_atomic, writer_of

DONE, FAILED, WAITING, STRANGER = (letter * 12 for letter in "dfab")
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def answer(*words: str) -> tuple[int, str, str]:
        return (main(["clean", *words]), *capsys.readouterr())

    return answer


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """A folder in which everything is needed."""
    results = Results(tmp_path / "out")
    cells = [{"trial": trial} for trial in (DONE, FAILED, WAITING)]
    results.write_plan({"schema": 1, "ablations": {"one": {"cells": cells}}})
    results.write(Record(DONE, "ok", {}))
    results.write(Record(FAILED, "timeout", {}, reason="too long"))
    results.write(Record(STRANGER, "ok", {}))
    put(results.checkpoint(DONE))
    for trial in (FAILED, WAITING):  # they may go on from there
        put(results.in_training(trial))
        put(results.checkpoints / f"{trial}.training.previous")
    put(results.root / "notes.txt")
    put(results.root / "report" / "index.html")
    return results


def put(path: Path, age: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 1000)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def dead_process() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def temporary_of(pid: int, results: Results) -> Path:
    """A name as that process would have given it."""
    seen: list[str] = []
    replace = os.replace

    def watch(source: Path, target: Path) -> None:
        seen.append(Path(source).name)
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", watch)
        patch.setattr(os, "getpid", lambda: pid)
        write_atomic(results.root / "notes.txt", "")
    return results.trials / seen[0]


@pytest.fixture
def littered(results: Results) -> list[Path]:
    """All kinds of litter in the folder."""
    child = os.fork()
    if child == 0:
        Claims(results.root / "claims").take(WAITING)
        os._exit(0)
    os.waitpid(child, 0)
    return [
        put(results.trials / ".x.json.0123.tmp", age=3700),
        put(results.root / ".plan.json.0123.tmp", age=3700),
        put(results.root / "report" / ".index.html.0123.tmp", age=3700),
        put(temporary_of(dead_process(), results)),
        put(results.in_training(DONE)),
        put(results.checkpoints / f"{DONE}.training.previous"),
        put(results.checkpoint(STRANGER)),
        put(results.in_training(STRANGER)),
        put(results.trials / f"{DONE}.bad-01234567"),
        results.root / "claims" / WAITING,
    ]


def files(results: Results) -> set[Path]:
    return {path for path in results.root.rglob("*") if path.is_file() or path.is_symlink()}


def test_in_a_folder_where_everything_is_needed_nothing_is_named(
    results: Results, say: Say
) -> None:
    assert list(litter(results)) == []
    assert say("--results", str(results.root)) == (0, f"Nothing to delete in {results.root}.\n", "")


def test_each_kind_of_litter_is_named_and_only_yes_deletes_it(
    results: Results, littered: list[Path], say: Say
) -> None:
    before = files(results)
    code, out, _ = say("--results", str(results.root))
    assert code == 0
    assert all(str(path) in out for path in littered)
    assert out.splitlines()[-1].startswith(f"{len(littered)} files, 9.")
    assert out.splitlines()[-1].endswith("kB. --yes deletes them.")
    assert files(results) == before
    code, out, _ = say("--results", str(results.root), "--yes")
    assert code == 0
    assert out.splitlines()[-1].startswith(f"Deleted {len(littered)} files, 9.")
    assert files(results) == before - set(littered)
    assert list(litter(results)) == []


def test_the_list_is_one_json_document(results: Results, littered: list[Path], say: Say) -> None:
    for words, deleted in (((), False), (("--yes",), True)):
        _, out, _ = say("--results", str(results.root), "--json", *words)
        found = json.loads(out)
        assert found["deleted"] is deleted
        assert {file["path"] for file in found["files"]} == set(map(str, littered))
        assert found["bytes"] == sum(file["bytes"] for file in found["files"]) > 9000


def test_what_somebody_may_still_write_stays(results: Results) -> None:
    """Temporary files that are young, or whose writer is alive; here, and on a machine unknown."""
    put(results.trials / ".x.json.0123.tmp", age=3500)
    put(temporary_of(os.getpid(), results))
    assert writer_of(temporary_of(os.getpid(), results).name) == os.getpid()
    assert list(litter(results)) == []


def test_what_a_running_trial_needs_stays(results: Results) -> None:
    put(results.in_training(DONE))  # it is being made anew
    put(results.in_training(STRANGER))  # planned by nobody, and yet
    with Claims(results.root / "claims") as claims:
        claims.take(DONE, STRANGER)
        assert list(litter(results)) == []
    assert len(list(litter(results))) == 2


def test_a_claim_that_came_to_life_is_not_deleted(results: Results, littered: list[Path]) -> None:
    from ablations.commands.clean import _delete

    named = [each for each in litter(results) if each.path.parent.name == "claims"]
    with Claims(results.root / "claims") as claims:
        claims.take(WAITING)
        assert [_delete(each, results) for each in named] == [False]
        assert claims.holds(WAITING)


@pytest.mark.parametrize("harm", ["", "{", '{"schema": 99, "ablations": {}}'])
def test_without_a_plan_nothing_is_deleted(
    results: Results, littered: list[Path], say: Say, harm: str
) -> None:
    results.plan_file.write_text(harm)
    before = files(results)
    code, out, err = say("--results", str(results.root), "--yes")
    assert (code, out, err.count("\n")) == (2, "", 1)
    results.plan_file.unlink()
    assert say("--results", str(results.root), "--yes")[0] == 2
    assert files(results) == before - {results.plan_file}


def test_links_are_neither_followed_nor_deleted(results: Results, tmp_path: Path, say: Say) -> None:
    elsewhere = tmp_path / "elsewhere"
    for name in (
        ".a.json.0123.tmp",
        f"{STRANGER}.safetensors",
        f"{DONE}.bad-1",
        f"{DONE}.training",
    ):
        put(elsewhere / name, age=10_000)
        for folder in (results.root, results.trials, results.checkpoints):
            if not (folder / name).exists():
                (folder / name).symlink_to(elsewhere / name)
    (results.root / "figures").symlink_to(elsewhere)
    (results.root / "claims").symlink_to(elsewhere)
    before = files(results), set(elsewhere.iterdir())
    assert say("--results", str(results.root), "--yes")[0] == 0
    assert (files(results), set(elsewhere.iterdir())) == before


def test_a_folder_that_is_itself_a_link_elsewhere_is_left_alone(
    results: Results, tmp_path: Path, say: Say
) -> None:
    moved = tmp_path / "moved"
    results.checkpoints.rename(moved)
    put(moved / f"{STRANGER}.safetensors")
    results.checkpoints.symlink_to(moved)
    assert say("--results", str(results.root), "--yes")[0] == 0
    assert (moved / f"{STRANGER}.safetensors").exists()


def test_a_file_that_is_gone_meanwhile_is_no_mistake(
    results: Results, littered: list[Path], monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    found = list(litter(results))
    monkeypatch.setattr("ablations.commands.clean.litter", lambda _: found)
    littered[0].unlink()
    code, out, _ = say("--results", str(results.root), "--yes", "--json")
    assert code == 0
    assert len(json.loads(out)["files"]) == len(littered) - 1


def test_other_files_are_never_named(results: Results) -> None:
    names = ["checkpoints/readme.md", "checkpoints/.hidden", "trials/x.json", "trials/.keep",
             "checkpoints/aaa.pt", "figures/a.svg", "tables/a.csv", "claims/.lock"]  # fmt: skip
    for name in names:
        put(results.root / name, age=10_000)
    found: list[Any] = list(litter(results))
    assert found == []
