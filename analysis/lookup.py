"""Where in a folder's frames each arm stands, looked up once: no question scans all readings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from analysis.load import WAITING, Loaded

ArmKey = tuple[str, str, str]
"""An ablation, a label and its crossing."""


class Scored(NamedTuple):
    """One reading of a trial that has ended."""

    row: int
    """Its place in the frame of readings."""
    seed: Any
    status: str
    """How its trial ended."""
    split: str | None
    step: float
    """Infinite where it was taken at no step: after the last."""
    value: float | None


@dataclass(frozen=True)
class ArmRows:
    """The rows of each arm: how its seeds ended, and its scores by metric and coordinates."""

    ended: dict[ArmKey, dict[Any, str]]
    trials: dict[ArmKey, dict[Any, str]]
    scores: dict[tuple[str, str], dict[ArmKey, dict[frozenset[tuple[str, Any]], list[Scored]]]]
    """By ablation and metric; coordinates without the step."""


def lookup(loaded: Loaded) -> ArmRows:
    """That of a folder, made at the first question."""
    if "lookup" not in loaded.kept:
        loaded.kept["lookup"] = _look_up(loaded)
    found: ArmRows = loaded.kept["lookup"]
    return found


def place(at: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    """Coordinates as the lookup has them."""
    if not at or (len(at) == 1 and "step" in at):  # most of them
        return NOWHERE
    return frozenset((name, value) for name, value in at.items() if name != "step")


NOWHERE: frozenset[tuple[str, Any]] = frozenset()


def _look_up(loaded: Loaded) -> ArmRows:
    ended: dict[ArmKey, dict[Any, str]] = {}
    trials: dict[ArmKey, dict[Any, str]] = {}
    cells = loaded.cells
    names = ["ablation", "label", "across", "seed", "outcome", "trial"]
    for ablation, label, across, seed, outcome, trial in _rows(cells, names):
        arm = (ablation, label, across)
        ended.setdefault(arm, {})
        trials.setdefault(arm, {})[seed] = trial
        if outcome != WAITING:
            ended[arm][seed] = outcome
    return ArmRows(ended, trials, _scores(loaded.readings))


def _scores(frame: pd.DataFrame) -> dict[tuple[str, str], dict[ArmKey, Any]]:
    found: dict[tuple[str, str], dict[ArmKey, Any]] = {}
    names = ["ablation", "label", "across", "metric", "at"]
    names += ["seed", "status", "split", "step", "value"]
    for row, (ablation, label, across, metric, at, *read) in zip(
        frame.index.tolist(), _rows(frame, names), strict=True
    ):
        seed, status, split, step, value = read
        held = Scored(
            row,
            seed,
            status,
            split if isinstance(split, str) else None,
            math.inf if _is_missing(step) else float(step),
            None if _is_missing(value) else float(value),
        )
        by_arm = found.setdefault((ablation, metric), {})
        by_place = by_arm.setdefault((ablation, label, across), {})
        by_place.setdefault(place(at), []).append(held)
    return found


def _rows(frame: pd.DataFrame, names: list[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(frame[name].tolist() for name in names), strict=True)


def _is_missing(number: Any) -> bool:
    return number is None or number != number
