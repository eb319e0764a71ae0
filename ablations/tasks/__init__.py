"""Where data and scores come from: one task a module, found by being here."""

from __future__ import annotations

import importlib
import pkgutil

from ablations.tasks.task import TASK, Metric, Task

__all__ = ["TASK", "Metric", "Task"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
