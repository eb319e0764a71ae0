"""What planning remembers: the same plan, sooner, and never anything out of date."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from ablations.plan import facts, memory, resolve
from ablations.plan.wanted import make_plan
from model.norm import NORM

Ask = Callable[..., str]


def forget() -> None:
    """What this process has in its head; what is on disk stays."""
    for room in (facts, memory, resolve):
        for value in vars(room).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget()
    yield tmp_path / "cache" / "attention-ablated"
    forget()


def counted(*words: str) -> dict[str, dict[str, float]]:
    """The trials of a plan with their counts, as a new process would find them."""
    forget()
    plan = make_plan(words, "smoke", {}, [0])
    found = {trial: want.counts for trial, want in plan.wanted.items()}
    memory.keep_facts()
    return found


def refuse(*_: Any) -> None:
    raise AssertionError("worked out again")


def test_a_second_plan_is_the_same_and_builds_and_reads_nothing(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = counted(ask())
    monkeypatch.setattr(resolve, "model_on_meta", refuse)
    monkeypatch.setattr(facts, "load_task", refuse)
    assert counted(ask()) == first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"TaskFacts": 3}', "\0"])
def test_a_file_that_cannot_be_used_is_as_good_as_none(ask: Ask, folder: Path, text: str) -> None:
    first = counted(ask())
    (file,) = folder.glob("plans-*.json")
    file.write_text(text)
    assert counted(ask()) == first
    assert json.loads(file.read_text())["TaskFacts"]


def test_facts_of_another_shape_are_worked_out_again(ask: Ask, folder: Path) -> None:
    first = counted(ask())
    (file,) = folder.glob("plans-*.json")
    plain = json.loads(file.read_text())
    for kind in ("TaskFacts", "ModelFacts", "CostFacts"):
        plain[kind] = {key: {"colour": "blue"} for key in plain[kind]}
    file.write_text(json.dumps(plain))
    assert counted(ask()) == first


def test_a_folder_that_takes_nothing_costs_time_alone(ask: Ask, folder: Path) -> None:
    folder.parent.write_text("a file where the folder would be")
    assert len(counted(ask())) == 2


def test_changed_code_remembers_nothing(
    ask: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counted(ask())
    for name in memory._CODE:
        (tmp_path / "other" / name).mkdir(parents=True)
    (tmp_path / "other" / "model" / "norm.py").write_text("another line")
    monkeypatch.setattr(memory, "ROOT", tmp_path / "other")
    counted(ask())
    assert len(list(folder.glob("plans-*.json"))) == 2


def test_of_old_code_only_a_few_files_are_kept(folder: Path) -> None:
    for number in range(20):
        held = memory.PlanMemory(folder / f"plans-{number:012x}.json")
        held.note("kind", "key", number)
        held.keep()
    assert len(list(folder.iterdir())) == memory._KEPT
    assert memory.PlanMemory(folder / f"plans-{19:012x}.json").recall("kind", "key") == 19


def test_two_that_remember_at_once_lose_nothing_of_each_other(folder: Path) -> None:
    one, other = (memory.PlanMemory(folder / "plans-0.json") for _ in range(2))
    one.note("kind", "a", 1)
    other.note("kind", "b", 2)
    one.keep()
    other.keep()
    both = memory.PlanMemory(folder / "plans-0.json")
    assert (both.recall("kind", "a"), both.recall("kind", "b")) == (1, 2)


class Doubled(nn.Module):
    def forward(self, x_BTD: Tensor) -> Tensor:
        return 2 * x_BTD


def test_nothing_is_remembered_while_a_part_of_ones_own_is_there(ask: Ask, folder: Path) -> None:
    NORM.register("doubled")(Doubled)
    try:
        counted(ask(variants={"with": {}, "doubled": {"model.norm": "doubled"}}))
    finally:
        del NORM.parts["doubled"]
    assert list(folder.parent.rglob("*.json")) == []


def test_a_file_of_ones_own_is_read_every_time(ask: Ask, tmp_path: Path) -> None:
    names = [tmp_path / f"{split}.tsv" for split in ("train", "valid", "test")]
    for number, name in enumerate(names):
        words = [f"{'q' * (n + 1)}{'xyz'[number]}\tAH B\n" for n in range(20)]
        name.write_text("xyz\tAH B\n" * (number == 0) + "".join(words))
    settings = {f"task.{name.stem}": str(name) for name in names}
    settings |= {"model.d_model": 16, "model.max_len": 64, "train.steps": 4}
    first = counted(ask(settings=settings))
    names[0].write_text(names[0].read_text().replace("AH B", "B AH"))
    from ablations.tasks.cache import load_task

    load_task.cache_clear()
    assert counted(ask(settings=settings)).keys().isdisjoint(first)
