"""Arms of equal size: the width at which a variant has as many parameters as the control."""

from __future__ import annotations

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

    More width is more parameters, so halving finds it; ConfigError where one of them is no model.
    """
    target = _size(control)
    low, high = 1, 2  # halves
    while high < _WIDEST and _size(variant(2 * high)) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _size(variant(2 * middle)) < target:
            low = middle
        else:
            high = middle
    return 2 * min((low, high), key=lambda half: abs(_size(variant(2 * half)) - target))


def _size(tree: Tree) -> int:
    config = resolve_trial(tree)
    return model_facts(freeze(config["model"]), freeze(config["task"])).parameters
