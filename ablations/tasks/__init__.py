"""Tasks: data, batches and scores. A module in this package registers one or more of them."""

from __future__ import annotations

import importlib
import pkgutil

from ablations.tasks.task import TASK, Metric, Task

__all__ = ["TASK", "Metric", "Task"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
