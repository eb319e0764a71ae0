"""Every task keeps every contract: one item a task, whose failures are told together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from task_answer_checks import OF_ANSWERS, gives_a_perfect_answer_the_best_score
from task_batch_checks import OF_DATA, OF_FILES, teaches_by_the_seed_alone
from task_subjects import OWN_FILES, broken, failures, task_subject, tree_of

from ablations.tasks import TASK
from ablations.tasks.lookup import Pair
from ablations.tasks.strings import Copy


@pytest.mark.parametrize("name", TASK.parts)
def test_every_task_keeps_every_contract(name: str) -> None:
    checks = [*OF_DATA, *OF_ANSWERS, *(OF_FILES if TASK.part(name).files else ())]
    assert not failures(checks, task_subject(name))


def test_what_matters_is_registered_for_the_scores_that_decide() -> None:
    deciding = {"g2p": "per", "text": "bits_per_character", "copy": "sequence_accuracy",
                "recall": "accuracy", "translation": "bleu"}  # fmt: skip
    found = {name: TASK.part(name).metrics[metric].matters for name, metric in deciding.items()}
    assert found == {"g2p": 0.02, "text": 0.03, "copy": 0.05, "recall": 0.05, "translation": None}


class TeachesTheSameEveryTime(Copy):
    def steps(self, seed: int, *rest: Any) -> Any:
        return super().steps(0, *rest)


class PraisesAll(Pair):
    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> dict[str, float]:
        return {"accuracy": 1.0}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("check", "name", "part", "sentence"),
    [
        (teaches_by_the_seed_alone, "copy", TeachesTheSameEveryTime, "gives another seed the same"),
        (gives_a_perfect_answer_the_best_score, "pair", PraisesAll, "gives silence the same"),
    ],
)
def test_a_broken_task_fails_its_contract(check: Any, name: str, part: Any, sentence: str) -> None:
    with broken(name, part) as subject:
        (told,) = failures([check], replace(subject))
    assert sentence in told
    assert "ablations/tasks/task.py" in told  # where it says what is owed


def test_a_task_that_nobody_declared_is_told_where() -> None:
    with pytest.raises(AssertionError, match=r"write ablations/base/absent\.yaml"):
        tree_of("absent")


def test_small_files_are_of_tasks_that_are_there() -> None:
    assert OWN_FILES.keys() <= TASK.parts.keys()
