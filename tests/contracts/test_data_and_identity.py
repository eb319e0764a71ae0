"""A trial is another one when its data is, and the same wherever the data lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_subjects import OWN_FILES, WITH_OWN_FILES, task_subject

from ablations.plan.identity import identity_of


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
