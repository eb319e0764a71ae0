"""Fair arms: what is tried, what is chosen, and for which regime it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_plans import planned

from ablations.config import FOLDER, read_yaml
from ablations.plan import tuning
from ablations.plan.merge import PlannedArm, arms_of
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
from ablations.plan.wanted import Plan, make_plan
from ablations.spec import read_experiment, read_profile
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from model.config import ConfigError

Ask = Callable[..., str]
RATE = "train.optimizer.lr"
RATES = [1e-3, 3e-3, 1e-2, 3e-2]
CELLS = {
    "with": {},
    "lstm": {"model": {"name": "recurrent", "d_model": 16, "depth": 1}},
    "gru": {"model": {"name": "recurrent", "d_model": 16, "depth": 1, "cell": "gru"}},
}


def arms(file: str) -> list[PlannedArm]:
    ablation, source = read_experiment(Path(file))
    return arms_of(ablation, source, read_profile("smoke"), {})


def tried(*losses: tuple[float | None, float | None]) -> list[Tried]:
    return [Tried({RATE: rate}, list(pair)) for rate, pair in zip(RATES, losses, strict=False)]


def chosen(file: str, *losses: tuple[float | None, float | None]) -> Choice:
    ablation, _ = read_experiment(Path(file))
    return choose(arms(file)[0], ablation, "smoke", tried(*losses))


# What is tried.


def test_every_arm_tries_every_setting_with_both_seeds_and_no_other(ask: Ask) -> None:
    for arm in arms(ask(tune={RATE: RATES})):
        cells = trials_of(arm, {RATE: RATES})
        assert [(c.seed, c.tuned[RATE]) for c in cells] == [
            (s, r) for r in RATES for s in (100, 101)
        ]
        assert {c.role for c in cells} == {"tune"}
        assert [c.config["train"]["optimizer"]["lr"] for c in cells[::2]] == RATES


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
    for changes, wrong in [
        ({"tune": {RATE: 3e-3}}, "tune.train.optimizer.lr: expected a list"),
        ({"tune": {RATE: [3e-3, 3e-3]}}, "two different values"),
        ({"tune": {"model.position": ["none", "learned"]}}, "a variant sets it"),
    ]:
        with pytest.raises(ConfigError, match=wrong) as raised:
            read_experiment(Path(ask(**changes)))
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
    ablation, _ = read_experiment(Path(file))
    made = [choose(arm, ablation, "smoke", tried((2, 2), (1, 1), (3, 3))) for arm in arms(file)]
    keep_choices(results, "small", made)

    def plan(**overrides: Any) -> Plan:
        return make_plan([file], "smoke", overrides, [300], results=results)

    assert plan().tables["small"].arms == "tuned"
    assert plan(**{"train.steps": 6}).tables["small"].arms == "fixed"
    assert plan(**{RATE: 1e-3}).tables["small"].arms == "fixed"
    cells = plan().tables["small"].cells
    assert {(c.config["train"]["optimizer"]["lr"], c.role) for c in cells} == {(3e-3, "report")}
    told = ["tuned before their grids had all their values: small (--tune)"]
    assert plan().notes == told, "the fourth rate was not tried"


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

QUICK = FOLDER / "tuned" / "quick"
TUNED = sorted(str(p.relative_to(QUICK).with_suffix("")) for p in QUICK.glob("*/*.yaml"))


def test_committed_choices_are_of_the_question_as_it_stands_at_quick(tmp_path: Path) -> None:
    results = Results(tmp_path)
    plan = make_plan(TUNED, "quick", {}, [300], results=results)
    for name in TUNED:
        assert plan.tables[name].arms == "tuned", "every variant that a claim compares"
        for choice in read_choices(committed(name, "quick")):
            values = [each["set"] for each in choice.tried]
            assert choice.chosen in values
            assert all(len(each["losses"]) == 2 for each in choice.tried)


def test_the_control_of_every_task_has_the_rate_that_tuning_chose(ask: Ask) -> None:
    for path in (FOLDER / "base").glob("*.yaml"):
        task = path.stem
        file = ask(task=task, variants={"control": {}}, baseline="control", settings={},
                   tune={RATE: RATES})  # fmt: skip
        ablation, source = read_experiment(Path(file))
        (arm,) = arms_of(ablation, source, read_profile("quick"), {})
        (choice,) = read_choices(FOLDER / "tuned" / "base" / path.name)
        base = read_yaml(path).values
        assert choice.chosen == {RATE: base["train"]["optimizer"]["lr"]}, task
        assert choice.regime == regime(arm, ablation), f"{task}: tuned for another control"


@pytest.mark.parametrize(("select", "loss"), [("best", 1.0), ("last", 2.0)])
def test_a_setting_is_tried_by_the_loss_of_the_weights_that_are_kept(
    ask: Ask, select: str, loss: float
) -> None:
    curve = [Measurement("loss", "nats", each, "valid", {"step": each}) for each in (3.0, 1.0, 2.0)]
    record = Record("0", "ok", {"train": {"select": select}}, measurements=curve)
    arm, stored = arms(ask(tune={RATE: RATES}))[0], Results("nowhere")
    stored.read = lambda _: record  # type: ignore[method-assign]
    found = tuning.tried(trials_of(arm, {RATE: RATES}), arm, stored)
    assert [each.losses for each in found] == [[loss, loss]] * len(RATES)


def test_what_no_claim_compares_may_run_untuned_beside_what_is_tuned(
    ask: Ask, tmp_path: Path
) -> None:
    variants = {"with": {}, "without": {"model.position": "none"}, "rms": {"model.norm": "rms"}}
    claim = {"id": "position.needed", "predicts": [{"worse": "without"}]}
    file = ask(tune={RATE: RATES}, variants=variants, claims=[claim])
    ablation, _ = read_experiment(Path(file))
    results = Results(tmp_path / "run")
    for known, kind in (("rms", "fixed"), ("with", "fixed"), ("without", "tuned")):
        (arm,) = [each for each in arms(file) if each.variant == known]
        keep_choices(results, "small", [choose(arm, ablation, "smoke", tried((2, 2), (1, 1)))])
        if known == "rms":
            results.root.joinpath("tuned/small.yaml").unlink()
        (table,) = make_plan([file], "smoke", {}, [300], results=results).tables.values()
        assert table.arms == kind
    rates = {c.variant: c.config["train"]["optimizer"]["lr"] for c in table.cells}
    assert rates == {"with": 3e-3, "without": 3e-3, "rms": 1e-2}
