"""Every task keeps every contract: one item a task, whose failures are told together."""

from __future__ import annotations

import pytest
from task_answer_checks import OF_ANSWERS
from task_batch_checks import OF_DATA
from task_subjects import failures, task_subject

from ablations.tasks import TASK


@pytest.mark.parametrize("name", TASK.parts)
def test_every_task_keeps_every_contract(name: str) -> None:
    assert not failures([*OF_DATA, *OF_ANSWERS], task_subject(name))


def test_what_matters_is_registered_for_the_scores_that_decide() -> None:
    deciding = {"g2p": "per", "text": "bits_per_character", "copy": "sequence_accuracy",
                "recall": "accuracy", "translation": "bleu"}  # fmt: skip
    found = {name: TASK.part(name).metrics[metric].matters for name, metric in deciding.items()}
    assert found == {"g2p": 0.02, "text": 0.03, "copy": 0.05, "recall": 0.05, "translation": None}
