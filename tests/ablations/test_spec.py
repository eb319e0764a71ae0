"""Chapters, experiments and profiles as their YAML says them: what there is, and what is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import question

from ablations.config import FOLDER
from ablations.measurement import where_timed
from ablations.plan import make_plan
from ablations.predictions import read_claims
from ablations.profile import PROFILES, Profile, read_profile
from ablations.spec import (
    RETIRED,
    Experiment,
    chosen,
    experiments,
    find,
    read_chapter,
    read_experiment,
)
from ablations.store.words import AXES, CHAPTERS
from ablations.tasks import TASK
from model.config import ConfigError
from model.strict_yaml import parse_yaml

Ask = Callable[..., str]


def asked(name: str) -> Experiment:
    return read_experiment(experiments()[name])


def problem_of(act: Callable[[], Any]) -> str:
    """The one line that a mistake is answered with."""
    with pytest.raises(ConfigError) as error:
        act()
    (said,) = error.value.problems
    assert "\n" not in said
    return said


# Chapters.


def test_every_folder_is_a_chapter_and_every_axis_declares_its_variants_once() -> None:
    folders = {path.name for path in (FOLDER / "experiments").iterdir()}
    assert folders == set(CHAPTERS)
    assert [*dict.fromkeys(name.partition("/")[0] for name in experiments())] == [*CHAPTERS]
    for axis in AXES:
        chapter = read_chapter(FOLDER / "experiments" / axis)
        assert chapter is not None
        assert len({each.color for each in chapter.variants.values()}) == len(chapter.variants)
        sets = {label: each.set for label, each in chapter.variants.items()}
        for name in find(axis):
            shared = asked(name)
            assert shared.chapter in (None, chapter)
            if name.endswith(("/g2p", "/text")):
                assert (shared.variants, shared.baseline) == (sets, chapter.baseline)


def test_an_experiment_measures_all_variants_of_its_folder_some_by_name_or_its_own(
    tmp_path: Path,
) -> None:
    chapter = {"question": "Does it?", "baseline": "with", "variants": {
        "with": {"color": "ink", "changes": "nothing", "set": {}},
        "wide": {"color": "amber", "changes": "weights", "set": {"model.d_model": 32}},
        "wrong": {"color": "teal dashed", "changes": "heads", "set": {"model.n_heads": 7}},
    }}  # fmt: skip
    (tmp_path / "variants.yaml").write_text(json.dumps(chapter, indent=1))
    file = tmp_path / "mine.yaml"

    def read(**changes: Any) -> Experiment:
        written = {**question(), **changes}
        file.write_text(json.dumps({k: v for k, v in written.items() if v is not None}, indent=1))
        return read_experiment(file)

    plain = {"baseline": None, "changes": None, "variants": None}
    every = read(**plain)
    assert list(every.variants) == ["with", "wide", "wrong"]
    assert (every.baseline, every.changes) == ("with", "wide: weights; wrong: heads")
    some = read(**{**plain, "variants": ["wide", "with"]})
    assert list(some.variants) == ["with", "wide"], "in the chapter's order"
    own = read(**{**plain, "changes": "all", "variants": {"with": {}, "b": {"model.depth": 2}}})
    assert (own.baseline, list(own.variants)) == ("with", ["with", "b"])
    line = problem_of(lambda: read(**{**plain, "variants": ["wied"]}))
    assert line.endswith(f"no 'wied' in {tmp_path}/variants.yaml. Did you mean 'wide'?")
    read(**plain)
    line = problem_of(lambda: make_plan([str(file)], "smoke", {}, [0]))
    assert line.startswith(f"mine: {tmp_path}/variants.yaml:"), "where the variant is written"
    chapter["variants"]["wide"]["color"] = "umber"
    (tmp_path / "variants.yaml").write_text(json.dumps(chapter, indent=1))
    line = problem_of(lambda: read(**plain))
    assert "variants.wide.color: no 'umber'. Did you mean 'amber'?" in line


def test_a_word_is_a_chapter_an_experiment_or_a_file() -> None:
    assert list(find("norm/text")) == ["norm/text"]
    assert list(find("norm"))[:2] == ["norm/g2p", "norm/text"]
    assert find("here/my own.yaml") == {"my_own": Path("here/my own.yaml")}
    for word, hint in [
        ("positoins", "Did you mean 'positions'?"),
        ("norm/txt", "Did you mean 'norm/text'?"),
        ("scarce", "Did you mean 'smoothing/scarce'?"),
        ("text", "Did you mean one of positions/text, norm/text, heads/text, scale/text?"),
        ("x" * 1000, "`python -m ablations list` names them all."),
    ]:
        line = problem_of(lambda word=word: find(word))
        assert line == f"no chapter or experiment '{word[:100]}'. {hint}"


# What is asked.


def test_every_claim_of_the_ledger_is_decided_by_an_experiment_at_every_profile() -> None:
    for profile in PROFILES:
        names, _ = chosen((), profile)
        named = {claim.id for name in names for claim, _ in asked(name).predictions}
        assert named == set(read_claims()), profile


def test_what_is_too_long_for_a_profile_runs_where_it_is_asked_for_by_its_own_name() -> None:
    assert chosen((), "full") == ([*experiments()], [])
    names, left_out = chosen(("norm",), "quick")
    assert left_out == ["norm/warmup-deeper"]
    assert [*names, *left_out] == [*find("norm")]
    assert chosen(("norm", "norm/warmup-deeper"), "quick") == ([*find("norm")], [])
    assert [name for name in experiments() if asked(name).from_ and name.startswith(AXES)] == [
        "norm/warmup-deeper"
    ]


def test_a_key_that_went_answers_with_what_replaces_it(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    for key, fix in RETIRED.items():
        file.write_text(json.dumps({**question(), key: "old"}, indent=1))
        last = file.read_text().count("\n")
        line = problem_of(lambda: read_experiment(file))
        assert line == f"{file}:{last}: {key} is gone: {fix}"


def test_a_measure_of_another_kind_is_sent_where_it_belongs(ask: Ask) -> None:
    for key, value, words in [
        ("evaluations", ["qualty"], "no measurement 'qualty'. Did you mean 'quality'?"),
        ("probes", ["quality"], "probes: 'quality' belongs under evaluations"),
        ("benchmarks", {"share": {}}, "benchmarks: 'share' belongs under probes"),
        ("evaluations", ["throughput"], "evaluations: 'throughput' belongs under benchmarks"),
    ]:
        assert words in problem_of(
            lambda k=key, v=value: make_plan([ask(**{k: v})], "smoke", {}, [0])
        )


# Profiles.


def test_every_task_has_a_small_size() -> None:
    smoke = read_profile("smoke")
    assert list(smoke.required) == ["train.steps"]
    for task in TASK.components:
        settings = smoke.settings.values.get(task)
        assert settings, f"add the task {task} to ablations/profiles/smoke.yaml"
        assert settings["train.steps"] <= 100, task
    for path in (FOLDER / "profiles").glob("*.yaml"):
        unknown = read_profile(path.stem).settings.values.keys() - TASK.components.keys()
        assert not unknown, f"{path.name}: no task {unknown}"


def test_the_number_of_seeds_is_between_one_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.yaml"
    monkeypatch.setattr("ablations.profile.find_profile", lambda _: file)
    for seeds in ("0", "11", "[300]", "many"):
        file.write_text(f"timing: {{}}\nseeds: {seeds}\n")
        with pytest.raises(ConfigError, match=r"own\.yaml:2: expected 1 to 10 seeds"):
            read_profile("own")


def test_a_plan_is_refused_before_it_would_train_at_full_size(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"task.words": 200, "task.valid_words": 40, "task.test_words": 40}
    for text in ("", "g2p:\n", "copy: {train.steps: 4}\ng2p: {model.depth: 1}\n"):
        small = Profile("tiny", 1, {}, parse_yaml(text, "tiny.yaml"), ["train.steps"])
        monkeypatch.setattr("ablations.plan.read_profile", lambda _, small=small: small)
        said = problem_of(lambda: make_plan([ask(settings=sizes)], "tiny", {}, [0]))
        assert said.startswith("small: tiny.yaml")
        assert "no train.steps for the task 'g2p', which would run at full size" in said
        assert "add `g2p: {train.steps: …}` to ablations/profiles/tiny.yaml" in said
        assert "or write train.steps=… on the command line" in said
    typed = make_plan([ask(settings=sizes)], "tiny", {"train.steps": 4}, [0])
    given = make_plan([ask(settings={**sizes, "train.steps": 4})], "tiny", {}, [0])
    assert set(typed.trials) == set(given.trials)


def test_a_profile_caps_what_an_experiment_spends_but_not_what_is_typed(ask: Ask) -> None:
    settings = {"train.steps": 1000, "train.batch_tokens": 256, "train.schedule": "constant"}
    file = ask(settings=settings)

    def trained(profile: str, **typed: Any) -> tuple[int, int]:
        (want, *_) = make_plan([file], profile, typed, [0]).trials.values()
        return want.config["train"]["steps"], want.config["train"]["batch_tokens"]

    assert trained("quick") == (1000, 256)
    assert trained("smoke") == (40, 256)
    assert trained("smoke", **{"train.steps": 300}) == (300, 256)


def test_a_large_profile_multiplies_the_steps_that_an_experiment_sets_and_no_others(
    ask: Ask,
) -> None:
    times = read_profile("full").times["train.steps"]

    def steps(**changes: Any) -> int:
        (want, *_) = make_plan([ask(**changes)], "full", {}, [0]).trials.values()
        return int(want.config["train"]["steps"])

    assert times > 1
    assert steps(settings={"train.steps": 10}) == 10 * times
    assert steps(settings={}) == read_profile("full").settings.values["g2p"]["train.steps"]


def test_steps_that_are_no_finite_number_are_refused_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    for steps in (".inf", "-.inf", ".nan", "many", "null"):
        for each in ("smoke", "quick", "full"):
            text = json.dumps(question(), indent=1)
            file.write_text(text.replace('"train.steps": 4', f'"train.steps": {steps}'))
            with pytest.raises(ConfigError, match=r"small\.yaml:\d+: train\.steps: "):
                make_plan([str(file)], each, {}, [0])


# Where an experiment is timed.


def at(benchmark: str = "layer", timing: dict[str, Any] | None = None, **points: Any) -> list[Any]:
    return where_timed(benchmark, points, **(timing or {}))


def test_what_is_not_asked_is_where_the_benchmark_says() -> None:
    assert at() == [{"length": 64, "batch": 1, "pass": "training"}]
    assert at("decode") == [{"position": 32, "batch": 1, "cache": "kept"}]
    assert at("padding") == [{"batches": 4, "to": "own"}, {"batches": 4, "to": "longest"}]


def test_a_budget_of_tokens_makes_the_batch() -> None:
    found = at(length=[8, 24, 64, 128], tokens=[64])
    assert [(p["length"], p["batch"]) for p in found] == [(8, 8), (24, 2), (64, 1), (128, 1)]
    assert {p["tokens"] for p in found} == {64}


def test_a_walk_goes_as_far_as_its_profile_and_is_thinned_evenly_between_its_ends() -> None:
    values = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    for timing, kept in [
        ({"lengths": 5}, [32, 128, 512, 2048, 8192]),
        ({"lengths": 3}, [32, 512, 8192]),
        ({"lengths": 2}, [32, 8192]),
        ({"lengths": 9}, values),
        ({"lengths": 20}, values),
        ({"longest": 256}, [32, 64, 128, 256]),
        ({"longest": 200, "lengths": 2}, [32, 128]),
        ({"longest": 1}, [32]),  # one is left to be timed
    ]:
        assert [place["length"] for place in at(timing=timing, length=values)] == kept


def test_only_the_walked_coordinate_is_thinned() -> None:
    found = at("decode", {"longest": 8, "lengths": 2}, position=[4, 8, 16], batch=[1, 2, 16])
    assert [(p["position"], p["batch"]) for p in found] == [
        (far, batch) for batch in (1, 2, 16) for far in (4, 8)
    ]


def test_a_wrong_place_is_answered_in_one_line() -> None:
    for points, words in [
        ({"lenght": [8]}, "lenght: no such coordinate. Did you mean 'length'"),
        ({"position": [8]}, "position: no such coordinate"),
        ({"length": []}, "length: expected a list of values, got []"),
        ({"length": 8}, "length: expected a list of values, got 8"),
        ({"pass": []}, "pass: expected a list of values, got []"),
        ({"length": [16, 8]}, "length: expected whole numbers that rise"),
        ({"length": [8, 8]}, "length: expected whole numbers that rise"),
        ({"length": [0, 8]}, "length: expected whole numbers that rise"),
        ({"length": [8.5]}, "length: expected whole numbers that rise"),
        ({"length": ["8"]}, "length: expected whole numbers that rise"),
        ({"batch": [True]}, "batch: expected whole numbers that rise"),
        ({"tokens": [64, 32]}, "tokens: expected whole numbers that rise"),
        ({"pass": ["forwards"]}, "pass: no 'forwards'. Did you mean 'forward'"),
    ]:
        line = problem_of(lambda points=points: at(**points))
        assert line.startswith(f"benchmarks.layer.{words}")
    line = problem_of(lambda: Experiment(**question(benchmarks={"layer": 7})))
    assert line == "benchmarks.layer: expected {coordinate: [values]}, got 7"
