"""Readings as a frame: a row each, a column for each of their fields and coordinates."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ablations.store.record import Reading
from analysis.names import printable

CELL = ["ablation", "label", "across", "seed", "trial"]
READING = [
    *CELL,
    "status",
    *("settings", "measure", "metric", "split", "unit", "value", "reason", "session", "against"),
    *("samples", "reference", "twin"),
    *("axes", "values", "at", "step"),
]
KNOWN = frozenset(READING)
PLAIN = [
    *("measure", "value", "split", "session", "against", "samples", "reference", "twin"),
    *("axes", "values", "at"),
]
"""Fields of a reading that are columns as they are."""


class CellReadings(NamedTuple):
    """What was read of one cell."""

    cell: dict[str, Any]
    status: str
    readings: list[Reading]


def lay_out(taken: list[CellReadings]) -> pd.DataFrame:
    """A row a reading; filled column by column, for there may be millions."""
    readings = [reading for each in taken for reading in each.readings]
    columns: dict[str, Any] = {}
    for name in PLAIN:
        columns[name] = [getattr(reading, name) for reading in readings]
    shown: dict[str | None, str | None] = _Printable()
    for name in ("metric", "unit", "reason"):
        columns[name] = [shown[getattr(reading, name)] for reading in readings]
    columns["step"] = [at.get("step") for at in columns["at"]]
    coordinates = _coordinates(columns["at"])
    columns |= coordinates
    cells = pd.DataFrame(
        [{**each.cell, "status": each.status} for each in taken],
        columns=[*CELL, "settings", "status"],
    )
    repeated = np.repeat(np.arange(len(taken)), [len(each.readings) for each in taken])
    whose = cells.take(repeated).reset_index(drop=True)
    read = pd.DataFrame(columns)
    return pd.concat([whose, read], axis=1)[[*READING, *coordinates]]


def _coordinates(places: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """A column for each coordinate but the step, by name; few readings have any."""
    found: dict[str, list[Any]] = {}
    for row, at in enumerate(places):
        if at and (len(at) > 1 or "step" not in at):
            for name, value in at.items():
                if name not in KNOWN:
                    column = found.get(name)
                    if column is None:
                        column = found[name] = [math.nan] * len(places)
                    column[row] = value
    return dict(sorted(found.items()))


class _Printable(dict[str | None, str | None]):
    """Each text made printable once."""

    def __missing__(self, text: str | None) -> str | None:
        self[text] = printable(text)
        return self[text]
