"""Equal time: arms that are slower get fewer steps, by what was timed in their own folder."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from small_plans import record_of

from ablations.commands.arguments import plan_of
from ablations.commands.pacing import pace
from ablations.plan.pacing import kept, paces
from ablations.plan.wanted import Plan
from ablations.store.record import Reading
from ablations.store.results import Results
from model.config import ConfigError

Ask = Callable[..., str]
SLOW = {"with": 1.0, "slow": 2.5, "fast": 0.4}
VARIANTS = {"with": {}, "slow": {"model.residual": "post"}, "fast": {"model.position": "none"}}


class Timed:
    """A sweep that times every trial of a plan as if a step took what its label says."""

    def __init__(self, results: Results, **noise: list[float]) -> None:
        self.results, self.noise = results, noise
        self.plans: list[Plan] = []

    def __call__(self, plan: Plan) -> Counter[str]:
        self.plans.append(plan)
        for table in plan.tables.values():
            control = next(c.trial for c in table.cells if c.label == table.ablation.control)
            for cell in table.cells:
                logs = self.noise.get(cell.label, [0.0, 0.0, 0.0])
                readings = [
                    Reading(
                        "pace_time", "s", at={"steps": 8}, session=f"s.{process}",
                        against=control,
                        samples=[SLOW[cell.label] * math.exp(log)] * 2, reference=[1.0, 1.0],
                        measure="pace",
                    )
                    for process, log in enumerate(logs)
                ]  # fmt: skip
                self.results.write(record_of(plan.wanted[cell.trial], readings=readings))
        return Counter(timed=1)


@pytest.fixture
def asked(ask: Ask, tmp_path: Any) -> tuple[Namespace, Results]:
    file = ask(variants=VARIANTS, equal="time", settings={"train.steps": 40})
    results = Results(tmp_path / "run")
    known = {"names": [file], "claim": [], "profile": "smoke", "results": str(results.root)}
    more = {"seeds": [0], "imports": [], "overrides": {}, "factors": {}, "large": False}
    return Namespace(**known, **more, until=None), results


def steps_of(plan: Plan) -> dict[str, int]:
    (table,) = plan.tables.values()
    return {cell.label: cell.config["train"]["steps"] for cell in table.cells}


def test_before_anything_is_trained_every_arm_is_timed(asked: tuple[Namespace, Results]) -> None:
    options, results = asked
    plan = plan_of(options)
    (table,) = plan.tables.values()
    assert not plan.is_paced
    assert (table.arms, table.word) == ("pacing", f"{table.question} [pacing]")
    assert not any(cell.trained for cell in table.cells)
    sweep = Timed(results)
    pace(plan, results, sweep)
    assert {cell.label for cell in table.cells} == set(VARIANTS)
    assert plan_of(options).is_paced


def test_steps_are_in_inverse_proportion_to_their_time(asked: tuple[Namespace, Results]) -> None:
    options, results = asked
    pace(plan_of(options), results, Timed(results))
    assert steps_of(plan_of(options)) == {"with": 40, "slow": 16, "fast": 100}


def test_the_error_of_a_pace_is_kept_with_it(asked: tuple[Namespace, Results]) -> None:
    options, results = asked
    pace(plan_of(options), results, Timed(results, slow=[-0.03, 0.0, 0.03]))
    (table,) = plan_of(options).tables.values()
    found = {each.label: each for each in table.paces}
    assert found["slow"].ratio == pytest.approx(2.5)
    half = 4.302653 * 0.03 / math.sqrt(3)  # of the interval, with Student's t of two degrees
    assert found["slow"].error == pytest.approx(half / 1.96, rel=1e-4)
    assert (found["with"].ratio, found["with"].error) == (1.0, 0.0)


def test_another_setting_is_paced_anew(asked: tuple[Namespace, Results]) -> None:
    options, results = asked
    pace(plan_of(options), results, Timed(results))
    options.overrides = {"model.d_model": 64}
    assert not plan_of(options).is_paced


def test_an_arm_that_could_not_be_timed_is_told(asked: tuple[Namespace, Results]) -> None:
    options, results = asked

    def failing(plan: Plan) -> Counter[str]:
        for want in plan.wanted.values():
            nothing = Reading("pace_time", "s", reason="out of memory: 3 GB", measure="pace")
            results.write(record_of(want, readings=[nothing]))
        return Counter()

    with pytest.raises(ConfigError, match="no pace of with: timed in 0 processes"):
        pace(plan_of(options), results, failing)


@pytest.mark.parametrize("text", ["", "{", "[{}]", '[{"label": 3}]'])
def test_a_spoilt_file_of_paces_is_named(asked: tuple[Namespace, Results], text: str) -> None:
    options, results = asked
    (name,) = {table.question for table in plan_of(options).tables.values()}
    path = kept(results, name)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigError, match="cannot be used"):
        paces(results, name)


def test_paces_are_strict_json(asked: tuple[Namespace, Results]) -> None:
    options, results = asked
    plan = plan_of(options)
    pace(plan, results, Timed(results))
    (name,) = {table.question for table in plan.tables.values()}
    told = json.loads(kept(results, name).read_text())
    assert [each["label"] for each in told] == list(VARIANTS)


def test_the_warm_up_keeps_its_share_of_the_steps(asked: tuple[Namespace, Results]) -> None:
    options, results = asked
    pace(plan_of(options), results, Timed(results))
    (table,) = plan_of(options).tables.values()
    shares = {
        cell.label: cell.config["train"]["schedule"]["warmup"] / cell.config["train"]["steps"]
        for cell in table.cells
    }
    assert shares["slow"] == pytest.approx(shares["with"], rel=0.1)
    assert shares["fast"] == pytest.approx(shares["with"], rel=0.1)


def test_times_beside_another_control_are_not_taken_for_a_pace(
    asked: tuple[Namespace, Results],
) -> None:
    options, results = asked
    sweep = Timed(results)

    def also_elsewhere(plan: Plan) -> Counter[str]:
        counts = sweep(plan)
        for want in plan.wanted.values():
            record = results.read(want.trial)
            assert record is not None
            others = [replace(r, against="0" * 12, samples=[9.0, 9.0]) for r in record.readings]
            record.readings += others
            results.write(record)
        return counts

    pace(plan_of(options), results, also_elsewhere)
    assert steps_of(plan_of(options)) == {"with": 40, "slow": 16, "fast": 100}
