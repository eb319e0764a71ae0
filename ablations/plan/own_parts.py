"""Parts of the user's own: a mistake in one is reported in one line, before anything trains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
        raise ConfigError([f"{place}: {in_short(error)}"]) from None


def check_declarations(model: Any, task: TaskFacts) -> None:
    """ConfigError where a module does not say how its weights begin, or cannot be run at all.

    Ours are known to run; a user's is run once on the meta device, for its shapes.
    """
    if is_ours():
        return
    import torch

    from model.batch import Batch
    from model.initialise import logical_parameters

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


def in_short(error: Exception) -> str:
    words = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
