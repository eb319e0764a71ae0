"""A model that is too large for this machine costs its own trials, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ablations.commands import main
from ablations.plan import make_plan
from ablations.store.results import Results

Ask = Callable[..., str]
Sweep = Callable[..., Counter[str]]
TRILLIONS = {"model.d_model": 1_000_000}  # of weights


@pytest.fixture
def file(ask: Ask) -> str:
    return ask(variants={"with": {}, "huge": TRILLIONS}, baseline="huge")


def test_one_variant_too_large_to_allocate_is_out_of_memory_and_the_others_are_trained(
    file: str, results: Results, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fault 46."""
    folder = ("--profile", "smoke", "--seeds", "0-0", "--results", str(results.root))
    assert main(["run", file, *folder, "--jobs", "2", "--device", "cpu"]) == 1
    assert "days" not in capfd.readouterr().err, "what cannot be trained takes no time"
    plan = make_plan([file], "smoke", {}, [0])
    records = {want.title: results.read(want.id) for want in plan.trials.values()}
    ended = {title: record.status for title, record in records.items() if record}
    assert ended["small:huge seed 0"] == "oom"
    assert ended["small:with seed 0"] in ("ok", "stuck")


def test_a_plan_answers_though_a_variant_is_too_large_to_be_tried(
    file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fault 46."""
    folder = ["--results", str(tmp_path / "no")]
    words = ["plan", file, "--profile", "smoke", "--seeds", "0-0", *folder]
    assert main([*words, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    each = {row["variant"]: row["seconds_per_trial"] for row in found["variants"]}
    assert each["huge"] is None
    assert found["training"] <= each["with"]
    assert (found["unknown"], [row["left"] for row in found["variants"]]) == (1, [1, 1])
    assert main(words) == 0
    out = capfd.readouterr().out
    assert " unknown " in out
    assert "Time unknown: 1 trials" in out


def test_variants_that_are_all_too_large_do_not_end_a_sweep(results: Results, sweep: Sweep) -> None:
    """Fault 46. The next may be smaller."""
    large = {f"t{number}": {"do": "memory", "kind": f"{number}"} for number in range(4)}
    assert sweep(large | {"small": {"kind": "small"}}) == {"oom": 4, "ok": 1}
