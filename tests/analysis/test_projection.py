"""The formula of costs: found again where it made the times, and honest where it did not."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.projection import ACCELERATORS, at_length, fitted, projection, view

PEAK, BANDWIDTH, LATENCY = 3e10, 1e10, 4e-6
COUNTED = (64, 128, 256)
TIMED = (32, 128, 512, 2048)


def costs(label: str, width: int, n: float) -> tuple[float, float, float]:
    """Work, bytes and steps of a forward pass, as they grow in attention and in a recurrence."""
    if label == "attention":
        return 4 * n * width**2 + 4 * n**2 * width, 8.0 * n**2 + 40 * n * width, 8.0
    return 16 * n * width**2, 160.0 * n * width, 7.0 * n


def made(spoilt: float = 0.0) -> Any:
    """What a folder would hold if the formula were true; `spoilt` adds a cube of the length."""
    readings, speeds, records = [], [], {}
    for label in ("attention", "lstm"):
        for width in (64, 128, 256):
            trial = f"{label}{width}"
            records[trial] = SimpleNamespace(config={"model": {"d_model": width}})
            for n in COUNTED:
                work, moved, steps = costs(label, width, n)
                told = {"mixing_work": work - 1, "projection_work": 1.0}
                told |= {"moved_bytes": moved, "dependent_steps": steps}
                for metric, value in told.items():
                    place = {"trial": trial, "metric": metric, "length": n, "at": {"length": n}}
                    readings.append({**place, "value": value})
            for n in TIMED:
                work, moved, steps = costs(label, width, n)
                seconds = 3 * work / PEAK + 3 * moved / BANDWIDTH + 2 * steps * LATENCY
                seconds += spoilt * n**3
                place = {"length": n, "batch": 1, "pass": "training"}
                row = {"trial": trial, "label": label, "metric": "layer_time", "place": place}
                speeds.append({**row, "seconds": seconds})
    loaded = SimpleNamespace(readings=pd.DataFrame(readings), records=records)
    return SimpleNamespace(loaded=loaded, speeds=pd.DataFrame(speeds))


def test_a_machine_that_obeys_the_formula_is_found_again() -> None:
    found = projection(made())
    assert found is not None
    assert found.here.peak[0] == pytest.approx(PEAK, rel=0.05)
    assert found.here.latency[0] == pytest.approx(LATENCY, rel=0.05)
    assert found.error < 0.1
    assert found.is_good


def test_the_longest_third_and_the_largest_width_are_held_back() -> None:
    found = projection(made())
    assert found is not None
    of_each = len(TIMED)
    fitted_lengths = 3  # 32, 128 and 512 of four
    assert found.fitted == 2 * 2 * fitted_lengths
    assert found.held_back == 2 * 3 * of_each - found.fitted


def test_a_machine_that_does_not_obey_is_called_so() -> None:
    found = projection(made(spoilt=1e-7))
    assert found is not None
    assert found.error > 0.3
    assert not found.is_good


def test_nothing_is_projected_from_nothing() -> None:
    whole = made()
    assert projection(SimpleNamespace(loaded=whole.loaded, speeds=whole.speeds.iloc[:0])) is None


def test_the_band_of_a_device_is_what_its_two_ends_give() -> None:
    found = projection(made())
    assert found is not None
    device = ACCELERATORS[0]
    rows = found.rows[(found.rows["device"] == device.name) & (found.rows["length"] == 128)]
    (row,) = rows.to_dict("records")

    def seconds(label: str, end: int) -> float:
        work, moved, steps = costs(label, 256, 128)
        whole = 3 * work / device.peak[end] + 3 * moved / device.bandwidth[end]
        return whole + 2 * steps * device.latency[end]

    ratios = sorted(seconds("lstm", end) / seconds("attention", end) for end in (0, 1))
    assert (row["of"], row["than"]) == ("lstm", "attention")
    assert [row["low"], row["high"]] == pytest.approx(ratios, rel=0.02)
    assert list(view(found)["device (projected)"]) == [
        "this machine",
        "P100",
        "V100",
        "A100",
        "H100",
    ]


def test_counts_go_on_as_they_grew() -> None:
    def cost(n: float) -> float:
        return 3.0 * n**2 + 50 * n + 7

    counted = {float(n): cost(n) for n in COUNTED}
    found = [at_length(counted, n) for n in (16, 100, 4096)]
    assert found == pytest.approx([cost(n) for n in (16, 100, 4096)])
    assert at_length({64: 8.0}, 1000) == 8.0


def test_no_cost_is_negative() -> None:
    features = np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [3.0, 1.0, 1.0]])
    found = fitted(features, np.array([3.0, 2.0, 1.0]))
    assert (found >= 0).all()
    assert math.isfinite(found.sum())
