"""status, trial by trial: which is where, how it ended, what it scored, and how to see the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from small import plan_document

from ablations.commands import main
from ablations.commands.columns import print_columns
from ablations.store.record import Reading, Record
from ablations.store.results import Results

ROOT = Path(__file__).parents[3]
CONFIG = {"model": {"name": "m"}, "task": {}, "train": {}}


def trial(number: int) -> str:
    return f"{number:012x}"


def per(value: float | None, step: int, split: str = "valid", **at: Any) -> Reading:
    reason = None if value is not None else "no answer"
    return Reading("per", "edits/phone", value, split, {"step": step, **at}, reason=reason)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """A question with two variants of two seeds; one label has a comma."""
    results = Results(tmp_path / "out")
    cells = [
        {"trial": trial(2 * n + seed), "label": label, "seed": 200 + seed}
        for n, label in enumerate(("with", "none, causal"))
        for seed in (0, 1)
    ]
    results.write_plan(plan_document({"position": cells}))
    return results


def write(results: Results, number: int, status: str = "ok", **known: Any) -> None:
    results.write(Record(trial(number), status, CONFIG, **{"env": {"code": {}}, **known}))


def told(capsys: pytest.CaptureFixture[str], results: Results, *words: str) -> str:
    assert main(["status", *words, "--results", str(results.root)]) == 0
    return capsys.readouterr().out


def test_each_trial_stands_by_question_variant_and_seed_with_its_outcome_and_score(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    write(results, 0, readings=[per(0.9, 10), per(0.25, 20), per(0.1, 5)])
    write(results, 2, "stuck", reason="no better", readings=[per(1.5, 20)])
    write(results, 3, "error", reason="bad luck", env={"code": {"model/norm.py": "other"}})
    lines = told(capsys, results).partition("\n\n")[2].splitlines()
    assert [line.split() for line in lines] == [
        ["question", "variant", "seed", "trial", "outcome", "score"],
        ["position", "with", "200", trial(0), "ok", "0.25", "edits/phone"],
        ["201", trial(1), "waiting", "—"],
        ["'none,", "causal'", "200", trial(2), "stuck", "1.5", "edits/phone"],
        ["201", trial(3), "error,", "stale", "—"],
    ]
    marks = ["trial", *map(trial, range(4))]
    assert {line.index(word) for line, word in zip(lines, marks, strict=True)} == {
        lines[0].index("trial")
    }


@pytest.mark.parametrize(
    ("readings", "score"),
    [
        ([per(0.3, 20), per(0.2, 20, length=40)], 0.3),  # elsewhere is another measurement
        ([per(0.3, 20), per(0.2, 20, split="train")], 0.3),
        ([per(0.3, 10), per(None, 20)], None),  # the last is a result, be it none
        ([Reading("per", "edits/phone", 0.7)], 0.7),
        ([Reading("percent", "1", 0.7)], None),
        ([], None),
    ],
    ids=["place", "split", "null", "stepless", "name", "nothing"],
)
def test_the_score_is_the_metric_of_the_question_at_the_last_step(
    results: Results,
    capsys: pytest.CaptureFixture[str],
    readings: list[Reading],
    score: float | None,
) -> None:
    write(results, 0, readings=readings)
    found = json.loads(told(capsys, results, "--json"))["trials"]
    assert [each["trial"] for each in found] == [trial(n) for n in range(4)]
    assert [each["score"] for each in found] == [score, None, None, None]
    assert (found[2]["question"], found[2]["variant"]) == ("position", "none, causal")
    assert [each["seed"] for each in found] == [200, 201, 200, 201]


def test_a_label_of_any_kind_is_one_line_and_lines_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(["a", "n"], [["two\nlines\x1b[31m", "1"], ["漢字", "100"]], right=["n"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("two lines\ufffd[31m ")
    assert lines[2].startswith("漢字 ")
    assert [line[-1] for line in lines] == ["n", "1", "0"]
    assert [cell_len(line) for line in lines] == [cell_len(lines[0])] * 3


def test_status_needs_no_torch(results: Results) -> None:
    write(results, 0, readings=[per(0.25, 20)])
    check = "import sys; from ablations.commands import main; main(sys.argv[1:]); "
    check += "sys.exit('torch' in sys.modules)"
    words = [sys.executable, "-c", check, "status", "--results", str(results.root)]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode == 0
