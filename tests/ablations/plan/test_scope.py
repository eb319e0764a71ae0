"""Which arms are asked for: all, those that decide a claim, or those of one claim alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.plan.document import merge_into
from ablations.plan.profile import read_profile
from ablations.plan.wanted import Plan, Scope, make_plan
from ablations.store.results import Results
from model.config import ConfigError

Ask = Callable[..., str]
VARIANTS = {
    "with": {},
    "without": {"model.position": "none"},
    "learned": {"model.position": "learned"},
    "post": {"model.residual": "post"},
}
NEEDED = {"id": "position.needed", "predicts": [{"worse": "without"}]}
EQUAL = {
    "id": "position.learned-equal",
    "predicts": [{"equal": "learned", "within": 0.1, "because": "a test"}],
}


@pytest.fixture
def file(ask: Ask) -> str:
    return ask(variants=VARIANTS, claims=[NEEDED, EQUAL])


def planned(file: str, profile: str = "quick", **scope: Any) -> Plan:
    return make_plan([file], profile, {}, [300], scope=Scope(**scope))


def labels(plan: Plan, table: str = "small") -> set[str]:
    return {cell.label for cell in plan.tables[table].cells}


def test_quick_or_a_claim_trains_the_arms_that_decide_and_their_control(file: str) -> None:
    deciding = {"with", "without", "learned"}
    for profile, scope, expected in [
        ("quick", {}, deciding),
        ("quick", {"arms": "all"}, set(VARIANTS)),
        ("full", {}, set(VARIANTS)),
        ("quick", {"claims": ["position.needed"]}, {"with", "without"}),
        ("full", {"claims": ["position.learned-equal"]}, {"with", "learned"}),
        ("quick", {"claims": ["norm.pre-better"]}, deciding),  # which is another question's
    ]:
        assert labels(planned(file, profile, **scope)) == expected, scope


def test_a_level_that_no_prediction_looks_at_is_left_out_with_its_control(ask: Ask) -> None:
    across = {"size": {"8": {"model.d_model": 8}, "16": {"model.d_model": 16}}}
    claim = {"id": "position.needed", "predicts": [{"worse": "without", "across": {"size": "16"}}]}
    settings = {"model.n_heads": 4, "train.steps": 4}
    plan = planned(ask(across=across, claims=[claim], settings=settings))
    assert {cell.across["size"] for cell in plan.tables["small"].cells} == {"16"}


def test_an_arm_of_other_settings_is_not_taken_for_one_that_was_left_out(
    ask: Ask, tmp_path: Path
) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask(variants=VARIANTS, claims=[NEEDED, EQUAL]), arms="all"))
    changed = {**VARIANTS, "post": {"model.residual": "sandwich"}}
    (note,) = merge_into(results, planned(ask(variants=changed, claims=[NEEDED, EQUAL])))
    assert note == "small: settings have changed; 1 earlier trials left it"
    (table,) = results.read_plan()["ablations"].values()
    assert {cell["label"] for cell in table["cells"]} == {"with", "without", "learned"}


def test_a_profile_caps_what_a_question_spends_but_not_what_is_typed(ask: Ask) -> None:
    settings = {"train.steps": 1000, "train.batch_tokens": 256, "train.schedule": "constant"}
    file = ask(settings=settings)

    def trained(profile: str, **typed: Any) -> tuple[int, int]:
        (want, *_) = make_plan([file], profile, typed, [0]).wanted.values()
        return want.config["train"]["steps"], want.config["train"]["batch_tokens"]

    assert trained("quick") == (1000, 256)
    assert trained("smoke") == (40, 256)
    assert trained("smoke", **{"train.steps": 300}) == (300, 256)


def test_a_large_profile_multiplies_the_steps_that_a_question_sets_and_no_others(ask: Ask) -> None:
    times = read_profile("full").times["train.steps"]

    def steps(**changes: Any) -> int:
        (want, *_) = make_plan([ask(**changes)], "full", {}, [0]).wanted.values()
        return int(want.config["train"]["steps"])

    assert times > 1
    assert steps(settings={"train.steps": 10}) == 10 * times
    assert steps(settings={}) == read_profile("full").settings.values["g2p"]["train.steps"]


def test_steps_that_are_no_finite_number_are_refused_with_their_line(ask: Ask) -> None:
    file = Path(ask())
    whole = file.read_text()
    for steps in (".inf", "-.inf", ".nan", "many", "null"):
        for profile in ("smoke", "quick", "full"):
            file.write_text(whole.replace('"train.steps": 4', f'"train.steps": {steps}'))
            with pytest.raises(ConfigError, match=r"small\.yaml:\d+: train\.steps: "):
                make_plan([str(file)], profile, {}, [0])
