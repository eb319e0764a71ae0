"""The data of a task decides the trial: another digest orphans every record on it.

Where data really has changed, name in the commit whose numbers move, and write the new one here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from task_subjects import OWN_FILES, WITH_OWN_FILES, task_subject

from ablations.facts import identity_of
from ablations.tasks import TASK

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
    assert {name: task_subject(name).task.digest()[:12] for name in TASK.parts} == DIGESTS


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
