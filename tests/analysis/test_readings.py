"""Every reading stands in one tidy file, and every column of it is explained."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.load import Loaded, load
from analysis.tables import readings


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, sweep: Callable[[Path], Any]) -> Loaded:
    return load(sweep(tmp_path_factory.mktemp("sweep")).root)


@pytest.fixture(scope="module")
def written(loaded: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name, content in readings.files(loaded).items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return folder


def test_each_row_is_a_reading_of_its_record(loaded: Loaded, written: Path) -> None:
    frame = pd.read_csv(written / readings.NAME, keep_default_na=False, na_values=[""])
    assert len(frame) == len(loaded.readings)
    left: dict[tuple[str, str], list[Any]] = {}
    for row in frame.to_dict("records"):
        held = left.setdefault(
            (row["ablation"], row["trial"]), list(loaded.records[row["trial"]].readings)
        )
        reading = held.pop(0)
        assert (row["metric"], row["unit"]) == (reading.metric, reading.unit)
        assert row["value"] == reading.value or (pd.isna(row["value"]) and reading.value is None)
        for name in ("samples", "reference", "twin", "axes", "values"):
            told = None if pd.isna(row[name]) else json.loads(row[name])
            assert told == getattr(reading, name)
        coordinates = {name: row[name] for name in reading.at}
        assert coordinates == reading.at
        entry = loaded.ablations[row["ablation"]]
        assert row["task"] == entry["task"]
        assert row["is_control"] == (row["label"] == entry["control"])
    assert not any(left.values()), "a reading of a record is not in the file"


def test_the_same_readings_give_the_same_bytes(loaded: Loaded, written: Path) -> None:
    again = readings.files(load(loaded.root))
    assert again[readings.NAME] == (written / readings.NAME).read_bytes()
    assert again["readings.md"] == (written / "readings.md").read_text(encoding="utf-8")


def test_the_dictionary_explains_every_column_and_metric(loaded: Loaded, written: Path) -> None:
    with gzip.open(written / readings.NAME, "rt", encoding="utf-8") as file:
        columns = re.findall(r'"([^"]*)"', file.readline())
    text = (written / "readings.md").read_text(encoding="utf-8").replace("\\", "")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    explained = {line[0]: line for line in lines if len(line) == 4}
    assert list(columns) == [*readings.COLUMNS, *readings.coordinates(loaded)]
    for name in columns:
        _, meaning, _, kind = explained[name]
        assert meaning
        assert kind
    counted = [int(line[5]) for line in lines if len(line) == 6 and line[5].isdigit()]
    assert sum(counted) == len(loaded.readings)


def test_types_are_what_the_dictionary_says(loaded: Loaded, written: Path) -> None:
    frame = pd.read_csv(written / readings.NAME, keep_default_na=False, na_values=[""])
    for name, column in readings.COLUMNS.items():
        if column.type in ("number", "integer", "0/1"):
            assert pd.api.types.is_numeric_dtype(frame[name]), name
