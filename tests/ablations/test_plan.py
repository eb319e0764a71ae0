"""What would run: each trial once, and timing where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from small_plans import BOTH, POST, planned

from ablations.measurement import Metric, Probe, discover, metrics_by_name
from ablations.plan import Plan, make_plan
from ablations.store.identity import DECIDING
from model.config import ConfigError

Ask = Callable[..., str]
HERE = {"length": 16, "batch": 64, "pass": "training"}  # where nothing else is asked


# Who is wanted.


def test_a_control_that_questions_share_is_wanted_once_a_seed(ask: Ask) -> None:
    plan = planned(ask("one"), ask("two", variants=POST), seeds=[0, 1])
    one, two = (each.trials for each in plan.experiments.values())
    assert [t.id for t in one if t.variant == "with"] == [t.id for t in two if t.variant == "with"]
    assert len(plan.trials) == 2 * 3


def test_time_is_asked_of_the_first_seed_only_beside_the_control_of_that_seed(ask: Ask) -> None:
    across = {"depth": {"one": {"model.depth": 1}, "two": {"model.depth": 2}}}
    plan = planned(ask(sources=BOTH, factors=across), seeds=[4, 2])
    trials = plan.experiments["small"].trials
    baselines = {
        trial.factors["depth"]: trial.id
        for trial in trials
        if (trial.variant, trial.seed) == ("with", 4)
    }
    for trial in trials:
        baseline = baselines[trial.factors["depth"]]
        expected = {("throughput", baseline): [HERE]} if trial.seed == 4 else {}
        assert plan.trials[trial.id].timings == expected


def test_where_two_questions_ask_for_one_time_it_is_taken_at_the_places_of_both(ask: Ask) -> None:
    points = [{"throughput": {"length": lengths}} for lengths in ([4, 8], [8, 12])]
    files = [ask(f"q{i}", sources=BOTH, benchmarks=each) for i, each in enumerate(points)]
    for want in planned(*files).trials.values():
        (places,) = want.timings.values()
        assert [at["length"] for at in places] == [4, 8, 12]


# What is not trained.


def untrained(ask: Ask, *measures: str, **changes: Any) -> str:
    quantity = next(iter(metrics_by_name([*measures])))
    return ask(sources=[*measures], metric=quantity, **changes)


def test_what_is_counted_or_timed_is_not_trained_and_asks_one_seed_at_every_profile(
    ask: Ask,
) -> None:
    for measures, seeds in ((["throughput"], [4, 2]), (["share"], None), (["memory"], None)):
        file = untrained(ask, *measures)
        plan = make_plan([file], "smoke", {}, seeds)
        assert {trial.seed for trial in plan.experiments["small"].trials} == {DECIDING[0]}
        assert {want.trained for want in plan.trials.values()} == {False}
        assert {want.work for want in plan.trials.values()} == {0.0}


def test_what_depends_on_the_first_weights_asks_every_seed(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Draws(Probe):
        metrics: ClassVar = {"drawn": Metric("1", "lower", "what was drawn")}

    monkeypatch.setitem(discover().components, "draws", Draws)
    plan = make_plan([untrained(ask, "draws")], "smoke", {}, None)
    assert {trial.seed for trial in plan.experiments["small"].trials} == set(DECIDING)


def test_a_question_that_trains_nothing_has_no_score_of_its_task_for_metric(ask: Ask) -> None:
    with pytest.raises(ConfigError, match=r"metric: no 'per'\..*step_time"):
        planned(ask(sources=["throughput"]))
    assert planned(ask(sources=["quality", "throughput"], metric="step_time")).trials


def test_two_files_of_one_name_are_not_taken_for_one_question(ask: Ask) -> None:
    with pytest.raises(ConfigError, match="have one name"):
        planned(ask("here/twin"), ask("there/twin", variants=POST))


# What is refused.


def test_the_problems_of_all_questions_are_told_at_once(ask: Ask) -> None:
    wrong = {"with": {}, "wrong": {"model.n_heads": 5}}
    with pytest.raises(ConfigError) as error:
        planned(ask("one", variants=wrong), ask("two"), ask("three", metric="prr"))
    assert [problem.partition(":")[0] for problem in error.value.problems] == ["one", "three"]
    assert "'prr'. Did you mean 'per'" in error.value.problems[1]
    with pytest.raises(ConfigError, match=r"'qualty'.*'quality'"):
        planned(ask(sources=["qualty"]))


def test_the_size_of_a_plan_is_that_of_all_questions_and_seeds(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ask("one"), ask("two", variants=POST)
    for limit, large in ((8, False), (7, True)):
        monkeypatch.setattr("ablations.plan.LARGE", limit)
        assert make_plan(files, "smoke", {}, [0, 1], large).trials
    with pytest.raises(ConfigError, match=r"^8 trials, .* or add --large$"):
        make_plan(files, "smoke", {}, [0, 1])


# What the command line sets.


def test_what_is_set_deeper_is_set_later_in_whatever_order_it_is_typed(ask: Ask) -> None:
    deep, whole = {"model.norm.eps": 0.5}, {"model.norm": "rms"}
    plans = [make_plan([ask()], "smoke", both, [0]) for both in (deep | whole, whole | deep)]
    one, two = (list(plan.trials) for plan in plans)
    assert one == two
    assert {w.config["model"]["norm"]["eps"] for w in plans[0].trials.values()} == {0.5}
    levels = {"model.norm.eps": {"0.5": 0.5, "0.1": 0.1}, "model.norm": {"layer": "layer"}}
    crossed = make_plan([ask()], "smoke", {}, [0], factors=levels)
    assert {w.config["model"]["norm"]["eps"] for w in crossed.trials.values()} == {0.5, 0.1}
    levels = {"model.norm": {"layer": "layer", "rms": "rms"}}
    with pytest.raises(ConfigError, match=r"model\.norm\.eps: a crossed factor above it replaces"):
        make_plan([ask()], "smoke", {"model.norm.eps": 0.5}, [0], factors=levels)


# Which seeds.


def test_a_profile_takes_the_first_of_the_reported_seeds(ask: Ask) -> None:
    assert list(DECIDING) == list(range(300, 310))
    counts = {"smoke": 1, "quick": 5, "full": 10, "gpu": 10}
    for profile, count in counts.items():
        trials = make_plan([ask()], profile, {}, None).trials.values()
        assert sorted({trial.seed for trial in trials}) == list(range(300, 300 + count))


def test_a_variant_that_changes_nothing_is_told(ask: Ask) -> None:
    variants = {
        "with": {},
        "with, too": {"model.residual": "pre"},
        "without": {"model.norm": "rms"},
    }
    (note,) = make_plan([ask(variants=variants)], "smoke", {}, [300]).notes
    assert note == "small: 'with, too' has the same settings as its baseline, with"


# Files of one's own: the same one twice, or one without its separator, is not what was meant.

WORDS = [f"{'ab' * n}c\tAH B K\n" for n in range(1, 12)]
SMALL = {"model.d_model": 16, "model.depth": 1, "model.max_len": 64, "train.steps": 4}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Three files of different words."""
    found = {split: tmp_path / f"{split}.tsv" for split in ("train", "valid", "test")}
    for number, file in enumerate(found.values()):
        file.write_text("".join(WORDS[: len(WORDS) - number]))
    return found


def of_files(ask: Ask, files: dict[str, Path]) -> Plan:
    settings = {f"task.{split}": str(file) for split, file in files.items()}
    return make_plan([ask(settings={**SMALL, **settings})], "smoke", {}, [300])


def refusal(ask: Ask, files: dict[str, Path]) -> str:
    with pytest.raises(ConfigError) as refused:
        of_files(ask, files)
    (line,) = refused.value.problems
    return line


def test_a_split_that_is_the_training_file_or_a_copy_of_it_is_refused(
    ask: Ask, files: dict[str, Path]
) -> None:
    for split in ("valid", "test"):
        line = refusal(ask, {**files, split: files["train"]})
        assert f"task.{split}={files['train']}: the same as task.train: " in line
    files["test"].write_bytes(files["train"].read_bytes())
    assert f"task.test={files['test']}: the same as task.train: " in refusal(ask, files)
    files["test"].write_text("".join(WORDS[:2]))
    assert of_files(ask, files).notes == []


def test_a_tsv_without_a_tab_is_refused_and_other_names_are_not(
    ask: Ask, files: dict[str, Path], tmp_path: Path
) -> None:
    spaced = "# said by hand\n\n" + "".join(WORDS).replace("\t", "  ")
    files["train"].write_text(spaced)
    assert f"task.train={files['train']}:1: no tab in it" in refusal(ask, files)
    plain = tmp_path / "train.dict"
    plain.write_text(spaced)
    assert of_files(ask, {**files, "train": plain}).notes == []
