"""Every reading as one tidy file, a reading a row, and the dictionary that explains its columns."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.load import READING, Loaded
from analysis.sheet import csv
from analysis.tables.forms import markdown

NAME = "readings.csv.gz"


@dataclass(frozen=True)
class Column:
    """What a column means, in which unit, of which type."""

    meaning: str
    unit: str = ""
    type: str = "text"


COLUMNS = {
    "ablation": Column("the question's table, as the plan names it"),
    "label": Column("the variant"),
    "across": Column("the levels of crossed factors, such as depth=2; empty where none is"),
    "is_control": Column(
        "whether this is the variant that the others are compared with", "", "0/1"
    ),
    "task": Column("where the data come from"),
    "seed": Column("the seed of first weights and batches", "", "integer"),
    "trial": Column("the trial; tables that share it repeat its rows"),
    "settings": Column("digest of all that decides its numbers but the seed"),
    "status": Column("how its training ended: ok, diverged, stuck, oom, error, timeout or killed"),
    "measure": Column("what took the reading; training is the loop itself"),
    "metric": Column("what was measured"),
    "split": Column("the part of the data: train, valid or test; empty where no data are read"),
    "unit": Column("the unit of value, samples or values"),
    "value": Column(
        "the number; empty where an array stands for it, or a reason", "see unit", "number"
    ),
    "reason": Column("why there is no value"),
    "session": Column("the timing session and, after the point, its process"),
    "against": Column("the trial whose times are in reference"),
    "samples": Column("one time for each block", "see unit", "JSON list of numbers"),
    "reference": Column(
        "the reference's times in the same blocks", "see unit", "JSON list of numbers"
    ),
    "twin": Column(
        "a second copy of the reference in the same blocks", "see unit", "JSON list of numbers"
    ),
    "axes": Column("of values, from the outermost in: name and places", "", "JSON object of lists"),
    "values": Column("a small array", "see unit", "JSON nested lists of numbers"),
    "step": Column("training steps done", "steps", "number"),
}
"""The coordinates of a reading follow, a column each."""


def tidy(loaded: Loaded) -> pd.DataFrame:
    """One row for each reading of each cell of the plan that the analysis uses."""
    frame = loaded.readings
    entries = loaded.ablations
    control = {name: entry["control"] for name, entry in entries.items()}
    task = {name: entry["task"] for name, entry in entries.items()}
    added = frame.drop(columns="at").assign(
        is_control=(frame["label"] == frame["ablation"].map(control)).astype(int),
        task=frame["ablation"].map(task),
    )
    return added[[*COLUMNS, *coordinates(loaded)]]


def coordinates(loaded: Loaded) -> list[str]:
    """Where readings were taken, besides the step: what each measure says of its own."""
    return sorted(set(loaded.readings.columns) - set(READING))


def files(loaded: Loaded) -> dict[str, str | bytes]:
    """The file and its dictionary by name; the same readings give the same bytes."""
    text = csv(tidy(loaded))
    packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return {NAME: packed, "readings.md": dictionary(loaded)}


def dictionary(loaded: Loaded) -> str:
    """What each column and each metric of the file means."""
    frame = loaded.readings
    columns = [_line(name, column) for name, column in COLUMNS.items()]
    columns += [_line(name, _coordinate(frame, name)) for name in coordinates(loaded)]
    return "\n".join(
        [
            f"**{NAME}**: a row for each of {len(frame):,} readings. `pandas.read_csv` reads it as "
            "it is. Readings that other code has taken than the rest of their table are left out, "
            "as are trials that only chose among settings. A text that begins like a formula has "
            "an apostrophe before it.\n",
            "**Columns**\n",
            markdown(pd.DataFrame(columns)),
            "**Metrics**\n",
            markdown(pd.DataFrame(_metrics(loaded))),
        ]
    )


def _line(name: str, column: Column) -> dict[str, str]:
    return {"column": name, "meaning": column.meaning, "unit": column.unit, "type": column.type}


def _coordinate(frame: pd.DataFrame, name: str) -> Column:
    """A coordinate is explained by who uses it, and where."""
    held = frame[frame[name].notna()]
    values = held[name]
    numbers = [value for value in values if not isinstance(value, str)]
    texts = sorted({value for value in values if isinstance(value, str)})
    told = [f"{min(numbers):g} to {max(numbers):g}"] if numbers else []
    told += [_some(texts)] if texts else []
    kind = " or ".join(["number"] * bool(numbers) + ["text"] * bool(texts))
    used = _some(sorted(set(held["measure"])))
    return Column(f"coordinate of {used}: {'; '.join(told)}", "", kind)


def _some(words: Iterable[str], most: int = 8) -> str:
    found = list(words)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _metrics(loaded: Loaded) -> list[dict[str, str]]:
    frame = loaded.readings
    known: dict[str, Any] = {}
    for entry in loaded.ablations.values():
        known |= {entry["metric"]["name"]: entry["metric"], **entry["metrics"]}
    kinds = Counter(zip(frame["metric"], frame["measure"], frame["unit"], strict=True))
    return [
        {
            "metric": metric,
            "taken by": measure,
            "unit": unit,
            "meaning": str(known.get(metric, {}).get("label", "")),
            "better": str(known.get(metric, {}).get("better", "")),
            "readings": str(n),
        }
        for (metric, measure, unit), n in sorted(kinds.items())
    ]
