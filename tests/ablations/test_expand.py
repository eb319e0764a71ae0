"""From a question to its trials: what outranks what, what a trial is, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ablations.config import FOLDER, override, read_yaml, resolve_trial
from ablations.expand import Trial, expand
from ablations.facts import identity_of
from ablations.profile import Profile
from ablations.spec import read_experiment
from model.config import ConfigError
from model.strict_yaml import Source

Ask = Callable[..., str]
SEEDED = {"words": 200, "valid_words": 40, "test_words": 40}


def trials(
    file: str | Path,
    overrides: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (0,),
    profile: Mapping[str, Any] | None = None,
) -> list[Trial]:
    spent = Profile("own", 1, {}, Source("own.yaml", {"g2p": dict(profile or {})}))
    return expand(read_experiment(Path(file)), spent, overrides or {}, seeds)


def get(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree[key]
    return tree


def settings_of(file: str, path: str, **asked: Any) -> list[Any]:
    """What every trial of an experiment has at a path."""
    return [get(trial.config, path) for trial in trials(file, **asked)]


def problems(file: str | Path, **asked: Any) -> list[str]:
    with pytest.raises(ConfigError) as error:
        trials(file, **asked)
    assert all("\n" not in problem for problem in error.value.problems)
    return error.value.problems


# What outranks what: base ← profile ← experiment ← command line ← variant ← seed.

LEAN = {"settings": {"task.words": 200, "task.valid_words": 40, "task.test_words": 40}}


def test_each_layer_outranks_the_one_before(ask: Ask) -> None:
    base = read_yaml(FOLDER / "base/g2p.yaml").values["train"]["steps"]
    plain, own = ask("plain", **LEAN), ask("own", settings={**LEAN["settings"], "train.steps": 8})
    profile, typed = {"train.steps": 7}, {"train.steps": 9}
    assert settings_of(plain, "train.steps") == [base, base]
    assert settings_of(plain, "train.steps", profile=profile) == [7, 7]
    assert settings_of(own, "train.steps", profile=profile) == [8, 8]
    assert settings_of(own, "train.steps", profile=profile, overrides=typed) == [9, 9]


def test_a_variant_outranks_the_command_line_where_it_alone_replaces_more(ask: Ask) -> None:
    rival = {"train.schedule": {"name": "linear", "warmup": 9}}
    file = ask(**LEAN, variants={"with": {}, "rival": rival})
    warmups = settings_of(file, "train.schedule.warmup", overrides={"train.schedule.warmup": 5})
    assert warmups == [5, 9]


def test_seeds_come_last_and_move_nothing_else(ask: Ask) -> None:
    four = trials(ask(), seeds=(3, 5))
    assert [(trial.variant, trial.seed) for trial in four] == [
        ("with", 3), ("with", 5), ("without", 3), ("without", 5),
    ]  # fmt: skip
    assert {**four[0].config, "seed": 5} == four[1].config
    assert len({trial.id for trial in four}) == 4


def test_a_variant_gets_as_many_steps_as_fit_into_the_time_of_its_baseline(ask: Ask) -> None:
    settings = {**LEAN["settings"], "train.schedule": {"name": "linear", "warmup": 20}}
    file = ask(settings=settings, step_times={"without": 0.8})
    typed = {"train.steps": 100}
    assert settings_of(file, "train.steps", overrides=typed) == [100, 125]
    assert settings_of(file, "train.schedule.warmup", overrides=typed) == [20, 25]
    for wrong in ({"gone": 1.0}, {"without": 0}, {"without": "fast"}):
        with pytest.raises(ConfigError, match=r"step_times\.\w+: expected a variant and a number"):
            trials(ask(step_times=wrong))


# Crossed factors.

ACROSS = {"size": {"small": {"model.depth": 1}, "large": {"model.depth": 2, "model.n_heads": 2}}}


def test_every_variant_is_crossed_with_every_level(ask: Ask) -> None:
    found = trials(ask(factors={**ACROSS, "rate": {"plain": None}}), seeds=(0, 1))
    assert len(found) == 8
    assert {(trial.variant, trial.factors["size"]) for trial in found} == {
        (label, size) for label in ("with", "without") for size in ("small", "large")
    }
    for trial in found:
        assert trial.config["model"]["depth"] == (1 if trial.factors["size"] == "small" else 2)
        assert trial.factors["rate"] == "plain"


def test_what_a_question_varies_cannot_be_set(ask: Ask) -> None:
    for path in ["model.position", "model.position.base", "model.depth", "model.n_heads"]:
        variants = {"with": {"model.position": "sinusoidal"}, "without": {"model.position": "none"}}
        (problem,) = problems(ask(variants=variants, factors=ACROSS), overrides={path: 2})
        assert problem.startswith(f"{path}: ")


def test_a_variant_outranks_a_level_and_refers_to_what_the_level_sets(ask: Ask) -> None:
    rival = {"model": {"name": "recurrent", "d_model": "${model.d_model}"}}
    across = {"width": {"narrow": {"model.d_model": 16}, "wide": {"model.d_model": 32}}}
    variants = {"with": {}, "lstm": rival, "own": {"model.d_model": 8}}
    found = settings_of(ask(variants=variants, factors=across), "model.d_model")
    assert found == [16, 32, 16, 32, 8, 8]


# Identity.


def id_of(*changes: tuple[str, Any], seed: int = 0) -> str:
    sizes = {f"task.{option}": size for option, size in SEEDED.items()}
    tree = override(read_yaml(FOLDER / "base/g2p.yaml").values, {**sizes, **dict(changes)})
    return identity_of({**resolve_trial(tree), "seed": seed})


def test_another_way_to_write_the_same_is_the_same_trial() -> None:
    for path, value in [
        ("model.n_heads", 4.0),
        ("model.d_model", 6.4e1),
        ("train.steps", 500.0),
        ("train.clip", 1),
        ("task.words", 200.0),
        ("model.d_head", 16),
        ("model.position", "sinusoidal"),
        ("model.position", {"name": "sinusoidal"}),
        ("model.position", {"base": 10000, "name": "sinusoidal"}),
        ("model.norm", "layer"),
        ("model.feedforward", {"bias": True, "name": "relu"}),
        ("train.optimizer", {"name": "adam", "lr": 0.01}),
        ("task", {"name": "g2p", **SEEDED}),
    ]:
        assert id_of((path, value)) == id_of()


def test_another_setting_is_another_trial() -> None:
    for path, value in [
        ("model.n_heads", 2),
        ("model.position.base", 9999.0),
        ("model.norm.eps", 1e-6),
        ("train.steps", 601),
        ("train.clip", None),
        ("train.evaluations", 6),
        ("train.optimizer.beta2", 0.99),
        ("train.label_smoothing", 0.1),
        ("task.words", 201),
        ("task.test_words", 41),
        ("task.split", "word"),
    ]:
        assert id_of((path, value)) != id_of()


# What is shipped.


def leaves(tree: Mapping[str, Any], above: str = "") -> Iterable[str]:
    for key, value in tree.items():
        path = f"{above}.{key}" if above else key
        yield from leaves(value, path) if isinstance(value, dict) else [path]


def test_a_base_writes_every_value_out() -> None:
    for file in sorted((FOLDER / "base").glob("*.yaml")):
        tree = read_yaml(file).values
        assert sorted(leaves(tree)) == sorted(leaves(resolve_trial(tree)))


# What is refused.

HEAD = """\
question: Is everything wrong?
task: g2p
held_constant: all else
changes: nothing
metric: per
evaluations: [quality]
baseline: fine
"""


def written(folder: Path, text: str, head: str = HEAD) -> Path:
    file = folder / "wrong.yaml"
    file.write_text(head + dedent(text), encoding="utf-8")
    return file


def test_every_problem_of_every_variant_is_told_at_once_by_file_and_line(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """\
        variants:
          fine: {}
          heads: {model.n_heads: 7}
          position: {model.position: {name: sinusodal}}
          option:
            model.position:
              name: sinusoidal
              bsae: 3
        settings:
          task.words: 200
          train.steps: many
          model.d_model: 32
        factors:
          rate:
            plain: {}
            high: {train.optimizer: {name: adam, lrr: 1}}
        """,
    )
    found = problems(file)
    assert len(found) == 5
    for line, words in {
        10: ("model.n_heads=7", "d_model=32"),
        11: ("model.position", "'sinusodal'", "'sinusoidal'"),
        15: ("model.position.bsae", "'model.position.base'"),
        18: ("train.steps", "many"),
        23: ("train.optimizer.lrr", "'train.optimizer.lr'"),
    }.items():
        (problem,) = [each for each in found if each.startswith(f"{file}:{line}: ")]
        assert all(word in problem for word in words)


def test_a_model_that_does_not_fit_its_task_is_refused_by_what_does_not(ask: Ask) -> None:
    for overrides, word in [
        ({"model.position": "learned", "model.max_len": 9}, "max_len=9"),
        ({"model.kind": "decoder"}, "encoder_decoder"),
        ({"task.words": 10**7}, "task.words=10000000"),
        ({"model.n_heads": 7}, "n_heads=7"),
    ]:
        told, *_ = problems(ask(variants={"with": {}}), overrides=overrides)
        assert word in told
        assert ".yaml" not in told, "the command line set it"


def test_an_unknown_name_is_answered_with_the_nearest(ask: Ask) -> None:
    for changes, wrong, right in [
        ({"task": "gtp"}, "gtp", "g2p"),
        ({"baseline": "wiht"}, "wiht", "with"),
        ({"variants": {"with": {}, "x": {"model.postion": 1}}}, "postion", "model.position"),
        ({"variants": {"with": {}, "x": {"model.position": "leanred"}}}, "leanred", "learned"),
        ({"settings": {"modle.depth": 1}}, "modle", "model"),
        ({"settings": {"train.stesp": 1}}, "stesp", "train.steps"),
        ({"settings": {"train.lr": 1}}, "train.lr", "train.optimizer.lr"),
        ({"settings": {"train.warmup": 1}}, "train.warmup", "train.schedule.warmup"),
        ({"settings": {"model.steps": 1}}, "model.steps", "train.steps"),
        ({"settings": {"model.norm.epsilon": 1}}, "model.norm.epsilon", "model.norm.eps"),
        ({"settings": {"task.wrods": 1}}, "wrods", "task.words"),
        ({"settings": {"model.name": "transfromer"}}, "transfromer", "transformer"),
        ({"claim": []}, "claim", "claims"),
    ]:
        problem = problems(ask(**changes))[0]
        assert wrong in problem
        assert f"'{right}'" in problem


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "question: [a, b]"),
        (3, "held_constant: {a: b}"),
        (6, "evaluations: quality"),
        (7, "baseline: absent"),
        (8, "variants: [fine]"),
        (8, "variants: 3"),
        (9, "  fine: 3"),
        (9, "  fine: [model.depth]"),
        (10, "settings: 3"),
        (10, "settings: {train: 3}"),
        (10, "settings: {model: 3}"),
        (10, "settings: {model.n_heads: two}"),
        (10, "settings: {model.norm: no}"),
        (10, "settings: {train.optimizer: [adam]}"),
        (10, "factors: {depth: [1, 2]}"),
        (10, "factors: {depth: {one: 1}}"),
        (10, "claims: 3"),
        (10, "claims: [3]"),
        (10, "claims: [{statement: it has no id}]"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_by_file_and_line(
    tmp_path: Path, line: int, text: str
) -> None:
    lines = [*HEAD.splitlines(), "variants:", "  fine: {}", "settings: {task.words: 200}"]
    lines[line - 1] = text
    if line == 8:
        del lines[8]  # what stood below
    file = written(tmp_path, "", "\n".join(lines) + "\n")
    assert problems(file)[0].startswith(f"{file}:{line}: ")
