"""status, trial by trial: which is where, how it ended, what it scored, and how to see the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from small import plan_document

from ablations.commands import main
from ablations.commands.columns import print_columns
from ablations.store.record import Reading, Record
from ablations.store.results import Results

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
    other = {"code": {"model/norms.py": "other"}}
    none_at_last = [per(0.3, 10), per(None, 20)]
    write(results, 3, "error", reason="bad luck", env=other, readings=none_at_last)
    lines = told(capsys, results).partition("\n\n")[2].splitlines()
    assert [line.split() for line in lines] == [
        ["experiment", "variant", "seed", "trial", "outcome", "score"],
        ["position", "with", "200", trial(0), "ok", "0.25", "edits/phone"],
        ["201", trial(1), "waiting", "—"],
        ["'none,", "causal'", "200", trial(2), "stuck", "1.5", "edits/phone"],
        ["201", trial(3), "error,", "stale", "—"],
    ]
    (first, *_, last) = json.loads(told(capsys, results, "--json"))["trials"]
    assert (first["score"], last["score"]) == (0.25, None)
    assert (last["variant"], last["seed"], last["trial"]) == ("none, causal", 201, trial(3))
    marks = ["trial", *map(trial, range(4))]
    assert {line.index(word) for line, word in zip(lines, marks, strict=True)} == {
        lines[0].index("trial")
    }


def test_a_label_of_any_kind_is_one_line_and_lines_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(["a", "n"], [["two\nlines\x1b[31m", "1"], ["漢字", "100"]], right=["n"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("two lines\ufffd[31m ")
    assert lines[2].startswith("漢字 ")
    assert [line[-1] for line in lines] == ["n", "1", "0"]
    assert [cell_len(line) for line in lines] == [cell_len(lines[0])] * 3
    print_columns(["a", "n"], [["x" * 5000, "1"]])
    assert max(map(len, capsys.readouterr().out.splitlines())) < 100
