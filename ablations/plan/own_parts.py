"""Parts of the user's own: what one of them forgets is told in one line, before anything trains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ablations.plan.memory import is_ours
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan.facts import TaskFacts


@contextlib.contextmanager
def one_line_of_own_parts(place: str) -> Iterator[None]:
    """Whatever a part of the user's own raises is a ConfigError; of one of ours it is our fault."""
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

    Ours are known to run; what the user wrote is run once on no device, for its shapes.
    """
    from model.initialise import logical_parameters

    try:
        for _ in logical_parameters(model):
            pass
    except TypeError as error:
        fix = "add it to its `roles`: a number to start at, 'weight' or 'embedding' to be drawn"
        raise ConfigError([f"model: {error}; {fix}"]) from None
    if is_ours():
        return
    import torch

    from model.batch import Batch

    with one_line_of_own_parts("model"), torch.device("meta"):
        tokens = torch.zeros(1, task.longest, dtype=torch.long)
        source = None if task.source_size is None else tokens
        model(Batch(labels=tokens, inputs=tokens, source=source))


def in_short(error: Exception) -> str:
    words = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
