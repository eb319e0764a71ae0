"""What run says last: verdicts and scores as analysis has them, and what to type next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.commands import answers, main
from ablations.commands.answers import print_answers
from ablations.commands.arguments import _seeds
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
            value = scores[cell.label] + 0.001 * (cell.seed - 200)
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


def said(capsys: pytest.CaptureFixture[str], plan: Plan, results: Results, *claims: str) -> str:
    print_answers(plan, results, claims)
    return capsys.readouterr().out


def test_a_question_without_claims_has_a_line_for_each_arm(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = {"with": {}, "rms, twice": {"model.norm": "rms"}}
    plan = make_plan([ask(variants=variants)], "smoke", {}, [200, 201, 202])
    results = folder(tmp_path, plan, {"with": 0.3, "rms, twice": 0.5})
    lines = said(capsys, plan, results).strip().splitlines()
    assert lines[0].split() == list(answers._ARM)
    control, variant = lines[1:]
    assert control.split()[:2] == ["small", "with"]
    assert control.endswith("3  control")
    assert "'rms, twice'" in variant
    assert "0.200" in variant  # the difference, though not the luck, of its seeds


def test_a_claim_has_its_verdict_effect_interval_and_number_of_seeds(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan([ask(claims=[CLAIM])], "smoke", {}, [200, 201, 202])
    results = folder(tmp_path, plan, {"with": 0.3, "without": 0.5})
    assert main_claims(results)[0]["verdict"] == "supported"
    lines = said(capsys, plan, results).strip().splitlines()
    assert lines[0] == "1 supported"
    assert lines[1].split() == list(answers._CLAIM)
    words = lines[2].split()
    assert words[:3] == ["position.needed", "supported", "per"]
    assert float(words[3]) == pytest.approx(main_claims(results)[0]["effect"], abs=1e-3)
    low, high = main_claims(results)[0]["interval"]
    assert [float(words[4]), float(words[6])] == pytest.approx([low, high], abs=1e-3)
    assert words[7:] == ["3", "small"]
    assert said(capsys, plan, results, "another.claim") == ""


def main_claims(results: Results) -> list[dict[str, Any]]:
    from analysis.claims import claims
    from analysis.evidence import gather

    return claims(gather(results.root))


def test_many_lines_are_cut_with_where_the_rest_is(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST", 1)
    plan = make_plan([ask()], "smoke", {}, [200, 201])
    results = folder(tmp_path, plan, {"with": 0.3, "without": 0.5})
    last = said(capsys, plan, results).splitlines()[-1]
    assert last == f"and 1 more: python -m analysis report --results {results.root}"


def test_what_is_not_run_is_said_to_be(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan([ask(claims=[CLAIM])], "smoke", {}, [200, 201, 202])
    results = Results(tmp_path / "out")
    merge_into(results, plan)
    assert "position.needed  not run" in said(capsys, plan, results)


def test_seeds_that_decide_nothing_are_trained_and_said_to_be_such(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _seeds("0-4") == [0, 1, 2, 3, 4]
    words = ["plan", ask(claims=[CLAIM]), "--profile", "smoke", "--json"]
    assert main([*words, "--seeds", "0-4"]) == 0
    assert json.loads(capsys.readouterr().out)["trials"] == 10
    for seeds, says in (("0-4", True), ("200-204", False)):
        assert main([*words[:-1], "--seeds", seeds]) == 0
        note = "seeds 0, 1, 2, 3, 4 are trained and compared, and decide no claim: 200 to 209 do"
        assert (note in capsys.readouterr().out.splitlines()) == says
