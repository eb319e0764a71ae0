"""Fair arms: what is tried, what is chosen, and for which regime it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_plans import BOTH, planned

from ablations.plan import tuning
from ablations.plan.document import merge_into
from ablations.plan.merge import PlannedArm, arms_of
from ablations.plan.profile import read_profile
from ablations.plan.question import read_ablation
from ablations.plan.source import FOLDER, read_yaml
from ablations.plan.tuning import (
    Choice,
    Tried,
    choices,
    choose,
    committed,
    grid_for,
    in_words,
    keep_choices,
    read_choices,
    regime,
    settings_in,
    trials_of,
)
from ablations.plan.wanted import Plan, Scope, make_plan, measures_of
from ablations.store.record import Reading, Record
from ablations.store.results import Results
from model.config import ConfigError

Ask = Callable[..., str]
RATE = "train.optimiser.rate"
RATES = [1e-3, 3e-3, 1e-2, 3e-2]
CELLS = {
    "with": {},
    "lstm": {"model": {"name": "recurrent", "d_model": 16, "depth": 1}},
    "gru": {"model": {"name": "recurrent", "d_model": 16, "depth": 1, "cell": "gru"}},
}


def arms(file: str) -> list[PlannedArm]:
    ablation, source = read_ablation(Path(file))
    return arms_of(ablation, source, read_profile("smoke"), {})


def tried(*losses: tuple[float | None, float | None]) -> list[Tried]:
    return [Tried({RATE: rate}, list(pair)) for rate, pair in zip(RATES, losses, strict=False)]


def chosen(file: str, *losses: tuple[float | None, float | None]) -> Choice:
    ablation, _ = read_ablation(Path(file))
    return choose(arms(file)[0], ablation, "smoke", tried(*losses))


# What is tried.


def test_every_arm_tries_every_setting_with_both_seeds_and_no_other(ask: Ask) -> None:
    for arm in arms(ask(tune={RATE: RATES})):
        cells = trials_of(arm, {RATE: RATES})
        assert [(c.seed, c.tuned[RATE]) for c in cells] == [
            (s, r) for r in RATES for s in (100, 101)
        ]
        assert {c.role for c in cells} == {"tune"}
        assert [c.config["train"]["optimiser"]["rate"] for c in cells[::2]] == RATES


def test_an_arm_without_a_setting_tries_the_others(ask: Ask) -> None:
    grid = {RATE: RATES, "model.cell.forget_bias": [0.0, 1.0]}
    transformer, lstm, gru = arms(ask(variants=CELLS, tune=grid))
    counts = [len(settings_in(grid_for(arm, grid))) for arm in (transformer, lstm, gru)]
    assert counts == [4, 8, 4]
    assert grid_for(lstm, grid) == grid
    assert grid_for(gru, grid) == {RATE: RATES}
    biases = [c.config["model"]["cell"]["forget_bias"] for c in trials_of(lstm, grid)[:4:2]]
    assert biases == [0.0, 1.0]


def test_a_wrong_grid_is_named_with_its_line(ask: Ask) -> None:
    tuned, fixed = {"worse": "without", "arms": "tuned"}, {"worse": "without"}
    for changes, wrong in [
        ({"tune": {RATE: 3e-3}}, "tune.train.optimiser.rate: expected a list"),
        ({"tune": {RATE: [3e-3, 3e-3]}}, "two different values"),
        ({"tune": {"model.position": ["none", "learned"]}}, "a variant sets it"),
        ({"claims": [{"id": "norm.helps", "predicts": [tuned]}]}, "the question names no tune"),
        (
            {"tune": {RATE: RATES}, "claims": [{"id": "norm.helps", "predicts": [tuned, fixed]}]},
            "all arms fixed, or all tuned",
        ),
    ]:
        with pytest.raises(ConfigError, match=wrong) as raised:
            read_ablation(Path(ask(**changes)))
        assert "small.yaml:" in raised.value.problems[0], changes

    with pytest.raises(ConfigError, match=r"tune\.model\.wings: 'with' has no such setting"):
        planned(ask(tune={"model.wings": [1, 2]}))


# What is chosen.


def test_the_lowest_mean_of_the_fewest_failures_is_chosen_and_an_end_of_the_grid_marked(
    ask: Ask,
) -> None:
    file = ask(tune={RATE: RATES})
    for losses, rate, is_at_edge in [
        (((3.0, 3.2), (2.0, 2.1), (1.0, 1.1), (1.5, 1.6)), 1e-2, False),
        (((3, 3), (2, 2), (1, 1), (0, 0)), 3e-2, True),
        (((0, 0), (2, 2), (1, 1), (3, 3)), 1e-3, True),
        (((3.0, 3.2), (2.0, 2.1), (0.1, None)), 3e-3, False),
        (((None, None), (2.0, None)), 3e-3, True),
    ]:
        found = chosen(file, *losses)
        assert (found.chosen, found.at_edge) == ({RATE: rate}, is_at_edge)
        assert ("at the edge of the grid" in in_words(found)) == is_at_edge


# For which regime.


def test_a_choice_holds_for_its_regime_alone(ask: Ask, tmp_path: Path) -> None:
    file, results = ask(tune={RATE: RATES}), Results(tmp_path / "run")
    ablation, _ = read_ablation(Path(file))
    made = [choose(arm, ablation, "smoke", tried((2, 2), (1, 1), (3, 3))) for arm in arms(file)]
    keep_choices(results, "small", made)

    def plan(**overrides: Any) -> Plan:
        return make_plan([file], "smoke", overrides, [300], results=results)

    assert list(plan().tables) == ["small", "small [tuned]"]
    assert list(plan(**{"train.steps": 6}).tables) == ["small"]
    assert list(plan(**{RATE: 1e-3}).tables) == ["small"]
    cells = plan().tables["small [tuned]"].cells
    assert {(c.config["train"]["optimiser"]["rate"], c.role) for c in cells} == {(3e-3, "report")}
    told = ["tuned before their grids had all their values: small (--tune)"]
    assert plan().notes == told, "the fourth rate was not tried"


def test_each_claim_stands_in_the_table_whose_arms_decide_it(ask: Ask, tmp_path: Path) -> None:
    worse = [{"worse": "without", "by": 0.0}]
    claims = [
        {"id": "position.needed", "predicts": worse},
        {"id": "position.learned-equal", "predicts": [{**worse[0], "arms": "tuned"}]},
    ]
    file, results = ask(tune={RATE: RATES}, claims=claims), Results(tmp_path / "run")

    def told(**scope: Any) -> dict[str, list[str]]:
        plan = make_plan([file], "smoke", {}, [300], results=results, scope=Scope(**scope))
        merge_into(results, plan)
        entries = results.read_plan()["ablations"].items()
        return {name: [claim["id"] for claim in entry["claims"]] for name, entry in entries}

    assert told() == {"small": ["position.needed", "position.learned-equal"]}
    ablation, _ = read_ablation(Path(file))
    made = [choose(arm, ablation, "smoke", tried((2, 2), (1, 1), (3, 3))) for arm in arms(file)]
    keep_choices(results, "small", made)
    expected = {"small": ["position.needed"], "small [tuned]": ["position.learned-equal"]}
    assert told(claims=["position.learned-equal"]) == expected, "also where it is planned alone"
    assert told() == expected


def test_choices_are_written_and_read_and_kept_by_regime(ask: Ask, tmp_path: Path) -> None:
    file, results = ask(tune={RATE: RATES}), Results(tmp_path / "run")
    made = chosen(file, (2.0, None), (1.0, 1.1))
    path = keep_choices(results, "small", [made])
    assert read_choices(path) == [made]
    other = Choice(**{**vars(made), "regime": "956e78245692"})  # which looks like a number
    keep_choices(results, "small", [other])
    assert choices("small", "smoke", results) == {made.key: made, other.key: other}
    path.write_text(path.read_text().replace("chosen:", "chozen:"))
    with pytest.raises(ConfigError, match=r"small.yaml:\d+: arms.0.chozen: no such option"):
        choices("small", "smoke", results)


# What is committed.

TUNED = sorted(path.stem for path in (FOLDER / "tuned" / "quick").glob("*.yaml"))


def test_committed_choices_are_of_the_question_as_it_stands_at_quick(tmp_path: Path) -> None:
    results = Results(tmp_path)
    plan = make_plan(TUNED, "quick", {}, [300], results=results)
    assert [note for note in plan.notes if "not tuned" in note] == []
    for name in TUNED:
        assert f"{name} [tuned]" in plan.tables
        for choice in read_choices(committed(name, "quick")):
            values = [each["set"] for each in choice.tried]
            assert choice.chosen in values
            assert all(len(each["losses"]) == 2 for each in choice.tried)


def test_the_control_of_every_task_has_the_rate_that_tuning_chose(ask: Ask) -> None:
    for path in (FOLDER / "base").glob("*.yaml"):
        task = path.stem
        file = ask(task=task, variants={"control": {}}, control="control", settings={},
                   tune={RATE: RATES})  # fmt: skip
        ablation, source = read_ablation(Path(file))
        (arm,) = arms_of(ablation, source, read_profile("quick"), {})
        (choice,) = read_choices(FOLDER / "tuned" / "base" / path.name)
        base = read_yaml(path).values
        assert choice.chosen == {RATE: base["train"]["optimiser"]["rate"]}, task
        assert choice.regime == regime(arm, ablation), f"{task}: tuned for another control"


@pytest.mark.parametrize(("select", "loss"), [("best", 1.0), ("last", 2.0)])
def test_a_setting_is_tried_by_the_loss_of_the_weights_that_are_kept(
    ask: Ask, select: str, loss: float
) -> None:
    curve = [Reading("loss", "nats", each, "valid", {"step": each}) for each in (3.0, 1.0, 2.0)]
    record = Record("0", "ok", {"train": {"select": select}}, readings=curve)
    arm, stored = arms(ask(tune={RATE: RATES}))[0], Results("nowhere")
    stored.read = lambda _: record  # type: ignore[method-assign]
    found = tuning.tried(trials_of(arm, {RATE: RATES}), arm, stored)
    assert [each.losses for each in found] == [[loss, loss]] * len(RATES)


def test_tuned_arms_are_not_timed(ask: Ask, tmp_path: Path) -> None:
    file, results = ask(tune={RATE: RATES}, measures=BOTH), Results(tmp_path / "run")
    ablation, _ = read_ablation(Path(file))
    made = [choose(arm, ablation, "smoke", tried((2, 2), (1, 1))) for arm in arms(file)]
    keep_choices(results, "small", made)
    tables = make_plan([file], "smoke", {}, [300], results=results).tables.values()
    found = {table.arms: {name for cell in table.cells for name in measures_of(table, cell)}
             for table in tables}  # fmt: skip
    assert found == {"fixed": set(BOTH), "tuned": {"quality"}}
