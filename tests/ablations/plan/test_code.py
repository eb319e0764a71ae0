"""The code of a trial counts what its training is made of, a user's own module too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ablations.plan import code as plan_code
from ablations.plan.resolve import resolve_trial
from ablations.plan.source import FOLDER, read_yaml
from ablations.plan.tree import replaced
from ablations.store import stamp
from ablations.store.identity import freeze
from ablations.train.optimiser import OPTIMISER
from ablations.train.schedule import SCHEDULE

MODULES = {
    "optimiser": """
from ablations.train.optimiser import OPTIMISER, SGD

@OPTIMISER.register("own")
class Own(SGD):
    factor = 1
""",
    "schedule": """
from ablations.train.schedule import SCHEDULE, ConstantRate

@SCHEDULE.register("own")
class Own(ConstantRate):
    factor = 1
""",
}
FAMILIES = {"optimiser": OPTIMISER, "schedule": SCHEDULE}


def forget(*modules: ModuleType) -> None:
    """What a process keeps, since no code changes while it runs."""
    for module in modules:
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


def fingerprint(**train: Any) -> Any:
    """The code that decides the numbers of a control with another training."""
    tree = read_yaml(FOLDER / "base/copy.yaml").values
    for option, value in train.items():
        tree = replaced(tree, f"train.{option}", value)
    config = resolve_trial(tree)
    forget(stamp, plan_code)
    return plan_code.code(*(freeze(config[part]) for part in ("model", "task", "train")))


@pytest.fixture(params=MODULES)
def axis(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A part of the user's own, in a module that lies in the folder of the test."""
    (tmp_path / "own_training.py").write_text(MODULES[request.param])
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("own_training")
    yield request.param
    del FAMILIES[request.param].parts["own"]
    del sys.modules["own_training"]
    forget(stamp, plan_code)


def test_a_change_of_the_users_own_optimiser_or_schedule_is_other_code(
    axis: str, tmp_path: Path
) -> None:
    before, plain = fingerprint(**{axis: {"name": "own"}}), fingerprint()
    assert fingerprint(**{axis: {"name": "own"}}) == before
    (tmp_path / "own_training.py").write_text(MODULES[axis].replace("factor = 1", "factor = 2"))
    assert fingerprint(**{axis: {"name": "own"}}) != before
    assert fingerprint() == plain  # it is not used there
