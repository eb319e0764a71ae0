"""Tables: every digit in CSV, the meaningful ones elsewhere, each number under its own heading."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import labs
import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from analysis import chapters, tables
from analysis.contrasts import Evidence, gather

HOSTILE = [
    "a|b\nc\\",
    "</td><script>alert(1)</script>",
    r"\input{/etc/passwd} & 50 % #1 $x_1^2$ ~ {}",
    "**bold** _low_ [link](x) `code`",
    "[0pt] --- ^~<>",
]


@pytest.fixture(scope="module")
def written(evidence: Evidence) -> dict[str, Path]:
    return {path.name: path for path in tables.write(evidence)}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


# --- forms


def shown(name: str) -> pd.DataFrame:
    return pd.DataFrame([{"variant": name, "score": "0.3", "note": name}])


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_whatever_a_name_holds_it_stays_one_cell_and_brings_no_tag(name: str) -> None:
    row = tables.markdown(shown(name)).splitlines()[2]
    assert len(re.split(r"(?<!\\)(?:\\\\)*\|", row)) == 5
    assert "<" not in row
    assert not re.search(r"(?<!\\)[*`\[_]", row)
    found = Tags(tables.html_file({name: shown(name)}, name)).found
    assert set(found) - {"p"} == {"h3", "table", "thead", "tr", "th", "tbody", "td"}
    assert found.count("td") == 3
    words = r"text(?:backslash|ascii(?:circum|tilde)|less|greater|bar)|dots"
    bare = re.sub(rf"\\(?:{words}){{}}|\$(?:-|\\(?:times|pm|surd))\$", "", tables.tex(name))
    bare = re.sub(r"\\[{}$&#%_]|-{}|\{\[\}", "", bare)
    assert not set(bare) & set("\\{}$&#%_^~<>|["), "LaTeX finds no command of a name"


def test_a_table_in_latex_takes_no_bracket_of_a_name_for_an_option() -> None:
    text = tables.latex_file({"norm": shown("[0pt] x")}, "")
    assert "\n{[}0pt] x & 0.3 & " in text
    nothing = {"norm": tables.contrasts_view([], [])}
    for form in (tables.markdown_file, tables.latex_file, tables.html_file):
        assert "Nothing yet." in form(nothing, "")


def test_csv_holds_every_digit_and_every_text() -> None:
    labels = ["=cmd|' /C calc'!A0", "plain", 'a "quoted", name\r\n=1+1', ""]
    numbers = [-0.1, 1 / 3, -5e-324, 1.7e308]
    frame = pd.DataFrame({"variant": labels, "number": numbers})
    frame["differences"] = [[-1.5, number] for number in numbers]
    for row, label, number in zip(rows_of(tables.csv(frame)), labels, numbers, strict=True):
        assert (row["variant"], float(row["number"])) == (label, number)
        assert json.loads(row["differences"]) == [-1.5, number]


# --- numbers

METRIC = {"name": "loss", "split": "valid", "better": "lower", "title": "loss"}
SCORES = {"pre": (1.0, 1.1, 1.2), "post": (1.31, 1.42, 1.5), "none": (0.88, 0.95, None)}
SIZES = {"pre": (1000, 20_000), "post": (3000, 40_000), "none": (5000, 60_000)}
TIMES = {"pre": (0.11, 0.2, 0.3), "post": (0.22, 0.39, 0.61), "none": (0.06, 0.1, 0.14)}
REFERENCE, TWIN = [0.1, 0.2, 0.31], [0.102, 0.199, 0.31]
PEAKS = {"pre": 2 * 2**20, "post": 7 * 2**20, "none": 3 * 2**20}
TABLE = {
    "pre (baseline)": {
        **{"parameters": "1 k", "FLOPs/token": "20 k", "loss (nats/token)": "1.10 (0.85 to 1.35)"},
        "n": "3",
    },
    "post": {
        **{"mark": "worse", "parameters": "3 k", "FLOPs/token": "40 k", "n": "3 of 3"},
        "loss (nats/token)": "1.41 (1.17 to 1.65)",
        "difference (95 % interval)": "0.310 (0.285 to 0.335)",
    },
    "none": {
        **{"mark": "few seeds", "parameters": "5 k", "FLOPs/token": "60 k", "n": "2 of 3"},
        "loss (nats/token)": "0.915",
        "difference (95 % interval)": "−0.135",
        "failures": "1 of 3 diverged",
    },
}


@pytest.fixture
def distinct(folder: Any) -> Evidence:
    """No two columns of this folder hold the same numbers: a swap cannot go unnoticed."""
    folder.ablation("norm", list(SCORES), metric=METRIC)
    for label, scores in SCORES.items():
        timed = [
            replace(one, samples=[own], baseline_samples=[reference], baseline_again=[twin])
            for one, own, reference, twin in zip(
                folder.timing(1.0), TIMES[label], REFERENCE, TWIN, strict=True
            )
        ]
        nothing: Any = dict.fromkeys(("samples", "baseline_samples", "baseline_again", "session"))
        bytes_: Any = {"metric": "peak_memory", "unit": "B", "value": float(PEAKS[label])}
        for seed, score in enumerate(scores):
            sizes = {"parameters": SIZES[label][0], "flops_per_token": float(SIZES[label][1])}
            own = [*timed, replace(timed[0], **bytes_, **nothing)] if seed == 0 else []
            status = {} if score else {"status": "diverged"}
            names = {"metric": "loss", "unit": "nats/token"}
            folder.record(label, seed, score, measurements=own, **sizes, **status, **names)
    return gather(folder.root)


def half_width(values: Any) -> float:
    return float(scipy_stats.sem(values) * scipy_stats.t.ppf(0.975, len(values) - 1))


def test_the_table_to_read_has_each_number_under_its_heading(distinct: Evidence) -> None:
    view = tables.contrasts_views(distinct)["norm"].set_index("variant")
    assert list(view.index) == list(TABLE)
    for variant, cells in TABLE.items():
        found = {name: cell for name, cell in view.loc[variant].items() if cell}
        assert found == cells
    speeds = tables.speed_view(distinct.speeds).set_index("variant")
    assert speeds.loc["post", "seconds"] == "0.374"
    assert speeds.loc["post", "time against baseline"].startswith("2")
    assert speeds.loc["none", "processes"] == "3"
    assert speeds.loc["pre", "verdict"] == "baseline against itself"


def test_the_files_have_each_number_under_its_heading(distinct: Evidence) -> None:
    paths = {path.name: path for path in tables.write(distinct)}
    rows = {row["variant"]: row for row in rows_of(paths["contrasts.csv"].read_text())}
    assert list(rows) == ["post", "none"]
    for label, row in rows.items():
        pairs = [(s, c) for s, c in zip(SCORES[label], SCORES["pre"], strict=True) if s]
        own, control = (np.array(side) for side in zip(*pairs, strict=True))
        numbers = {
            **{"parameters": SIZES[label][0], "flops_per_token": SIZES[label][1]},
            **{"baseline_parameters": 1000, "baseline_flops_per_token": 20_000},
            **{"mean": own.mean(), "mean_n": len(own), "n": len(own), "planned": 3},
            **{
                "mean_low": own.mean() - half_width(own),
                "baseline_mean": 1.1,
                "baseline_mean_n": 3,
            },
            **{"mean_high": own.mean() + half_width(own)},
            "baseline_mean_low": 1.1 - half_width(SCORES["pre"]),
            "difference": (own - control).mean(),
            "low": (own - control).mean() - half_width(own - control),
            "high": (own - control).mean() + half_width(own - control),
        }
        assert (row["mark"], row["unit"]) == (TABLE[label]["mark"], "nats/token")
        known = {name: float(row[name]) for name in numbers if row[name]}
        assert known == pytest.approx({name: numbers[name] for name in known})
        assert len(known) == len(numbers) - 4 * (len(own) < 3), "no interval from two"
    for row in rows_of(paths["speed.csv"].read_text()):
        held = {"tokens_per_second": 3 * 16 * 64 / sum(TIMES[row["variant"]])}
        held |= {"peak_memory": PEAKS[row["variant"]], "baseline_peak_memory": PEAKS["pre"]}
        held["ratio"] = math.exp(np.log(np.divide(TIMES[row["variant"]], REFERENCE)).mean())
        assert {name: float(row[name]) for name in held} == pytest.approx(held)
        assert float(row["seconds"]) == pytest.approx(
            math.exp(np.log(TIMES[row["variant"]]).mean())
        )
        assert json.loads(row["coordinates"]) == {"length": 16, "batch": 64}


def test_a_chapter_ends_in_a_table_of_every_variant_with_its_scores_and_costs(
    distinct: Evidence,
) -> None:
    view = chapters.wide_table(distinct, ["norm"]).set_index("variant")
    assert list(view.index) == list(TABLE)
    same = {"difference (95 % interval)": "difference"}
    for variant, cells in TABLE.items():
        held = {same.get(name, name): cell for name, cell in cells.items()}
        held = {name: cell for name, cell in held.items() if name not in ("n", "failures")}
        found = {name: cell for name, cell in view.loc[variant].items() if cell}
        assert held.items() <= found.items()
    learn = {"pre (baseline)": "3 of 3", "post": "3 of 3", "none": "2 of 3"}
    assert view["seeds that learn"].to_dict() == learn
    assert list(view["training tokens/s"]) == ["5.04 k", "2.52 k", "10.2 k"]
    assert list(view["memory"]) == ["2 MiB (1.00 ×)", "7 MiB (3.50 ×)", "3 MiB (1.50 ×)"]
    assert view["step of 16 tokens"].str.contains("×").tolist() == [False, True, True]


def test_speed_is_told_at_the_greatest_length_that_every_variant_reaches(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0])
    for label, lengths in (("pre", (8, 16, 32)), ("post", (8, 16))):
        timed = [
            replace(one, samples=[length / 4])
            for length in lengths
            for one in folder.timing(1.0, blocks=1, length=length, batch=length)
        ]
        folder.record(label, 0, 0.2, measurements=timed)
    view = chapters.wide_table(gather(folder.root), ["norm"])
    assert list(view["training tokens/s"]) == ["64", "64"]  # 16 × 16 in four seconds


# --- curves


def test_a_curve_has_its_times_its_growth_and_where_it_crosses(evidence: Evidence) -> None:
    views = tables.curve_views(evidence, "length")
    assert list(views) == [
        f"length, batch 1, {way}: time of a layer" for way in ("forward", "training")
    ]
    forward, training = (view.set_index("variant") for view in views.values())
    lengths = [f"length {length}" for length in labs.LENGTHS]
    assert list(forward.columns) == [*lengths, "exponent", "changes places at"]
    for length in labs.LENGTHS:
        ratio = labs.seconds("lstm", length) / labs.seconds("attention", length)
        found = re.fullmatch(
            r"[\d.]+ [mµ]?s \(([\d.]+) ×\)", forward.loc["lstm", f"length {length}"]
        )
        assert found is not None
        assert float(found[1]) == pytest.approx(ratio, rel=0.05)
    label, _, length = labs.TIMED_OUT
    assert training.loc[label, f"length {length}"] == "time-out"
    assert forward.loc["lstm", "exponent"].startswith(("0.9", "1"))
    low, high = map(float, forward.loc["lstm", "changes places at"].split(" to "))
    assert 256 < low < high < 512


# --- measurements


def test_the_file_of_readings_holds_every_reading_of_its_records(
    evidence: Evidence, written: dict[str, Path]
) -> None:
    loaded = evidence.loaded
    frame = pd.read_csv(written[tables.MEASUREMENTS], keep_default_na=False, na_values=[""])
    explained = written["measurements.md"].read_text(encoding="utf-8").replace("\\", "")
    assert all(re.search(rf"^\| {name} +\| \S", explained, re.MULTILINE) for name in frame)
    assert len(frame) == len(loaded.measurements)
    left: dict[tuple[str, str], list[Any]] = {}
    for row in frame.to_dict("records"):
        held = left.setdefault(
            (row["experiment"], row["trial"]), list(loaded.records[row["trial"]].measurements)
        )
        measurement = held.pop(0)
        assert (row["metric"], row["unit"]) == (measurement.metric, measurement.unit)
        assert row["value"] == measurement.value or (
            pd.isna(row["value"]) and measurement.value is None
        )
        for name in ("samples", "baseline_samples", "baseline_again", "axes", "values"):
            assert (None if pd.isna(row[name]) else json.loads(row[name])) == getattr(
                measurement, name
            )
        assert {name: row[name] for name in measurement.coordinates} == measurement.coordinates
        entry = loaded.experiments[row["experiment"]]
        assert row["task"] == entry["task"]
        assert row["is_baseline"] == (row["variant"] == entry["baseline"])
    assert not any(left.values()), "a measurement of a record is not in the file"
