"""Each cell of a table along a length is what was timed there, in every form."""

from __future__ import annotations

import math
import re
from html import unescape
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from ablations.store.record import Reading
from analysis import tables
from analysis.evidence import Evidence, gather

LENGTHS = (64, 128, 256, 512)
WOBBLE = (math.exp(0.004), 1.0, math.exp(-0.004))  # of three processes; their geometric mean is 1
METRIC = {"name": "layer_time", "split": "test", "better": "lower", "label": "time of a layer"}
TITLE = "length, batch 1, training: time of a layer"


def seconds(label: str, length: int) -> float:
    """The control grows with the length, the variant with its square; they meet at 128."""
    return 1e-3 * length / 64 if label == "lstm" else 0.5e-3 * (length / 64) ** 2


def timed(label: str, length: int) -> list[Reading]:
    wobble = WOBBLE if label == "attention" else (1.0, 1.0, 1.0)
    at = {"length": length, "batch": 1, "pass": "training"}
    return [
        Reading(
            "layer_time",
            "s",
            at=at,
            session=f"s1.{process}",
            samples=[seconds(label, length) * own * noise, seconds(label, length) * own / noise],
            reference=[seconds("lstm", length) * noise, seconds("lstm", length) / noise],
            twin=[seconds("lstm", length) * noise, seconds("lstm", length) / noise],
        )
        for process, (own, noise) in enumerate(zip(wobble, (1.01, 1.02, 1.03), strict=True))
    ]


@pytest.fixture
def evidence(folder: Any) -> Evidence:
    known = {"layer_time": {**METRIC, "unit": "s", "repeats": "processes"}}
    folder.ablation("length", ["lstm", "attention"], seeds=[0], metric=METRIC, metrics=known)
    for label in ("lstm", "attention"):
        readings = [each for length in LENGTHS for each in timed(label, length)]
        if label == "attention":
            slow = {"length": 1024, "batch": 1, "pass": "training"}
            reason = "time-out: a call takes 2.1 s"
            readings.append(Reading("layer_time", "s", at=slow, session="s1.0", reason=reason))
        folder.record(label, 0, readings=readings, metric="layer_time", unit="s")
    return gather(folder.root)


def test_each_length_has_its_time_and_its_ratio(evidence: Evidence) -> None:
    (title,) = tables.curve_views(evidence)
    view = tables.curve_views(evidence)[title].set_index("variant")
    assert title == TITLE
    assert list(view.columns) == [
        *(f"length {length}" for length in (*LENGTHS, 1024)),
        "exponent",
        "changes places at",
    ]
    for label in view.index:
        for length in LENGTHS:
            cell = view.loc[label, f"length {length}"]
            time, unit, ratio = re.findall(r"[\d.]+|[mµ]?s\b", cell)
            own = float(time) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
            assert own == pytest.approx(seconds(label, length), rel=0.01)
            expected = seconds(label, length) / seconds("lstm", length)
            assert float(ratio) == pytest.approx(expected, abs=0.005)
    assert view.loc["attention", "length 1024"] == "time-out"
    assert view.loc["lstm", "length 1024"] == ""


def test_the_exponent_is_that_of_the_longer_half(evidence: Evidence) -> None:
    view = tables.curve_views(evidence)[TITLE].set_index("variant")
    upper = np.array([256, 512])
    slopes = [
        np.polyfit(np.log(upper), np.log([seconds("attention", x) * own for x in upper]), 1)[0]
        for own in WOBBLE
    ]
    assert scipy_stats.tmean(slopes) == pytest.approx(2.0)
    assert view.loc["attention", "exponent"].startswith("2")
    assert view.loc["lstm", "exponent"].startswith("1")
    told = {"exponent": 2.0, "low": 1.8, "high": 2.3}
    assert tables.times._exponent_cell(told) == "2.00 (1.80 to 2.30)"


def test_they_change_places_where_their_times_meet(evidence: Evidence) -> None:
    view = tables.curve_views(evidence)[TITLE].set_index("variant")
    low, high = map(float, view.loc["attention", "changes places at"].split(" to "))
    assert 64 < low <= 128 <= high < 256
    assert view.loc["lstm", "changes places at"] == ""


def test_every_form_of_the_file_has_the_same_cells(evidence: Evidence) -> None:
    paths = {
        path.name: path.read_text(encoding="utf-8")
        for path in tables.write(evidence)
        if path.name.startswith("speed.")
    }
    view = tables.curve_views(evidence)[TITLE]
    (row,) = [line for line in paths["speed.md"].splitlines() if line.startswith("| attention |")]
    assert [cell.strip() for cell in row.strip("|").split("|")] == shown(view)
    (row,) = [line for line in paths["speed.tex"].splitlines() if line.startswith("attention &")]
    told = row.removesuffix(r" \\").replace(r"$\times$", "×").replace(r"$\mu$", "µ")
    assert told.split(" & ") == shown(view)
    (row,) = re.findall(r'<tr><th scope="row">attention</th>.*?</tr>', paths["speed.html"])
    assert [unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] == shown(view)


def shown(view: pd.DataFrame) -> list[str]:
    return [str(cell) for cell in view[view["variant"] == "attention"].iloc[0]]
