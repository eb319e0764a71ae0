"""plan.json: what was asked of a results folder, and which trial answers it.

It is sealed as a record is. This is its only reader, so whoever has a plan has one of this shape:
profile, and for each question by its name its entry with the cells of its table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ablations.store.schema import TRIAL, RecordError
from ablations.store.seal import seal_whole, unseal

ROLES = ("report", "tune", "runner-up")
"""What a cell is for: a number that is reported; a choice among settings; or the number that would
be reported, had the choice gone to a setting that was as good."""
ARMS = ("fixed", "tuned", "tuning", "pacing")


def write_bytes(plan: dict[str, Any]) -> bytes:
    """The bytes of plan.json; a plan that is not shaped like one is never written."""
    _check(plan)
    return seal_whole(plan)


def read_bytes(data: bytes) -> dict[str, Any]:
    """The plan in these bytes; a RecordError says in one line what is wrong with it."""
    plan = unseal(data)
    _check(plan)
    entries = {name: {**_LATER, **entry} for name, entry in plan["ablations"].items()}
    return {"profile": plan["profile"], "ablations": entries}


def _check(plan: Any) -> None:
    _shaped(plan, _PLAN, "the plan")
    for name, entry in plan["ablations"].items():
        _shaped(entry, _ENTRY, f"ablation {name!r}")
        _shaped({**_LATER, **entry}, _LATER_FIELDS, f"ablation {name!r}")
        _shaped(entry["metric"], _METRIC, f"the metric of ablation {name!r}")
        for cell in entry["cells"]:
            _shaped(cell, _CELL, f"a cell of ablation {name!r}")


def _shaped(plain: Any, fields: Mapping[str, Callable[[Any], bool]], what: str) -> None:
    if not isinstance(plain, dict):
        raise RecordError(f"{what[:80]} is no object")
    for name, fits in fields.items():
        if name not in plain:
            raise RecordError(f"{what[:80]} lacks '{name}'")
        if not fits(plain[name]):
            raise RecordError(f"{what[:80]} has a wrong '{name}': {repr(plain[name])[:40]}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_seed(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0


_LATER: dict[str, Any] = {"left_out": [], "grid": {}}
"""What plans had not at first, and what it is there."""
_LATER_FIELDS = {
    "left_out": lambda value: isinstance(value, list) and all(map(_are_texts, value)),
    "grid": lambda value: _is_object(value) and all(isinstance(v, list) for v in value.values()),
}
_PLAN = {"profile": _is_text, "ablations": _is_object}
_ENTRY = {
    "name": _is_text,
    "arms": lambda value: value in ARMS,
    "question": _is_text,
    "task": _is_text,
    "control": _is_text,
    "fixed": _is_text,
    "moves": _is_text,
    "claims": lambda value: isinstance(value, list) and all(map(_is_object, value)),
    "declared": lambda value: _is_seed(value) and value >= 0,
    "tuning": lambda value: isinstance(value, list) and all(map(_is_object, value)),
    "paces": lambda value: isinstance(value, list) and all(map(_is_object, value)),
    "overrides": _are_texts,
    "profile": _is_text,
    "metric": _is_object,
    "metrics": lambda value: _is_object(value) and all(map(_is_object, value.values())),
    "fingerprint": _is_text,
    "seeds_from": _is_seed,
    "seeds": lambda value: isinstance(value, list) and all(map(_is_seed, value)),
    "cells": lambda value: isinstance(value, list),
}
_METRIC = {
    "name": _is_text,
    "split": _is_text,
    "unit": _is_text,
    "label": _is_text,
    "better": lambda value: value in ("lower", "higher"),
}
_CELL = {
    "label": _is_text,
    "seed": _is_seed,
    "across": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    "trial": lambda value: _is_text(value) and TRIAL.fullmatch(value) is not None,
    "settings": _is_text,
    "role": lambda value: value in ROLES,
    "tuned": _is_object,
    "measures": _are_texts,
    "work": _is_size,
}
