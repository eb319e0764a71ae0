"""Every measurement as one tidy file, a measurement a row, and what its columns mean."""

from __future__ import annotations

import gzip
from typing import Any

import pandas as pd

from analysis.load import Loaded

NAME = "readings.csv.gz"
COLUMNS = {
    "ablation": ("the question's table, as the plan names it", "", "text"),
    "label": ("the variant", "", "text"),
    "across": ("the levels of crossed factors, such as depth=2; empty where none is", "", "text"),
    "is_control": ("whether this is the variant that others are compared with", "", "0/1"),
    "task": ("where the data come from", "", "text"),
    "seed": ("the seed of first weights and batches", "", "integer"),
    "trial": ("the trial; tables that share it repeat its rows", "", "text"),
    "settings": ("digest of all that decides its numbers but the seed", "", "text"),
    "status": ("how it ended: ok, diverged, stuck, oom, error, timeout or killed", "", "text"),
    "measure": ("what took the reading; training is the loop itself", "", "text"),
    "metric": ("what was measured", "", "text"),
    "split": ("the part of the data: train, valid or test; empty where none is read", "", "text"),
    "unit": ("the unit of value, samples or values", "", "text"),
    "value": ("the number; empty where there is an array or a reason", "see unit", "number"),
    "reason": ("why there is no value", "", "text"),
    "session": ("the timing session and, after the point, its process", "", "text"),
    "against": ("the trial whose times are in reference", "", "text"),
    "samples": ("one time for each block", "see unit", "JSON list of numbers"),
    "reference": ("the reference's times in the same blocks", "see unit", "JSON list of numbers"),
    "twin": ("a second copy of the reference, likewise", "see unit", "JSON list of numbers"),
    "axes": ("of values, from the outermost in: name and places", "", "JSON object of lists"),
    "values": ("a small array", "see unit", "JSON nested lists of numbers"),
    "step": ("training steps done", "steps", "number"),
}
"""Column → meaning, unit, type. The coordinates of a reading follow, a column each."""


def tidy(loaded: Loaded) -> pd.DataFrame:
    """One row for each reading of each cell of the plan that the analysis uses."""
    frame = loaded.readings
    entry = frame["ablation"].map(loaded.ablations)
    is_control = (frame["label"] == entry.map(lambda each: each["control"])).astype(int)
    added = frame.assign(is_control=is_control, task=entry.map(lambda each: each["task"]))
    return added[[*COLUMNS, *coordinates(loaded)]]


def coordinates(loaded: Loaded) -> list[str]:
    """Where readings were taken, besides the step: what each measure says of its own."""
    return sorted(set(loaded.readings.columns) - set(COLUMNS) - {"at", "place"})


def packed(text: str) -> bytes:
    """Equal readings give equal bytes: no date is in them."""
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def explained(loaded: Loaded) -> list[str | pd.DataFrame]:
    """What each column and each metric of the file means, as sentences and tables."""
    frame = loaded.readings
    columns = [(name, *told) for name, told in COLUMNS.items()]
    columns += [(name, *_coordinate(frame, name)) for name in coordinates(loaded)]
    return [
        f"**{NAME}**: a row for each of {len(frame):,} readings. `pandas.read_csv` reads it as it "
        "is. Readings that other code has taken than the rest of their table are left out, as are "
        "trials that only chose among settings. A text that begins like a formula has an "
        "apostrophe before it.\n",
        "**Columns**\n",
        pd.DataFrame(columns, columns=["column", "meaning", "unit", "type"]),
        "**Metrics**\n",
        _metrics(loaded),
    ]


def _coordinate(frame: pd.DataFrame, name: str) -> tuple[str, str, str]:
    """A coordinate is explained by who uses it, and where."""
    held = frame[frame[name].notna()]
    numbers = [value for value in held[name] if not isinstance(value, str)]
    texts = sorted({value for value in held[name] if isinstance(value, str)})
    places = [f"{min(numbers):g} to {max(numbers):g}"] if numbers else []
    places += [_some(texts)] if texts else []
    kind = " or ".join(["number"] * bool(numbers) + ["text"] * bool(texts))
    return f"coordinate of {_some(sorted(set(held['measure'])))}: {'; '.join(places)}", "", kind


def _some(words: list[str], most: int = 8) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _metrics(loaded: Loaded) -> pd.DataFrame:
    known: dict[str, Any] = {}
    for entry in loaded.ablations.values():
        known |= {entry["metric"]["name"]: entry["metric"], **entry["metrics"]}
    keys = ["metric", "measure", "unit"]
    counts = loaded.readings.groupby(keys).size().rename("readings").reset_index()
    for name in ("label", "better"):
        counts[name] = [str(known.get(metric, {}).get(name) or "") for metric in counts["metric"]]
    counts = counts.rename(columns={"measure": "taken by", "label": "meaning"})
    return counts[["metric", "taken by", "unit", "meaning", "better", "readings"]]
