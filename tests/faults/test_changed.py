"""Fault 43: data or source changes before a record is made. Nothing is kept, one line says so."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcess
from small import SETTINGS

from ablations.facts import training_code
from ablations.jobs import RunConfig
from ablations.launch import Changed
from ablations.launch.local import LocalLauncher
from ablations.plan import Plan, make_plan
from ablations.runner import run
from ablations.store.results import Results
from ablations.store.stamp import loaded_otherwise, note_loaded, stamp
from model.residual import NORM

Ask = Callable[..., str]
PART = "norm_of_ours"
SOURCE = f'''
from pathlib import Path
from model.residual import NORM, LayerNorm

@NORM.register("{PART}")
class Ours(LayerNorm):
    """A user's own part; told to, it edits its own source when it is used."""

    def forward(self, x):
        here = Path(__file__)
        if (here.parent / "edit").exists():
            (here.parent / "edit").unlink()
            here.write_text(here.read_text() + "\\nEDITED = True\\n")
        return super().forward(x)
'''


def kept(results: Results) -> list[str]:
    return [path.name for path in results.trials.iterdir()] if results.trials.exists() else []


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A user's own dictionaries."""
    letters, phones = "abcdefgh", ["AA", "B", "K", "D", "EH", "F", "G", "HH"]
    paths = {}
    for number, split in enumerate(("train", "valid", "test")):
        words = [letters[number] + a + b for a in letters for b in letters]
        lines = [f"{w}\t{' '.join(phones[letters.index(c)] for c in w)}" for w in words]
        paths[split] = tmp_path / f"{split}.tsv"
        paths[split].write_text("\n".join(lines) + "\n")
    return paths


def test_data_that_is_changed_after_the_plan_ends_the_sweep_and_leaves_no_record(
    ask: Ask, results: Results, files: dict[str, Path]
) -> None:
    named = {f"task.{split}": str(path) for split, path in files.items()}
    sizes = {"task.words": None, "task.valid_words": None, "task.test_words": None}
    plan = make_plan([ask(settings={**SETTINGS, **sizes})], "smoke", named, [0])
    whole = files["train"].read_text()
    with LocalLauncher(1, preload=["ablations.worker"]) as launcher:
        for change in (
            lambda: files["train"].write_text(whole.replace("AA B", "B AA")),
            lambda: files["train"].unlink(),
        ):
            change()
            with pytest.raises(Changed, match="the data of task g2p has changed since this run"):
                run(RunConfig(plan, results, "cpu"), launcher)
            assert kept(results) == []
            files["train"].write_text(whole)
        assert run(RunConfig(plan, results, "cpu"), launcher).total() == len(plan.trials)


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a part of the user's own, which driver and workers can import."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / f"{PART}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(folder)
    importlib.import_module(PART)
    note_loaded()  # as a worker does once it has imported a part
    training_code.cache_clear()  # which reads a part's file once
    yield folder / f"{PART}.py"
    training_code.cache_clear()
    del NORM.components[PART], sys.modules[PART]


def own_plan(ask: Ask) -> Plan:
    variants: dict[str, Any] = {"with": {}, "ours": {"model.norm": PART}}
    return make_plan([ask(baseline="ours", variants=variants)], "smoke", {}, [0])


@pytest.mark.parametrize("when", ["before it trains", "while it trains"])
def test_source_that_is_edited_after_the_plan_ends_the_sweep_and_its_trial_leaves_no_record(
    ask: Ask, results: Results, part: Path, when: str
) -> None:
    plan = own_plan(ask)
    ours = next(want.id for want in plan.trials.values() if PART in want.code)
    _ = [want.source_code("quality") for want in plan.trials.values()]
    if when == "before it trains":
        part.write_text(SOURCE.replace("super()", "1.0 * super()"))
    else:
        (part.parent / "edit").touch()
    with pytest.raises(Changed, match=f"{PART} changed since this run began"):
        run(RunConfig(plan, results, "cpu", [PART]), InProcess())
    assert f"{ours}.json" not in kept(results)
    part.write_text(SOURCE)
    assert not run(RunConfig(plan, results, "cpu", [PART]), InProcess())["error"]
    assert f"{ours}.json" in kept(results)


def test_a_worker_refuses_code_that_is_not_what_its_process_has_loaded(
    ask: Ask, results: Results, part: Path
) -> None:
    """The plan and the files agree, but the process imported the part before the edit."""
    part.write_text(f"{SOURCE}\n# one more line, which is no code\n")
    assert loaded_otherwise(stamp([PART])) == []
    part.write_text(SOURCE.replace("super()", "1.0 * super()"))
    plan = own_plan(ask)
    with pytest.raises(Changed, match=f"{PART} changed"):
        run(RunConfig(plan, results, "cpu", [PART]), InProcess())
    assert len(kept(results)) == 1, "the variant without the part"
