"""Every task keeps every contract: one item a task, whose failures are told together."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_answer_checks import OF_ANSWERS
from task_batch_checks import OF_DATA
from task_subjects import OWN_FILES, WITH_OWN_FILES, failures, task_subject

from ablations.facts import identity_of
from ablations.tasks import TASK


@pytest.mark.parametrize("name", TASK.components)
def test_every_task_keeps_every_contract(name: str) -> None:
    assert not failures([*OF_DATA, *OF_ANSWERS], task_subject(name))


def test_what_matters_is_registered_for_the_scores_that_decide() -> None:
    deciding = {"g2p": "per", "text": "bits_per_character", "copy": "sequence_accuracy",
                "recall": "accuracy", "translation": "bleu"}  # fmt: skip
    found = {
        name: TASK.component(name).metrics[metric].matters for name, metric in deciding.items()
    }
    assert found == {"g2p": 0.02, "text": 0.03, "copy": 0.05, "recall": 0.05, "translation": None}


# The data of a task decides the trial: another digest orphans every record on it. Where data really
# has changed, name in the commit whose numbers move, and write the new one here.
DIGESTS = {
    "copy": "9e6e846364a0",
    "g2p": "24acdaad93b5",
    "listops": "bff5697ea52d",
    "pair": "0d813ad7e8a2",
    "recall": "befcd5a0b564",
    "reverse": "8c236bbf2042",
    "sort": "3b12132cf44c",
    "text": "e9ae40400c7c",
    "translation": "d877c2247eff",
}


def test_the_data_of_every_task_is_what_it_was() -> None:
    assert {name: task_subject(name).task.digest()[:12] for name in TASK.components} == DIGESTS


def trial_of(name: str, folder: Path, **changed: str) -> str:
    """The id of a task's trial on a user's own files, written into this folder."""
    folder.mkdir()
    paths = {option: str(folder / option) for option in OWN_FILES[name]}
    for option, text in OWN_FILES[name].items():
        (folder / option).write_text(changed.get(option, text), encoding="utf-8")
    subject = task_subject(name)
    task = {**subject.config["task"], **WITH_OWN_FILES.get(name, {}), **paths}
    return identity_of({**subject.config, "task": task, "seed": 0})


@pytest.mark.parametrize("name", OWN_FILES)
def test_other_words_in_the_same_file_are_another_trial(name: str, tmp_path: Path) -> None:
    ours = trial_of(name, tmp_path / "here")
    assert trial_of(name, tmp_path / "elsewhere") == ours
    for option, text in OWN_FILES[name].items():
        other = trial_of(name, tmp_path / option, **{option: text.replace("e", "t", 1)})
        assert other != ours, f"the id does not see what is in {option}"
