"""Tasks that are read once, however many trials ask for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ablations.store.frozen import freeze


@cache
def load_task(frozen: str) -> Any:
    from ablations.tasks import TASK

    return TASK.build(json.loads(frozen))


def announce(tasks: Iterable[Mapping[str, Any]]) -> None:
    """Let processes that this one starts know which tasks their jobs will ask for."""
    os.environ[_ANNOUNCED] = json.dumps(sorted({freeze(task) for task in tasks}))


def announced() -> list[str]:
    return json.loads(os.environ.get(_ANNOUNCED, "[]"))


_ANNOUNCED = "ABLATIONS_TASKS"
