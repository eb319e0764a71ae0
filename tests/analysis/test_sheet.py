"""A spreadsheet that opens our CSV runs nothing, and finds the numbers as they were."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import sheet, tables
from analysis.evidence import gather

HOSTILE = ("=", "+", "-", "@", "\t", "\r")
ATTACKS = ['=HYPERLINK("http://x","y")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-0.5"]


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@given(
    label=st.builds(str.__add__, st.sampled_from(["", *HOSTILE]), st.text(max_size=20)),
    number=st.floats(allow_nan=False),
    count=st.integers(-(2**53), 2**53),
    differences=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
)
def test_a_text_is_text_and_a_number_is_that_number(
    label: str, number: float, count: int, differences: list[float]
) -> None:
    cells = {"label": label, "number": number, "count": count, "differences": differences}
    frame = pd.DataFrame([{**cells, "mixed": label}, {**cells, "mixed": number}])
    for row in read(sheet.csv(frame)):
        assert not row["label"].startswith(HOSTILE)
        assert row["label"].removeprefix("'") == label.removeprefix("'")
        assert float(row["number"]) == number
        assert row["count"] == str(count)
        assert row["differences"].startswith("[")
    assert float(row["mixed"]) == number


@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_no_cell_of_any_csv_file_starts_like_a_formula(folder: Any, attack: str) -> None:
    metric = {"name": "per", "split": "valid", "better": "lower", "label": attack}
    folder.ablation(
        attack,
        ["control", attack],
        task=attack,
        metric=metric,
        seeds=[0, 1],
        crossings=[{attack: attack}],
    )
    for label, score in (("control", 0.3), (attack, 0.2)):
        for seed in (0, 1):
            timed = folder.timing(0.9, session=attack)
            cell = {"across": {attack: attack}, "unit": attack, "env": {"device": attack}}
            folder.record(label, seed, score + 0.01 * seed, readings=timed, **cell)
    evidence = gather(folder.root)
    numbers = {*tables.with_speed(evidence).select_dtypes("number")}
    numbers |= {*evidence.speeds.select_dtypes("number")}
    for path in tables.write(evidence):
        if path.suffix == ".csv":
            rows = read(path.read_bytes().decode())
            assert f"'{attack}" in {row["label"] for row in rows}
            for name, cell in ((name, cell) for row in rows for name, cell in row.items()):
                assert name in numbers or not cell.startswith(HOSTILE), (path.name, name)
    (row,) = read((folder.root / "tables" / "contrasts.csv").read_bytes().decode())
    assert float(row["difference"]) == evidence.contrasts["difference"].iloc[0] < 0
    assert math.isclose(float(row["difference"]), -0.1)
