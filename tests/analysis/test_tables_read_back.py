"""Each number stands under its own heading: in CSV, Markdown, LaTeX and HTML, and on the page.

No two columns of this folder hold the same numbers, so that a swap cannot go unnoticed.
"""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from analysis import report, tables
from analysis.evidence import gather
from analysis.tables.contrasts import contrasts_view

METRIC = {"name": "loss", "split": "valid", "better": "lower", "label": "loss"}
SCORES = {"pre": (1.0, 1.1, 1.2), "post": (1.31, 1.42, 1.5), "none": (0.88, 0.95, None)}
SIZES = {"pre": (1000, 20_000), "post": (3000, 40_000), "none": (5000, 60_000)}
TIMES = {"pre": (0.11, 0.2, 0.3), "post": (0.22, 0.39, 0.61), "none": (0.06, 0.1, 0.14)}
REFERENCE, TWIN = [0.1, 0.2, 0.31], [0.102, 0.199, 0.31]
PEAKS = {"pre": 2 * 2**20, "post": 7 * 2**20, "none": 3 * 2**20}

TABLE = {
    "pre (control)": {
        "parameters": "1 k",
        "FLOPs/token": "20 k",
        "loss (nats/token)": "1.10 (0.85 to 1.35) ★",
        "difference (95 % interval)": "",
        "p (Holm)": "",
        "n": "3",
        "failures": "",
        "could show": "",
        "step time": "",
        "tokens/s": "5.04 k",
        "peak memory": "2 MiB",
        "verdict": "",
    },
    "post": {
        "parameters": "3 k",
        "FLOPs/token": "40 k",
        "loss (nats/token)": "1.41 (1.17 to 1.65)",
        "difference (95 % interval)": "0.310 (0.285 to 0.335)",
        "p (Holm)": "0.00069",
        "n": "3 of 3",
        "failures": "",
        "could show": "0.05",
        "step time": "2.0 × (1.7 to 2.4)",
        "tokens/s": "2.52 k",
        "peak memory": "7 MiB (3.50 ×)",
        "verdict": "worse",
    },
    "none": {
        "parameters": "5 k",
        "FLOPs/token": "60 k",
        "loss (nats/token)": "0.9 (0.5 to 1.4)",
        "difference (95 % interval)": "−0.14 (−0.33 to 0.06)",
        "p (Holm)": "0.07",
        "n": "2 of 3",
        "failures": "1 of 3 diverged",
        "could show": "0.5",
        "step time": "0.51 × (0.36 to 0.73)",
        "tokens/s": "10.2 k",
        "peak memory": "3 MiB (1.50 ×)",
        "verdict": "no verdict below n = 3, 1 of 3 diverged",
    },
}
SPEED = {
    "post": {
        "ablation": "norm",
        "at": "batch 64, length 16",
        "timed": "step time",
        "seconds": "0.374",
        "tokens/s": "2.52 k",
        "time against control": "2.0 × (1.7 to 2.4)",
        "noise floor": "± 3.8 %",
        "processes": "3",
        "peak memory": "7 MiB (3.50 ×)",
        "verdict": "slower",
    },
    "none": {
        "ablation": "norm",
        "at": "batch 64, length 16",
        "timed": "step time",
        "seconds": "0.0944",
        "tokens/s": "10.2 k",
        "time against control": "0.51 × (0.36 to 0.73)",
        "noise floor": "± 3.8 %",
        "processes": "3",
        "peak memory": "3 MiB (1.50 ×)",
        "verdict": "faster",
    },
}


@pytest.fixture
def written(folder: Any) -> dict[str, Path]:
    """The files of a report, by name."""
    folder.ablation("norm", list(SCORES), metric=METRIC)
    for label, scores in SCORES.items():
        parameters, flops = SIZES[label]
        timed = [
            replace(one, samples=[own], reference=[reference], twin=[twin])
            for one, own, reference, twin in zip(
                folder.timing(1.0), TIMES[label], REFERENCE, TWIN, strict=True
            )
        ]
        nothing: Any = dict.fromkeys(("samples", "reference", "twin", "session"))
        bytes_: Any = {"metric": "peak_memory", "unit": "B", "value": float(PEAKS[label])}
        peak = replace(timed[0], **bytes_, **nothing)
        for seed, score in enumerate(scores):
            sizes = {"parameters": parameters, "flops_per_token": float(flops)}
            readings = [*timed, peak] if seed == 0 else []
            status = {} if score else {"status": "diverged"}
            names = {"metric": "loss", "unit": "nats/token"}
            folder.record(label, seed, score, readings=readings, **sizes, **status, **names)
    return {path.name: path for path in report.write(gather(folder.root))}


def rows_of_csv(path: Path) -> dict[str, dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return {row["label"]: row for row in csv.DictReader(file)}


def by_variant(table: list[list[str]]) -> dict[str, dict[str, str]]:
    head, *body = table
    rows = [dict(zip(head, cells, strict=True)) for cells in body]
    return {row.pop("variant"): row for row in rows}


def markdown_table(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[unmarked(cell) for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if set(row) != {"---"}]


def unmarked(cell: str) -> str:
    """A cell of Markdown without its bold type; only what has a mark may be bold."""
    bold = re.fullmatch(r"\*\*(.*)\*\* ([★≈])", cell.strip())
    assert bold or "**" not in cell
    return f"{bold[1]} {bold[2]}" if bold else cell.strip().replace("\\", "")


TEX = {r"$\times$": "×", "$-$": "−", r"$\pm$": "±", r"$\star$": "★", r"$\approx$": "≈"}
TEX |= {r"\textless{}": "<", r"\%": "%"}


def latex_table(text: str) -> list[list[str]]:
    """The first table of a file."""
    body = text.partition("\\toprule\n")[2].partition("\\bottomrule")[0]
    lines = [line.removesuffix(r" \\") for line in body.splitlines() if line != r"\midrule"]
    return [[plain_tex(cell) for cell in line.split(" & ")] for line in lines]


def plain_tex(cell: str) -> str:
    for macro, letter in TEX.items():
        cell = cell.replace(macro, letter)
    bold = re.fullmatch(r"\\textbf{(.*)}\\,([★≈])", cell.strip())
    assert bold or "\\" not in cell, cell
    return f"{bold[1]} {bold[2]}" if bold else cell.strip()


def page_tables(text: str) -> list[list[list[str]]]:
    return [
        [
            [plain_html(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        ]
        for table in re.findall(r"<table[^>]*>(.*?)</table>", text, re.DOTALL)
    ]


def plain_html(cell: str) -> str:
    """A cell of HTML without its bold type; only what has a mark may be bold."""
    bold = re.fullmatch(r"<strong>(.*)</strong> ([★≈])", cell)
    assert bold or "<strong>" not in cell, cell
    return unescape(f"{bold[1]} {bold[2]}" if bold else cell)


def test_the_table_to_read_has_each_number_under_its_heading(written: dict[str, Path]) -> None:
    text = written["contrasts.md"].read_text(encoding="utf-8")
    assert by_variant(markdown_table(text)) == TABLE


def test_every_form_has_each_number_under_its_heading(written: dict[str, Path]) -> None:
    contrasts, speed = (
        {
            "md": markdown_table(written[f"{name}.md"].read_text(encoding="utf-8")),
            "tex": latex_table(written[f"{name}.tex"].read_text(encoding="utf-8")),
            "html": page_tables(written[f"{name}.html"].read_text(encoding="utf-8"))[0],
        }
        for name in ("contrasts", "speed")
    )
    assert {form: by_variant(found) for form, found in contrasts.items()} == dict.fromkeys(
        ("md", "tex", "html"), TABLE
    )
    for found in speed.values():
        rows = by_variant(found)
        assert {name: rows[name] for name in SPEED} == SPEED


def test_the_page_has_each_number_under_its_heading(written: dict[str, Path]) -> None:
    """It has the columns that answer; the files have them all."""
    tables = page_tables(written["index.html"].read_text(encoding="utf-8"))
    (quality,) = [table for table in tables if "difference (95 % interval)" in table[0]]
    (speed,) = [table for table in tables if "time against control" in table[0]]
    assert {"verdict", "loss (nats/token)", "n"} <= set(quality[0])
    assert {"verdict", "seconds"} <= set(speed[0])
    for shown, whole in ((quality, TABLE), (speed, SPEED)):
        rows = by_variant(shown)
        for name, expected in whole.items():
            assert rows[name] == {column: expected[column] for column in rows[name]}


def test_the_table_of_times_has_each_number_under_its_heading(written: dict[str, Path]) -> None:
    found = by_variant(markdown_table(written["speed.md"].read_text(encoding="utf-8")))
    assert {name: found[name] for name in SPEED} == SPEED
    assert found["pre"]["verdict"] == "control against itself"


def test_the_file_of_contrasts_has_each_number_under_its_heading(written: dict[str, Path]) -> None:
    rows = rows_of_csv(written["contrasts.csv"])
    assert list(rows) == ["post", "none"]
    for label, row in rows.items():
        pairs = [(s, c) for s, c in zip(SCORES[label], SCORES["pre"], strict=True) if s]
        own, control = (np.array(side) for side in zip(*pairs, strict=True))
        test = scipy_stats.ttest_rel(own, control)
        ends = test.confidence_interval(0.95)
        ratio = np.log(np.divide(TIMES[label], REFERENCE))
        texts = {
            "ablation": "norm",
            "task": "g2p",
            "across": "",
            "name": label,
            "control": "pre",
            "metric": "loss",
            "split": "valid",
            "metric_label": "loss",
            "unit": "nats/token",
            "better": "lower",
            "failures": TABLE[label]["failures"],
            "control_failures": "",
            "word": {"post": "worse", "none": "no verdict below n = 3"}[label],
            "verdict": TABLE[label]["verdict"],
            "step_time_verdict": SPEED[label]["verdict"],
            "question": "norm",
            "arms": "fixed",
            "tuned_to": "{}",
            "control_tuned_to": "{}",
            "standing": "",
            "control_standing": "best",
        }
        numbers = {
            "parameters": SIZES[label][0],
            "flops_per_token": SIZES[label][1],
            "control_parameters": 1000,
            "control_flops_per_token": 20_000,
            "mean": own.mean(),
            "mean_n": len(own),
            "mean_low": own.mean() - half_width(own),
            "mean_high": own.mean() + half_width(own),
            "control_mean": 1.1,
            "control_n": 3,
            "control_low": 1.1 - half_width(SCORES["pre"]),
            "control_high": 1.1 + half_width(SCORES["pre"]),
            "n": len(own),
            "planned": 3,
            "difference": (own - control).mean(),
            "low": ends.low,
            "high": ends.high,
            "sd": (own - control).std(ddof=1),
            "p": test.pvalue,
            "tokens_per_second": 3 * 16 * 64 / sum(TIMES[label]),
            "control_tokens_per_second": 3 * 16 * 64 / sum(TIMES["pre"]),
            "peak_memory": PEAKS[label],
            "control_peak_memory": PEAKS["pre"],
            "fixed_difference": (own - control).mean(),
            "fixed_low": ends.low,
            "fixed_high": ends.high,
            "step_time_ratio": math.exp(ratio.mean()),
            "step_time_low": math.exp(ratio.mean() - half_width(ratio)),
            "step_time_high": math.exp(ratio.mean() + half_width(ratio)),
        }
        assert {name: row[name] for name in texts} == texts
        assert {name: float(row[name]) for name in numbers} == pytest.approx(numbers)


def half_width(values: Any) -> float:
    sd = float(np.std(values, ddof=1))
    return float(scipy_stats.t.ppf(0.975, len(values) - 1)) * sd / math.sqrt(len(values))


def test_the_file_of_times_has_each_number_under_its_heading(written: dict[str, Path]) -> None:
    for label, row in rows_of_csv(written["speed.csv"]).items():
        ratio = np.log(np.divide(TIMES[label], REFERENCE))
        floor = np.log(np.divide(TWIN, REFERENCE))
        own = np.log(TIMES[label])
        numbers = {
            "n": 3,
            "seed": 0,
            "ratio": math.exp(ratio.mean()),
            "low": math.exp(ratio.mean() - half_width(ratio)),
            "high": math.exp(ratio.mean() + half_width(ratio)),
            "floor": math.exp(abs(floor.mean()) + half_width(floor)),
            "seconds": math.exp(own.mean()),
            "seconds_low": math.exp(own.mean() - half_width(own)),
            "seconds_high": math.exp(own.mean() + half_width(own)),
            "peak_memory": PEAKS[label],
            "control_peak_memory": PEAKS["pre"],
            "tokens_per_second": 3 * 16 * 64 / sum(TIMES[label]),
        }
        assert {name: float(row[name]) for name in numbers} == pytest.approx(numbers)
        told = (row["ablation"], row["control"], row["metric"], row["at"], row["session"])
        assert told == ("norm", "pre", "step_time", "batch 64, length 16", "s1")
        assert json.loads(row["place"]) == {"length": 16, "batch": 64}
        assert row["noisy"] == "False"


def test_an_empty_table_says_that_there_is_nothing_yet() -> None:
    assert tables.markdown(contrasts_view([])) == "Nothing yet.\n"
