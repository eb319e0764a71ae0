"""Which source files decide a trial's numbers."""

from __future__ import annotations

import json
from functools import cache

from ablations.plan.resolve import model_on_meta
from ablations.tasks.cache import load_task


@cache
def code(frozen_model: str, frozen_task: str, frozen_train: str) -> str:
    """The fingerprint of the code that decides a trial's numbers."""
    from ablations.store.stamp import digest
    from ablations.train.optimiser import OPTIMISER
    from ablations.train.schedule import SCHEDULE
    from model.initialise import INITIAL

    model, train = json.loads(frozen_model), json.loads(frozen_train)
    choices = [(OPTIMISER, train["optimiser"]), (SCHEDULE, train["schedule"])]
    choices += [(INITIAL, model["initial"])] if "initial" in model else []
    parts = [family.part(choice["name"]) for family, choice in choices]
    return digest(model_on_meta(frozen_model, frozen_task), load_task(frozen_task), parts)
