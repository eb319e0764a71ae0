"""Which source files decide a trial's numbers: those of its training, and those of each measure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from ablations.facts import model_facts, task_facts
from ablations.store.stamp import Stamp, stamp

# Where training's numbers go and how they are scored, not where they come from.
_ASIDE = ("ablations.store", "ablations.tasks.scoring", "ablations.tasks.cache",
          "ablations.train.checkpoint", "ablations.train.stopping", "model.generate")  # fmt: skip

_JOINT = "model.build"  # which decides how parts are joined, and imports every part, used or not
# How several seeds, or several devices, train as one: what they import is not all used.
_SHARED = ("ablations.train.pack", "ablations.train.ddp")


@cache
def code(frozen_model: str, frozen_task: str, frozen_train: str) -> Stamp:
    """The files that the built model, the task and the trainer come from, and all that they use.

    A part that the trial does not use does not count; one from a user's own module counts with its
    own file.
    """
    from ablations.train.optimizer import OPTIMIZER, SCHEDULE
    from model.init import INIT

    written, train = json.loads(frozen_model), json.loads(frozen_train)
    choices = [(OPTIMIZER, train["optimizer"]), (SCHEDULE, train["schedule"])]
    choices += [(INIT, written["init"])] if "init" in written else []
    roots = set(model_facts(frozen_model, frozen_task).modules)
    roots = {name for name in roots if name.split(".")[0] not in ("torch", "builtins")}
    roots |= {family.component(choice["name"]).__module__ for family, choice in choices}
    roots |= {"ablations.train.loop", "model.init", *task_facts(frozen_task).modules}
    roots = {name for name in roots if not _is_aside(name)}
    return stamp(roots, _is_aside) | stamp([_JOINT, *_SHARED], lambda _: True)


def _is_aside(module: str) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in _ASIDE)


@cache
def measure_code(measure: str, frozen_model: str, frozen_task: str, frozen_train: str) -> Stamp:
    """The files that take a measure, besides those that the trial itself depends on."""
    from ablations.measurement import discover, is_benchmark

    roots = {discover().component(measure).__module__, task_facts(frozen_task).module}
    roots |= {"ablations.benchmarks.session"} if is_benchmark(measure) else set()
    trained_by: Mapping[str, str] = code(frozen_model, frozen_task, frozen_train)
    taken_by = stamp(roots, lambda name: name == _JOINT or name.startswith("ablations.store."))
    return {name: digest for name, digest in taken_by.items() if name not in trained_by}
