"""Parts and files of the user's own: a mistake in one is one line, before anything trains."""

from __future__ import annotations

import contextlib
import filecmp
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ablations.store.files import open_file
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan.facts import TaskFacts


def is_ours() -> bool:
    """Whether every registered part is this project's: the user has imported none."""
    from ablations.tasks import TASK
    from ablations.train.optimiser import OPTIMISER, SCHEDULE
    from model.build import FAMILIES

    return all(
        part.__module__.startswith(("model.", "ablations."))
        for family in (*FAMILIES, TASK, OPTIMISER, SCHEDULE)
        for part in family.parts.values()
    )


@contextlib.contextmanager
def one_line_of_own_parts(place: str) -> Iterator[None]:
    """Turn whatever a user's part raises into a ConfigError; an error in our own parts goes on."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        if is_ours():
            raise
        said = f"{place}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ConfigError([said.removesuffix(": ")]) from None


def check_declarations(model: Any, task: TaskFacts) -> None:
    """ConfigError where a module does not say how its weights begin, or cannot be run at all.

    Ours are known to run; a user's is run once on the meta device, for its shapes.
    """
    if is_ours():
        return
    import torch

    from model.batch import Batch
    from model.init import logical_parameters

    try:
        for _ in logical_parameters(model):
            pass
    except TypeError as error:
        fix = "add it to its `roles`: a number to start at, 'weight' or 'embedding' to be drawn"
        raise ConfigError([f"model: {error}; {fix}"]) from None
    with one_line_of_own_parts("model"), torch.device("meta"):
        tokens = torch.zeros(1, task.longest, dtype=torch.long)
        source = None if task.source_size is None else tokens
        model(Batch(labels=tokens, inputs=tokens, source=source))


def refused(task: Mapping[str, Any]) -> list[str]:
    """A line for each file that cannot be what was meant."""
    from ablations.tasks import TASK

    names = [name for name in TASK.part(task["name"]).files if isinstance(task.get(name), str)]
    given = {  # files that are there; others are for their readers to complain of
        name: path for name in names if "\0" not in (path := task[name]) and os.path.isfile(path)
    }
    problems = [
        f"task.{other}={given[other]}: the same as task.{one}: what was learned by heart tests "
        "nothing; name another file"
        for one, other in _pairs(given)
        if "train" in (one.partition("_")[0], other.partition("_")[0])  # of `train_source`
        and filecmp.cmp(given[one], given[other], shallow=False)
    ]
    return problems + [
        f"task.{option}={path}:1: no tab in it, though it is called .tsv; write "
        "word<TAB>p h o n e s, or call it .txt if it is WORD  P H O N E S"
        for option, path in given.items()
        if path.lower().endswith(".tsv") and not _has_tab(path)
    ]


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
