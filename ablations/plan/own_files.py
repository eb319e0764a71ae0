"""Files of the user's own that a task is read from: mistakes that reading alone would accept."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ablations.store.files import open_file


def refused(task: Mapping[str, Any]) -> list[str]:
    """A line for each file that cannot be what was meant."""
    given = _given(task)
    problems = [
        f"task.{other}={given[other]}: the same as task.{one}: what was learned by heart tests "
        "nothing; name another file"
        for one, other in _pairs(given)
        if "train" in (_split(one), _split(other))
        and filecmp.cmp(given[one], given[other], shallow=False)
    ]
    return problems + [
        f"task.{option}={path}:1: no tab in it, though it is called .tsv; write "
        "word<TAB>p h o n e s, or call it .txt if it is WORD  P H O N E S"
        for option, path in given.items()
        if path.lower().endswith(".tsv") and not _has_tab(path)
    ]


def _given(task: Mapping[str, Any]) -> dict[str, str]:
    """Option → path, of files that are there; others are for their readers to complain of."""
    from ablations.tasks import TASK

    names = TASK.part(task["name"]).files
    found = {name: task[name] for name in names if isinstance(task.get(name), str)}
    return {name: path for name, path in found.items() if "\0" not in path and os.path.isfile(path)}


def _split(option: str) -> str:
    """`train` of `train_source`."""
    return option.partition("_")[0]


def _pairs(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Files that stand in the same place of two splits."""
    for number, one in enumerate(given):
        for other in list(given)[number + 1 :]:
            if one.partition("_")[2] == other.partition("_")[2]:
                yield one, other


def _has_tab(path: str) -> bool:
    """Whether the first line that says anything has two columns."""
    with open_file(path) as file:
        for line in file:
            if line.strip() and not line.lstrip().startswith((b"#", b";;;")):
                return b"\t" in line
    return True  # an empty file is another mistake
