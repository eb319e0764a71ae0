"""What a results folder no longer needs: named first, deleted when told, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from small import plan_document

from ablations.commands import clean
from ablations.commands.clean import Litter, litter
from ablations.leases import Leases
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.stamp import short
from ablations.train.checkpoint import Checkpointer

DONE, FAILED, WAITING, STRANGER, GONE = (letter * 12 for letter in "dfab9")
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """A folder in which everything is needed."""
    results = Results(tmp_path / "out")
    cells = [{"id": trial} for trial in (DONE, FAILED, WAITING)]
    results.write_plan(plan_document({"one": cells}))
    results.write(Record(DONE, "ok", {}))
    results.write(Record(FAILED, "timeout", {}, reason="too long"))
    results.write(Record(STRANGER, "ok", {}))
    for trial in (DONE, STRANGER):  # they may be measured again, if only once they are planned
        put(results.weights(trial))
    for trial in (FAILED, WAITING):  # they may go on from there
        put(results.unfinished(trial))
        put(results.checkpoints / f"{trial}.unfinished.previous")
    others = ["notes.txt", "report/index.html", "checkpoints/readme.md", "checkpoints/.hidden",
              "trials/x.json", "trials/.keep", "checkpoints/aaa.pt", "tables/a.csv"]  # fmt: skip
    for name in others:
        put(results.root / name, age=10_000)
    return results


def put(path: Path, age: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 1000)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


@pytest.fixture
def littered(results: Results) -> list[Path]:
    """All kinds of litter in the folder."""
    child = os.fork()
    if child == 0:
        leases = Leases(results.root / "leases")
        leases.take(WAITING)
        os._exit(0)
    os.waitpid(child, 0)
    return [
        put(results.trials / ".x.json.0123.tmp", age=3700),
        put(results.root / ".plan.json.0123.tmp", age=3700),
        put(results.root / "report" / ".index.html.0123.tmp", age=3700),
        put(results.trials / f".{GONE}.json.0123.tmp", age=3700),
        put(results.checkpoints / f".{GONE}.safetensors.0123.tmp", age=3700),
        put(results.unfinished(DONE)),
        put(results.checkpoints / f"{DONE}.unfinished.previous"),
        put(results.unfinished(STRANGER)),
        put(results.weights(GONE)),
        put(results.unfinished(GONE)),
        put(results.trials / f"{DONE}.bad-01234567"),
        results.root / "leases" / WAITING,
    ]


def files(results: Results) -> set[Path]:
    return {path for path in results.root.rglob("*") if path.is_file() or path.is_symlink()}


def test_in_a_folder_where_everything_is_needed_nothing_is_named(
    results: Results, say: Say
) -> None:
    told = f"Nothing to delete in {results.root}.\n"
    assert say("clean", "--results", str(results.root)) == (0, told, "")


def test_each_kind_of_litter_is_named_and_only_yes_deletes_it(
    results: Results, littered: list[Path], say: Say
) -> None:
    before = files(results)
    code, out, _ = say("clean", "--results", str(results.root))
    assert code == 0
    assert all(str(path) in out for path in littered)
    assert out.splitlines()[-1].startswith(f"{len(littered)} files, 11 ")
    assert out.splitlines()[-1].endswith("kB. --yes deletes them.")
    assert files(results) == before
    code, out, _ = say("clean", "--results", str(results.root), "--yes")
    assert code == 0
    assert out.splitlines()[-1].startswith(f"Deleted {len(littered)} files, 11 ")
    assert files(results) == before - set(littered)
    assert list(litter(results)) == []


def test_what_somebody_may_still_write_stays(results: Results) -> None:
    """Temporary files that are young, or of a trial that somebody holds."""
    put(results.trials / ".x.json.0123.tmp", age=3500)
    old = put(results.trials / f".{WAITING}.json.0123.tmp", age=3700)
    with Leases(results.root / "leases") as leases:
        leases.take(WAITING)
        assert list(litter(results)) == []
    assert [path for path, _ in litter(results)] == [old]


def keep(results: Results, trial: str, code: str) -> list[Path]:
    """What two checkpoints of a training by this code leave."""
    keeper = Checkpointer(results.unfinished(trial), {"trial": trial, "code": code})
    for _ in range(2):
        keeper.save({"weight": torch.ones(2)}, {})
    return [keeper.path, keeper.previous]


def test_a_training_by_other_code_than_the_record_s_or_for_lost_weights_may_go_on(
    results: Results,
) -> None:
    """`run --rerun stale` was interrupted."""
    results.write(Record(DONE, "ok", {}, env={"code": {"a": "then"}}))
    kept = keep(results, DONE, short({"a": "now"}))
    assert list(litter(results)) == []
    results.write(Record(DONE, "ok", {}, env={"code": {"a": "now"}}))
    assert [path for path, _ in litter(results)] == kept
    results.weights(DONE).unlink()  # for which it is trained again
    assert list(litter(results)) == []


def test_nobody_can_begin_between_the_list_and_the_deleting(
    results: Results, littered: list[Path], monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    def listed(results: Results) -> Iterator[Litter]:
        with pytest.raises(TimeoutError), Leases(results.root / "leases").locked():
            pass
        yield from litter(results)

    monkeypatch.setattr("ablations.leases._PATIENCE", 0.0)
    monkeypatch.setattr(clean, "litter", listed)
    assert say("clean", "--results", str(results.root), "--yes")[0] == 0
    assert not any(path.exists() for path in littered)


def test_without_a_plan_nothing_is_deleted(
    results: Results, littered: list[Path], say: Say
) -> None:
    before = files(results)
    assert set(littered) < before
    for harm in ("", "{", '{"schema": 99, "experiments": {}}'):
        results.plan_file.write_text(harm)
        code, out, err = say("clean", "--results", str(results.root), "--yes")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert files(results) == before
    results.plan_file.unlink()
    assert say("clean", "--results", str(results.root), "--yes")[0] == 2
    assert files(results) == before - {results.plan_file}


def test_links_are_neither_followed_nor_deleted(results: Results, tmp_path: Path, say: Say) -> None:
    elsewhere = tmp_path / "elsewhere"
    names = (".a.json.0123.tmp", f"{STRANGER}.safetensors", f"{DONE}.bad-1", f"{DONE}.unfinished")
    for name in names:
        put(elsewhere / name, age=10_000)
        for folder in (results.root, results.trials, results.checkpoints):
            if not (folder / name).exists():
                (folder / name).symlink_to(elsewhere / name)
    for name in ("figures", "leases"):
        (results.root / name).symlink_to(elsewhere)
    before = files(results), set(elsewhere.iterdir())
    assert say("clean", "--results", str(results.root), "--yes")[0] == 0
    assert (files(results), set(elsewhere.iterdir())) == before
