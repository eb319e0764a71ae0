"""However many tasks a sweep has, its workers come by them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.store.identity import canonical_json
from ablations.store.results import Results
from ablations.tasks.task import MOST, announce, announced

Ask = Callable[..., str]
Sweep = Callable[..., Counter[str]]
LONGEST = 128 * 1024  # bytes of one string of an environment, on Linux


def options(number: int) -> dict[str, int]:
    """Those of one of many tasks."""
    return {"keys": 8 + number % 10, "values": 2 + number // 10 % 15, "distance": number // 150}


def tasks(number: int) -> list[dict[str, Any]]:
    made = [{"name": "recall", "note": "x" * 60, **options(each)} for each in range(number)]
    assert len({canonical_json(task) for task in made}) == number
    return made


def test_trials_of_fifteen_hundred_tasks_are_run(results: Results, sweep: Sweep) -> None:
    """Fault 49."""
    many = tasks(1500)
    assert sum(len(canonical_json(task)) for task in many) > LONGEST
    trials = {f"t{number}": {"task": many[number]} for number in range(0, 1500, 300)}
    with announce(many):
        assert sweep(trials) == {"ok": 5}


def test_the_tasks_of_most_trials_are_read_beforehand_and_not_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fault 49. Each would stay in the memory of the server."""
    monkeypatch.delenv("ABLATIONS_TASKS", raising=False)
    assert announced() == []
    many = tasks(1500)
    with announce([*many, *many[-3:]]):
        assert set(announced()[:3]) == {canonical_json(task) for task in many[-3:]}
        assert len(announced()) == MOST
        told = Path(os.environ["ABLATIONS_TASKS"])
        assert told.is_file()
    assert announced() == []
    assert not told.exists()
