"""The slide's worked example, beside a softmax by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ablations.measure import checks
from ablations.measure.checks import PRINTED, Worked, attended

TASK: Any = None  # has no part in it


def by_hand(products: tuple[float, ...], root: float) -> list[float]:
    powers = [math.exp(product / root - max(products) / root) for product in products]
    return [power / sum(powers) for power in powers]


def gaps() -> dict[tuple[Any, Any], float | None]:
    readings = Worked().take({}, TASK, torch.device("cpu")).readings
    return {(r.at["example"], r.at["scores"]): r.value for r in readings}


@pytest.mark.parametrize("example", PRINTED)
@pytest.mark.parametrize(("word", "root"), [("scaled", 8.0), ("raw", 1.0)])
def test_a_gap_is_that_of_a_softmax_by_hand(example: str, word: str, root: float) -> None:
    products, printed = PRINTED[example]
    weights = by_hand(products, root)
    expected = max(abs(one - two) for one, two in zip(weights, printed, strict=True))
    assert gaps()[example, word] == pytest.approx(expected, rel=1e-12)
    scale = {"scaled": "sqrt_d_head", "raw": "none"}[word]
    torch.testing.assert_close(
        attended(products, scale), torch.tensor(weights, dtype=torch.float64)
    )


def test_the_first_example_is_printed_right_and_the_second_is_not() -> None:
    """e⁻² of 16 / 8 and e⁻⁴ of 32 / 8: 0.88 beside 0.87, and 0.98 beside 0.91."""
    found = gaps()
    assert found["first", "scaled"] == pytest.approx(1 / (1 + math.exp(-2)) - 0.87, abs=1e-4)
    assert found["second", "scaled"] == pytest.approx(1 / (1 + math.exp(-4)) - 0.91, abs=1e-4)


def test_weights_that_are_printed_right_have_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    products = (24.0, 0.0)
    right = tuple(by_hand(products, 8.0))
    monkeypatch.setattr(checks, "PRINTED", {"right": (products, right)})
    found = gaps()
    scaled, raw = found["right", "scaled"], found["right", "raw"]
    assert scaled is not None
    assert raw is not None
    assert scaled < 1e-15 < raw
