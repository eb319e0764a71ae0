"""What run says last: verdicts and scores as analysis has them, and what to type next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ablations.commands import answers
from ablations.commands.answers import print_answers
from ablations.plan.document import merge_into
from ablations.plan.wanted import Plan, make_plan
from ablations.store.record import Reading, Record
from ablations.store.results import Results

Ask = Callable[..., str]
CLAIM = {"id": "position.needed", "predicts": [{"worse": "without", "by": 0.01, "because": "x"}]}


def folder(tmp_path: Path, plan: Plan, scores: dict[str, float]) -> Results:
    """A folder in which each seed of an arm has scored a little more than the one before."""
    results = Results(tmp_path / "out")
    merge_into(results, plan)
    for table in plan.tables.values():
        for cell in table.cells:
            want = plan.wanted[cell.trial]
            value = scores[cell.label] + 0.001 * (cell.seed - 300)
            value += 0.0004 * (cell.seed % 2) * (cell.label == "without")
            reading = Reading("per", "edits/phone", value, "test", {"step": 4}, measure="quality")
            results.write(
                Record(
                    cell.trial,
                    "ok",
                    want.config,
                    env={"code": want.code},
                    data=want.data,
                    measures={name: want.measure_code(name) for name in want.measures},
                    readings=[reading],
                )
            )
    return results


def test_a_question_without_claims_has_a_line_for_each_arm(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = {"with": {}, "rms, twice": {"model.norm": "rms"}}
    plan = make_plan([ask(variants=variants)], "smoke", {}, [300, 301, 302])
    results = folder(tmp_path, plan, {"with": 0.3, "rms, twice": 0.5})
    print_answers(plan, results)
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].split() == list(answers._ARM)
    control, variant = lines[1:]
    assert control.split()[:2] == ["small", "with"]
    assert control.endswith("3  control")
    assert "'rms, twice'" in variant
    assert variant.split()[3:6] == ["0.501", "0.2", "3"]  # score, difference, seeds


def test_a_claim_is_told_as_analysis_tells_it(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from analysis.claims import claims, lines
    from analysis.contrasts import gather

    plan = make_plan([ask(claims=[CLAIM])], "smoke", {}, [300, 301, 302])
    results = folder(tmp_path, plan, {"with": 0.3, "without": 0.5})
    (claim,) = claims(gather(results.root))
    assert claim["verdict"] == "supported"
    print_answers(plan, results)
    assert capsys.readouterr().out.strip().splitlines() == lines(claim)
    print_answers(plan, results, ["another.claim"])
    assert capsys.readouterr().out == ""
