"""Fair variants: what is tried, what is chosen, and for which regime it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_plans import planned

from ablations.config import FOLDER, read_yaml
from ablations.expand import Trial, as_written
from ablations.plan import Plan, make_plan
from ablations.profile import read_profile
from ablations.spec import read_experiment
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.tuning import (
    Choice,
    choose,
    committed,
    grid_of,
    in_words,
    keep_choices,
    losses_of,
    read_choices,
    regime,
    settings_in,
    tuning_trials,
)
from model.config import ConfigError

Ask = Callable[..., str]
RATE = "train.optimizer.lr"
RATES = [1e-3, 3e-3, 1e-2, 3e-2]
CELLS = {
    "with": {},
    "lstm": {"model": {"name": "recurrent", "d_model": 16, "depth": 1}},
    "gru": {"model": {"name": "recurrent", "d_model": 16, "depth": 1, "cell": "gru"}},
}


def variants(file: str, profile: str = "smoke") -> list[Trial]:
    return as_written(read_experiment(Path(file)), read_profile(profile), {})


def tried(*losses: tuple[float | None, float | None]) -> list[dict[str, Any]]:
    return [
        {"set": {RATE: rate}, "losses": list(pair)}
        for rate, pair in zip(RATES, losses, strict=False)
    ]


def chosen(file: str, *losses: tuple[float | None, float | None]) -> Choice:
    return choose(variants(file)[0], read_experiment(Path(file)), tried(*losses))


# What is tried.


def test_every_variant_tries_every_setting_with_both_seeds_and_no_other(ask: Ask) -> None:
    file = ask(tune={RATE: RATES})
    for variant in variants(file):
        trials = tuning_trials(variant, read_experiment(Path(file)))
        assert [(each.seed, each.tuned[RATE]) for each in trials] == [
            (s, r) for r in RATES for s in (100, 101)
        ]
        assert [each.config["train"]["optimizer"]["lr"] for each in trials[::2]] == RATES
        assert not any(each.sources or each.timings for each in trials)


def test_a_variant_without_a_setting_tries_the_others(ask: Ask) -> None:
    grid = {RATE: RATES, "model.cell.forget_bias": [0.0, 1.0]}
    file = ask(variants=CELLS, tune=grid)
    transformer, lstm, gru = variants(file)
    counts = [len(settings_in(grid_of(each, grid))) for each in (transformer, lstm, gru)]
    assert counts == [4, 8, 4]
    assert grid_of(lstm, grid) == grid
    assert grid_of(gru, grid) == {RATE: RATES}
    trials = tuning_trials(lstm, read_experiment(Path(file)))[:4:2]
    assert [each.config["model"]["cell"]["forget_bias"] for each in trials] == [0.0, 1.0]


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
    experiment = read_experiment(Path(file))
    made = [choose(each, experiment, tried((2, 2), (1, 1), (3, 3))) for each in variants(file)]
    keep_choices(results, "small", made)

    def plan(**overrides: Any) -> Plan:
        return make_plan([file], "smoke", overrides, [300], results=results)

    assert plan().experiments["small"].choices == made
    assert plan(**{"train.steps": 6}).experiments["small"].choices == []
    assert plan(**{RATE: 1e-3}).experiments["small"].choices == []
    rates = {each.config["train"]["optimizer"]["lr"] for each in plan().trials.values()}
    assert rates == {3e-3}
    fix = "`ablations tune small` does that"
    note = f"small: tuned before its grid had all its values; {fix}"
    assert plan().notes == [note], "the fourth rate was not tried"


def test_choices_are_written_and_read_and_kept_by_regime(ask: Ask, tmp_path: Path) -> None:
    file, results = ask(tune={RATE: RATES}), Results(tmp_path / "run")
    made = chosen(file, (2.0, None), (1.0, 1.1))
    path = keep_choices(results, "small", [made])
    assert read_choices(path) == [made]
    other = Choice(**{**vars(made), "regime": "956e78245692"})  # which looks like a number
    keep_choices(results, "small", [other])
    assert read_choices(path) == [made, other]
    path.write_text(path.read_text().replace("chosen:", "chozen:"))
    with pytest.raises(ConfigError, match=r"small.yaml:\d+: choices.0.chozen: no such option"):
        make_plan([file], "smoke", {}, [300], results=results)


def test_tune_keeps_what_it_chooses_and_the_next_plan_goes_by_it(
    ask: Ask, say: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file, results = ask(tune={RATE: [1e-3, 1e-2]}), Results(tmp_path / "run")
    where = ("--profile", "smoke", "--results", str(results.root), "--jobs", "1")
    code, told, error = say("tune", file, *where)
    assert code == 0, error
    assert f"small: kept in {results.root}/tuned/small.yaml" in told
    assert not results.plan_file.exists(), "what only tunes is reported nowhere"
    assert len(list(results.trials.glob("*.json"))) == 2 * 2 * 2
    made = read_choices(results.root / "tuned" / "small.yaml")
    assert [each.variant for each in made] == ["with", "without"]
    plan = make_plan([file], "smoke", {}, [300], results=results)
    assert {each.variant: each.tuned for each in plan.trials.values()} == {
        each.variant: each.chosen for each in made
    }
    for words, line in (
        (("tune", ask("plain")), "none of these experiments has a `tune:` grid"),
        (("tune", file, f"{RATE}=1"), f"{RATE} is set on the command line: leave it out"),
        (("run", file, "--tune"), "--tune is gone: use `ablations tune`"),
        (("plan", file, "--tune"), "--tune is gone: use `ablations tune`"),
    ):
        code, _, error = say(*words, *where)
        assert (code, line in error) == (2, True), error


# What is committed.

QUICK = FOLDER / "tuned" / "quick"
TUNED = sorted(str(p.relative_to(QUICK).with_suffix("")) for p in QUICK.glob("*/*.yaml"))


def test_committed_choices_are_of_the_question_as_it_stands_at_quick(tmp_path: Path) -> None:
    plan = make_plan(TUNED, "quick", {}, [300], results=Results(tmp_path))
    for name in TUNED:
        assert plan.experiments[name].choices, "every variant that a claim compares"
        for choice in read_choices(committed(name, "quick")):
            values = [each["set"] for each in choice.tried]
            assert choice.chosen in values
            assert all(len(each["losses"]) == 2 for each in choice.tried)


def test_the_baseline_of_every_task_has_the_lr_that_tuning_chose(ask: Ask) -> None:
    for path in (FOLDER / "base").glob("*.yaml"):
        task = path.stem
        file = ask(task=task, variants={"control": {}}, baseline="control", settings={},
                   tune={RATE: RATES})  # fmt: skip
        (variant,) = variants(file, "quick")
        (choice,) = read_choices(FOLDER / "tuned" / "base" / path.name)
        base = read_yaml(path).values
        assert choice.chosen == {RATE: base["train"]["optimizer"]["lr"]}, task
        now = regime(variant, read_experiment(Path(file)))
        assert choice.regime == now, f"{task}: tuned for another baseline"


@pytest.mark.parametrize(("select", "loss"), [("best", 1.0), ("last", 2.0)])
def test_a_setting_is_tried_by_the_loss_of_the_weights_that_are_kept(
    ask: Ask, select: str, loss: float
) -> None:
    curve = [Measurement("loss", "nats", each, "valid", {"step": each}) for each in (3.0, 1.0, 2.0)]
    record = Record("0", "ok", {"train": {"select": select}}, measurements=curve)
    file, stored = ask(tune={RATE: RATES}), Results("nowhere")
    stored.read = lambda _: record  # type: ignore[method-assign]
    trials = tuning_trials(variants(file)[0], read_experiment(Path(file)))
    found = losses_of(trials, stored)
    assert [each["losses"] for each in found] == [[loss, loss]] * len(RATES)


def test_what_no_claim_compares_may_run_untuned_beside_what_is_tuned(
    ask: Ask, tmp_path: Path
) -> None:
    named = {"with": {}, "without": {"model.position": "none"}, "rms": {"model.norm": "rms"}}
    claim = {"id": "position.needed", "predicts": [{"worse": "without"}]}
    file = ask(tune={RATE: RATES}, variants=named, claims=[claim])
    results = Results(tmp_path / "run")
    for known, is_tuned in (("rms", False), ("with", False), ("without", True)):
        (variant,) = [each for each in variants(file) if each.variant == known]
        made = choose(variant, read_experiment(Path(file)), tried((2, 2), (1, 1)))
        keep_choices(results, "small", [made])
        if known == "rms":
            results.root.joinpath("tuned/small.yaml").unlink()
        plan = make_plan([file], "smoke", {}, [300], results=results)
        assert bool(plan.experiments["small"].choices) == is_tuned
    rates = {t.variant: t.config["train"]["optimizer"]["lr"] for t in plan.trials.values()}
    assert rates == {"with": 3e-3, "without": 3e-3, "rms": 1e-2}
