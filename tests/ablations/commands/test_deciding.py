"""Tuning and deciding, with trials that end as a formula says: which are run, and how many."""

from __future__ import annotations

import math
import random
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import InProcess
from small import SETTINGS
from small_plans import record_of

from ablations.commands.arguments import Machine, budget, is_until_decided, plan_of
from ablations.commands.deciding import decide
from ablations.commands.run import Sweep
from ablations.commands.tuning import tune
from ablations.plan.profile import read_profile
from ablations.plan.tuning import choices
from ablations.plan.wanted import Plan
from ablations.store.record import Reading
from ablations.store.results import Results
from ablations.sweep.runner import UNBEGUN
from model.config import ConfigError

Ask = Callable[..., str]
RATE = "train.optimiser.rate"
RATES = [1e-3, 3e-3, 1e-2, 3e-2]


class Ended:
    """Runs a plan at once: each trial scores what a formula makes of its label, rate and seed."""

    def __init__(self, results: Results, score: Callable[[str, float, int], float]) -> None:
        self.results, self.score = results, score
        self.rounds: list[int] = []

    def __call__(self, plan: Plan) -> Counter[str]:
        from ablations.plan.document import merge_into

        merge_into(self.results, plan)
        ran = 0
        for table in plan.tables.values():
            for cell in table.cells:
                if self.results.head(cell.trial) is None:
                    value = self.score(
                        cell.label, cell.config["train"]["optimiser"]["rate"], cell.seed
                    )
                    readings = [
                        Reading("loss", "nats/token", value, "valid", {"step": 4}),
                        Reading(
                            "per", "edits/phone", value, "test", {"step": 4}, measure="quality"
                        ),
                    ]
                    want = plan.wanted[cell.trial]
                    self.results.write(record_of(want, readings=readings))
                    ran += 1
        self.rounds.append(ran)
        return Counter(ok=ran)


def options(file: str, results: Results, **changes: Any) -> Namespace:
    known: dict[str, Any] = {
        "names": [file],
        "claim": [],
        "profile": "smoke",
        "results": str(results.root),
        "seeds": None,
        "until": "decided",
        "arms": "all",
        "imports": [],
        "large": False,
        "overrides": {},
        "factors": {},
        "rerun": None,
    }
    return Namespace(**{**known, **changes})


def claims(*predicts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": "position.needed", "predicts": list(predicts)}]


WORSE = {"worse": "without", "by": 0.1, "because": "one in ten"}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "run")


def noisy(gap: float, sd: float) -> Callable[[str, float, int], float]:
    def score(label: str, rate: float, seed: int) -> float:
        return 0.3 + gap * (label == "without") + random.Random(f"{label}{seed}").gauss(0, sd)

    return score


# Deciding.


def decided(file: str, results: Results, score: Any) -> Ended:
    asked = options(file, results)
    sweep = Ended(results, score)
    decide(plan_of(asked), asked, results, sweep, sweep)
    return sweep


def test_a_clear_claim_takes_three_seeds_of_each_arm(ask: Ask, results: Results) -> None:
    sweep = decided(ask(claims=claims(WORSE)), results, noisy(0.5, 0.01))
    assert sweep.rounds == [6]


def test_an_open_claim_goes_on_to_five_seeds_and_ten(ask: Ask, results: Results) -> None:
    sweep = decided(ask(claims=claims(WORSE)), results, noisy(0.17, 0.09))
    assert sweep.rounds == [6, 4, 10]


def test_only_the_arms_of_an_open_claim_take_more_seeds(ask: Ask, results: Results) -> None:
    variants = {"with": {}, "without": {"model.position": "none"}, "t5": {"model.position": "t5"}}
    sweep = decided(ask(variants=variants, claims=claims(WORSE)), results, noisy(0.17, 0.09))
    assert sweep.rounds == [9, 4, 10]


def test_a_claim_far_out_of_reach_is_left_at_five_seeds(ask: Ask, results: Results) -> None:
    """At its margin to a hundredth of its spread; three seeds could not have told that."""

    def score(label: str, rate: float, seed: int) -> float:
        off = 0.05 * ((seed % 5) - 2)  # five seeds: mean 0
        return 0.3 + (0.1 + off) * (label == "without")

    assert decided(ask(claims=claims(WORSE)), results, score).rounds == [6, 4]


def test_without_claims_there_is_one_look(ask: Ask, results: Results) -> None:
    assert decided(ask(), results, noisy(0.17, 0.09)).rounds == [6]


def test_a_second_call_runs_nothing_anew(ask: Ask, results: Results) -> None:
    file = ask(claims=claims(WORSE))
    decided(file, results, noisy(0.17, 0.09))
    assert decided(file, results, noisy(0.17, 0.09)).rounds == [0]


def test_a_spent_budget_ends_the_looks(ask: Ask, results: Results) -> None:
    asked = options(ask(claims=claims(WORSE)), results)
    ended = Ended(results, noisy(0.17, 0.09))

    def cut(plan: Plan) -> Counter[str]:
        return ended(plan) + Counter({UNBEGUN: 2})

    counts, _ = decide(plan_of(asked), asked, results, cut, cut)
    assert ended.rounds == [6]
    assert counts[UNBEGUN] == 2


def test_the_first_look_is_taken_whole_and_later_ones_as_far_as_there_is_time(
    ask: Ask, results: Results
) -> None:
    asked = options(ask(claims=claims(WORSE)), results)
    first, later = (Ended(results, noisy(0.17, 0.09)) for _ in range(2))

    def cut(plan: Plan) -> Counter[str]:
        return later(plan) + Counter({UNBEGUN: 2})

    counts, _ = decide(plan_of(asked), asked, results, first, cut)
    assert (first.rounds, later.rounds) == ([6], [4])
    assert counts[UNBEGUN] == 2


def test_a_claim_about_shares_of_seeds_has_its_first_look_before_others_have_a_second(
    ask: Ask, results: Results
) -> None:
    basin = {"better": "with", "than": "without", "kind": "basin", "threshold": 0.35}
    shares = [{"id": "position.once", "predicts": [basin]}]
    files = [
        ask("level", claims=claims(WORSE)),
        ask("share", claims=shares, settings={**SETTINGS, "train.steps": 5}),
    ]
    asked = options(files[0], results, names=files)
    first, later = (Ended(results, noisy(0.17, 0.09)) for _ in range(2))
    decide(plan_of(asked), asked, results, first, later)
    assert first.rounds == [12, 4]  # three seeds of all arms, then two more of the shares'
    assert later.rounds[0] >= 4


def test_a_profile_says_when_later_looks_end_and_a_budget_ends_all() -> None:
    sweep = Sweep(
        Namespace(), Results("x"), InProcess(), Machine(torch.device("cpu"), 1), 100.0, math.inf
    )
    assert sweep.within(2).deadline == 220.0
    assert replace(sweep, deadline=150.0).within(2).deadline == 150.0
    assert sweep.deadline == math.inf
    assert read_profile("quick").minutes < 75


def test_seeds_that_are_named_are_taken_as_they_are(ask: Ask, results: Results) -> None:
    assert not is_until_decided(options(ask(), results, until=None, seeds=[200]))
    assert not is_until_decided(options(ask(), results, until=None))
    assert is_until_decided(options(ask(), results, until=None, profile="quick"))
    with pytest.raises(ConfigError, match="--until and --seeds"):
        is_until_decided(options(ask(), results, seeds=[200]))


@pytest.mark.parametrize(
    ("text", "seconds"), [("45m", 2700), ("2h", 7200), ("90s", 90), ("12", 12), ("1.5h", 5400)]
)
def test_a_budget_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert budget(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-3m", "3d", "nanh", "soon"])
def test_a_wrong_budget_is_refused(text: str) -> None:
    from argparse import ArgumentTypeError

    with pytest.raises(ArgumentTypeError, match="--budget"):
        budget(text)


# Tuning.


def valley(best: dict[str, float]) -> Callable[[str, float, int], float]:
    """Loss by how far a rate is from the best one of its arm."""

    def score(label: str, rate: float, seed: int) -> float:
        return 1.0 + abs(math.log(rate / best[label])) + 0.001 * (seed % 2)

    return score


def tuned(file: str, results: Results, score: Any, **changes: Any) -> tuple[Ended, dict[str, Any]]:
    asked = options(file, results, until=None, **changes)
    sweep = Ended(results, score)
    tune(plan_of(asked), asked, results, sweep)
    return sweep, {choice.label: choice for choice in choices("small", "smoke", results).values()}


def test_each_arm_gets_its_own_best_and_the_same_budget(ask: Ask, results: Results) -> None:
    file = ask(tune={RATE: RATES})
    sweep, found = tuned(file, results, valley({"with": 3e-3, "without": 1e-2}))
    assert sweep.rounds == [16]
    assert {label: choice.chosen[RATE] for label, choice in found.items()} == {
        "with": 3e-3,
        "without": 1e-2,
    }
    assert not any(choice.at_edge for choice in found.values())


def test_the_grid_grows_for_every_arm_where_one_is_at_its_end(ask: Ask, results: Results) -> None:
    file = ask(tune={RATE: RATES})
    sweep, found = tuned(file, results, valley({"with": 3e-3, "without": 0.1}))
    assert sweep.rounds == [16, 4, 4]
    assert found["without"].chosen == {RATE: 0.1}
    assert {len(choice.tried) for choice in found.values()} == {6}


def test_it_grows_twice_at_most_and_then_says_where_it_stands(ask: Ask, results: Results) -> None:
    file = ask(tune={RATE: RATES})
    sweep, found = tuned(file, results, valley({"with": 3e-3, "without": 10.0}))
    assert sweep.rounds == [16, 4, 4]
    assert found["without"].chosen == {RATE: 0.3}
    assert found["without"].at_edge
    assert not found["with"].at_edge


def test_tuning_goes_on_from_the_trials_that_are_there(ask: Ask, results: Results) -> None:
    file = ask(tune={RATE: RATES})
    score = valley({"with": 3e-3, "without": 1e-2})
    tuned(file, results, score)
    assert tuned(file, results, score)[0].rounds == [0]


def test_a_question_without_a_grid_cannot_be_tuned(ask: Ask, results: Results) -> None:
    with pytest.raises(ConfigError, match="--tune: none of these questions"):
        tuned(ask(), results, valley({}))


def test_tuned_arms_decide_what_is_about_them(ask: Ask, results: Results) -> None:
    """As the settings stand the arms are apart; each at its best, they are equal."""
    from analysis.load import load
    from analysis.verdicts import verdicts

    equal = {"equal": "without", "within": 0.1, "because": "one in ten", "arms": "tuned"}
    file = ask(tune={RATE: RATES}, claims=claims(equal))
    score = valley({"with": 3e-3, "without": 1e-2})

    def lucky(label: str, rate: float, seed: int) -> float:
        return score(label, rate, seed) + random.Random(f"{label}{seed}").gauss(0, 0.002)

    asked = options(file, results)
    sweep = Ended(results, lucky)
    decide(plan_of(asked), asked, results, sweep, sweep)
    (before,) = verdicts(load(results.root))
    assert (before.verdict, before.scope["question"]) == ("not run", "small")
    assert "--tune" in before.reason
    tuned(file, results, lucky)
    sweep = Ended(results, lucky)
    decide(plan_of(asked), asked, results, sweep, sweep)
    (after,) = verdicts(load(results.root))
    assert (after.verdict, after.scope["question"], after.n) == ("supported", "small [tuned]", 3)


# Found in review.


def test_a_grid_that_cannot_grow_keeps_what_was_found(ask: Ask, results: Results) -> None:
    """Past .98 comes 1.01, which is no decay."""
    beta = "train.optimiser.beta2"
    file = ask(tune={beta: [0.9, 0.95, 0.98]})

    class Rising(Ended):
        def __call__(self, plan: Plan) -> Counter[str]:
            self.score = lambda label, rate, seed: 1.0 + seed * 1e-6
            return super().__call__(plan)

    asked = options(file, results, until=None)
    sweep = Rising(results, valley({}))
    real = sweep.results.write

    def by_beta(record: Any) -> None:
        for reading in record.readings:
            reading.value = 2.0 - record.config["train"]["optimiser"]["beta2"]
        real(record)

    sweep.results.write = by_beta  # type: ignore[method-assign]
    tune(plan_of(asked), asked, results, sweep)
    (one, two) = choices("small", "smoke", results).values()
    assert one.chosen == two.chosen == {beta: 0.98}
    assert one.at_edge
    assert sweep.rounds == [12]


def test_a_setting_cannot_be_both_set_and_tuned(ask: Ask, results: Results) -> None:
    file = ask(tune={RATE: RATES})
    with pytest.raises(ConfigError, match="is set on the command line"):
        tuned(file, results, valley({}), overrides={RATE: 1e-3})
    with pytest.raises(ConfigError, match="this ablation tunes it"):
        plan_of(options(file, results, factors={RATE: {"1": 1e-3, "2": 2e-3}}))


def test_a_spent_budget_chooses_nothing(ask: Ask, results: Results) -> None:
    file = ask(tune={RATE: RATES})
    asked = options(file, results, until=None)
    counts = tune(plan_of(asked), asked, results, lambda plan: Counter({UNBEGUN: 3}))
    assert counts[UNBEGUN] == 3
    assert choices("small", "smoke", results) == {}


def test_tuning_seeds_cannot_be_asked_for() -> None:
    from argparse import ArgumentTypeError

    from ablations.commands.arguments import _seeds

    assert _seeds("200-202,7") == [200, 201, 202, 7]
    for wrong in ("100", "99-101", "3-1", "a", "-1", "1,1", "1-", ""):
        with pytest.raises(ArgumentTypeError, match="--seeds"):
            _seeds(wrong)


def test_what_failed_at_an_earlier_look_did_not_fail_earlier(ask: Ask, results: Results) -> None:
    from ablations.sweep.runner import EARLIER

    asked = options(ask(claims=claims(WORSE)), results)
    ended = Ended(results, noisy(0.17, 0.09))
    told = iter([Counter(error=1), Counter({EARLIER: 1}), Counter({EARLIER: 1})])

    def sweep(plan: Plan) -> Counter[str]:
        return ended(plan) + next(told)

    counts, _ = decide(plan_of(asked), asked, results, sweep, sweep)
    assert (counts["error"], counts[EARLIER]) == (1, 0)
