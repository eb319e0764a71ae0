"""Arms of equal size: the width at which a variant has as many parameters as the control."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ablations.plan.facts import model_facts
from ablations.plan.resolve import resolve_trial
from ablations.store.identity import freeze

MATCHED = "matched"  # as it is referred to: d_model: "${matched}"
_WIDEST = 1 << 16

Tree = Mapping[str, Any]


def asks_match(value: Any) -> bool:
    """Whether a setting refers to the matched width."""
    if isinstance(value, Mapping):
        return any(map(asks_match, value.values()))
    return value == f"${{{MATCHED}}}"


def matched_width(variant: Callable[[int], Tree], control: Tree) -> int:
    """The even number that brings a variant's parameters nearest to the control's.

    Parameters grow about as the square of the width, so a line through square roots finds it in a
    few steps; ConfigError where one of them is no model.
    """
    target = _size(control)
    low, high = 1, 2  # halves
    under, over = _size(variant(2 * low)), _size(variant(2 * high))
    while high < _WIDEST and over < target:
        low, high, under = high, 4 * high, over
        over = _size(variant(2 * high))
    while high - low > 1:
        roots = [math.sqrt(size) for size in (under, target, over)]
        share = (roots[1] - roots[0]) / (roots[2] - roots[0]) if over > under else 0.5
        middle = min(max(round(low + share * (high - low)), low + 1), high - 1)
        size = _size(variant(2 * middle))
        if size < target:
            low, under = middle, size
        else:
            high, over = middle, size
    return 2 * (low if abs(under - target) <= abs(over - target) else high)


def _size(tree: Tree) -> int:
    config = resolve_trial(tree)
    return model_facts(freeze(config["model"]), freeze(config["task"])).parameters
