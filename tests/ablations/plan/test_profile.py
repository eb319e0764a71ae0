"""How much a profile spends on a task, and which tasks it may not pass over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ablations.plan.profile import Profile, read_profile
from ablations.plan.source import FOLDER
from ablations.plan.wanted import make_plan
from ablations.tasks import TASK
from model.config import ConfigError
from model.strict_yaml import parse_yaml

Ask = Callable[..., str]


def test_every_task_has_a_small_size() -> None:
    smoke = read_profile("smoke")
    assert list(smoke.required) == ["train.steps"]
    for task in TASK.parts:
        settings = smoke.settings.values.get(task)
        assert settings, f"add the task {task} to ablations/profiles/smoke.yaml"
        assert settings["train.steps"] <= 100, task
    for path in (FOLDER / "profiles").glob("*.yaml"):
        unknown = read_profile(path.stem).settings.values.keys() - TASK.parts.keys()
        assert not unknown, f"{path.name}: no task {unknown}"


def test_the_number_of_seeds_is_between_one_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.yaml"
    monkeypatch.setattr("ablations.plan.profile.find_profile", lambda _: file)
    for seeds in ("0", "11", "[300]", "many"):
        file.write_text(f"timing: {{}}\nseeds: {seeds}\n")
        with pytest.raises(ConfigError, match=r"own\.yaml:2: expected 1 to 10 seeds"):
            read_profile("own")


def test_a_plan_is_refused_before_it_would_train_at_full_size(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"task.words": 200, "task.valid_words": 40, "task.test_words": 40}
    for text in ("g2p:\n", "g2p: {model.depth: 1}\n", "copy: {train.steps: 4}\n"):
        small = Profile("tiny", 1, {}, parse_yaml(text, "tiny.yaml"), ["train.steps"])
        monkeypatch.setattr("ablations.plan.wanted.read_profile", lambda _, small=small: small)
        with pytest.raises(ConfigError) as error:
            make_plan([ask(settings=sizes)], "tiny", {}, [0])
        (said,) = error.value.problems
        assert "tiny.yaml" in said
        assert "no train.steps for the task 'g2p', which would run at full size" in said
        assert "add `g2p: {train.steps: …}` to ablations/profiles/tiny.yaml" in said
        assert said.endswith("or write train.steps=… on the command line")
    typed = make_plan([ask(settings=sizes)], "tiny", {"train.steps": 4}, [0])
    asked = make_plan([ask(settings={**sizes, "train.steps": 4})], "tiny", {}, [0])
    assert set(typed.wanted) == set(asked.wanted)
