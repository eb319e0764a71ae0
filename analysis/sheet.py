"""Frames as CSV that a spreadsheet shows and never runs: full precision, and labels that are text.

A text that begins like a formula (= + - @, tab or line break) has an apostrophe put before it.
"""

from __future__ import annotations

import io
import json
from csv import QUOTE_NONNUMERIC
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv(frame: pd.DataFrame) -> str:
    """A frame with its headings; what has parts is JSON, a number is the very number."""
    flat = frame.copy()
    for name in flat:
        if not is_numeric_dtype(flat[name]):
            cells = [inert(cell) for cell in flat[name].astype(object).tolist()]
            flat[name] = pd.Series(cells, index=flat.index, dtype=object)
    buffer = io.StringIO()
    # Quoted, or a carriage return in a label would begin a line of its own.
    flat.to_csv(buffer, index=False, lineterminator="\n", quoting=QUOTE_NONNUMERIC)
    return buffer.getvalue()


def inert(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: numbers stay numbers, even below zero."""
    if isinstance(cell, list | dict):
        return json.dumps(cell)
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
