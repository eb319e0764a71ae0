"""Where a smoothed loss turns, beside its formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ablations.measure.checks import SURE, WORDS, Penalty, loss_at

TASK: Any = None  # has no part in it


def read(smoothing: float, over: str = "all") -> dict[str, float | None]:
    config = {"train": {"smoothing": smoothing, "smoothing_over": over}}
    readings = Penalty().take(config, TASK, torch.device("cpu")).readings
    return {reading.metric: reading.value for reading in readings}


def by_hand(p: float, target: float) -> float:
    """−Σ q log p, the label with `target` of q and the others with the rest."""
    return -target * math.log(p) - (1 - target) * math.log((1 - p) / (WORDS - 1))


@pytest.mark.parametrize("smoothing", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("over", ["all", "other"])
def test_the_loss_turns_where_the_probability_is_its_target(smoothing: float, over: str) -> None:
    target = 1 - smoothing + (smoothing / WORDS if over == "all" else 0.0)
    found = read(smoothing, over)
    assert found["turning_probability"] == pytest.approx(target, abs=1e-6)
    rise = by_hand(SURE, target) - by_hand(target, target)
    assert found["rise"] == pytest.approx(rise, rel=1e-6)
    for p in (0.2, 0.9, SURE):
        assert loss_at(p, smoothing, over) == pytest.approx(by_hand(p, target), rel=1e-9)


def test_without_smoothing_it_never_turns() -> None:
    found = read(0.0)
    assert found["turning_probability"] == 1
    assert found["rise"] == pytest.approx(1e-6, rel=1e-3)  # what is still to be gained
