"""Every task keeps every contract, and each contract is broken by a task made to break it."""

from __future__ import annotations

from typing import Any

import pytest
from task_answer_checks import OF_ANSWERS
from task_batch_checks import OF_DATA, OF_FILES, Check
from task_breakers import BROKEN
from task_subjects import OWN_FILES, broken, task_subject, tree_of

from ablations.tasks import TASK

OF_ALL = OF_DATA + OF_ANSWERS


@pytest.mark.parametrize("check", OF_ALL, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", TASK.parts)
def test_every_task_keeps_every_contract(name: str, check: Check) -> None:
    check(task_subject(name))


@pytest.mark.parametrize("check", OF_FILES, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [name for name, part in TASK.parts.items() if part.files])
def test_a_task_that_reads_files_keeps_the_contract_of_files(name: str, check: Check) -> None:
    check(task_subject(name))


@pytest.mark.parametrize(
    ("check", "name", "part", "sentence"),
    [pytest.param(*case, id=f"{case[2].__name__}-fails-{case[0].__name__}") for case in BROKEN],
)
def test_a_broken_task_fails_its_contract(
    check: Check, name: str, part: Any, sentence: str
) -> None:
    with broken(name, part) as subject, pytest.raises(AssertionError, match=sentence) as failure:
        check(subject)
    assert "ablations/tasks/task.py" in str(failure.value)  # where it says what is owed


def test_every_contract_has_a_broken_task() -> None:
    assert {case[0] for case in BROKEN} == {*OF_ALL, *OF_FILES}


def test_a_task_that_nobody_declared_is_told_where() -> None:
    with pytest.raises(AssertionError, match=r"write ablations/base/absent\.yaml"):
        tree_of("absent")


def test_small_files_are_of_tasks_that_are_there() -> None:
    assert OWN_FILES.keys() <= TASK.parts.keys()
