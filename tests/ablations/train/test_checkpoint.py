"""Whatever happens to a checkpoint, a whole one is used, another's is not, and none is run."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import small_task
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from small_task import Backwards, small_model
from torch import nn

import ablations.train.checkpoint
import ablations.train.loop
from ablations.signals import Stopped
from ablations.train.checkpoint import (
    Checkpointer,
    copied,
    load_weights,
    named,
    save_weights,
    stamp_of,
)
from ablations.train.config import OPTIMIZER, TrainConfig
from ablations.train.loop import Trainer, Training, validate
from model.config import ConfigError


def test_weights_with_another_stamp_are_refused(kept: Path) -> None:
    assert stamp_of(kept) == STAMP_WEIGHTS
    for stamp, words in [
        ({**STAMP_WEIGHTS, "code": "9c2d"}, "its code is 0a1b, not 9c2d"),
        ({**STAMP_WEIGHTS, "trial": "0" * 12}, "its trial is f302523445c7, not 000000000000"),
        ({**STAMP_WEIGHTS, "torch": "3"}, "its torch is None, not 3"),
        ({"trial": STAMP_WEIGHTS["trial"]}, "its code is 0a1b, not None"),
    ]:
        assert words in refusal(kept, stamp)


STAMP = {"trial": "abc", "code": "1"}
few = settings(max_examples=150)

Found = tuple[dict[str, torch.Tensor], dict[str, Any]] | None


def keeper(folder: Path, **stamp: str) -> Checkpointer:
    return Checkpointer(folder / "abc.unfinished", {**STAMP, **stamp})


def state(step: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    tensors = {
        "model:weight": torch.full((2, 3), float(step)),
        "model:half": torch.full((3,), step, dtype=torch.bfloat16),
        "optimizer:0/step": torch.tensor(float(step)),
        "random:cpu": torch.arange(8, dtype=torch.uint8),
        "model:flag": torch.tensor(True),
        "model:none": torch.empty(0),
    }
    return tensors, {"step": step, "measurements": [{"value": 0.1 + 0.2, "reason": None}]}


def keep(folder: Path, *steps: int) -> Checkpointer:
    kept = keeper(folder)
    for step in steps:
        kept.save(*state(step))
    return kept


def step_of(found: Found) -> int | None:
    """Which state was found; it must be that state to the last bit."""
    if found is None:
        return None
    tensors, facts = found
    expected, same_facts = state(facts["step"])
    assert facts == same_facts
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor), name
    return int(facts["step"])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpointer, bytes]:
    """A folder with two states in it, 7 and then 8, and the newest as it was written."""
    kept = keep(tmp_path_factory.mktemp("two"), 7, 8)
    return kept, kept.path.read_bytes()


def test_the_newest_of_many_is_found_and_the_one_before_it_kept(tmp_path: Path) -> None:
    kept = keep(tmp_path, 1, 2, 3)
    assert step_of(kept.load()) == 3
    kept.path.unlink()
    assert step_of(kept.load()) == 2
    kept.previous.unlink()
    assert step_of(kept.load()) is None


@few
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_newest_that_is_torn_or_has_a_flipped_bit_is_passed_over(
    two: tuple[Checkpointer, bytes], place: float, bit: int
) -> None:
    kept, newest = two
    at = int(place * len(newest))
    flipped = bytearray(newest)
    flipped[at] ^= 1 << bit
    for harmed in (newest[:at], flipped):
        kept.path.write_bytes(harmed)
        assert step_of(kept.load()) == 7


def test_a_bad_newest_never_takes_the_place_of_a_good_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(tmp_path, 1, 2)
    kept.path.write_bytes(b"torn")
    again = keeper(tmp_path)
    assert step_of(again.load()) == 1
    monkeypatch.setattr(ablations.train.checkpoint, "write_atomic", out_of_space)
    with pytest.raises(OSError, match="No space left"):
        again.save(*state(3))
    assert step_of(keeper(tmp_path).load()) == 1


def out_of_space(path: Path, content: bytes) -> None:
    raise OSError(28, "No space left on device")


def test_killed_between_the_two_renames_one_is_left(tmp_path: Path) -> None:
    """In a child that dies as soon as the newest has become the one before it."""
    kept = keep(tmp_path, 1, 2)
    child = os.fork()
    if child == 0:
        ablations.train.checkpoint.write_atomic = lambda path, content: os._exit(7)
        kept.save(*state(3))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not kept.path.exists()
    again = keeper(tmp_path)
    assert step_of(again.load()) == 2
    again.save(*state(3))
    again.save(*state(4))
    assert step_of(keeper(tmp_path).load()) == 4
    assert {path.name for path in tmp_path.iterdir()} == {
        "abc.unfinished",
        "abc.unfinished.previous",
    }


def test_a_checkpoint_names_what_made_it(tmp_path: Path) -> None:
    kept = keep(tmp_path, 1)
    assert stamp_of(kept.path).items() >= STAMP.items()
    save_file(state(1)[0], kept.path, metadata={"words": json.dumps([])})
    assert stamp_of(kept.path) == {}
    kept.path.write_bytes(b"torn")
    assert stamp_of(kept.path) == stamp_of(tmp_path / "nothing") == {}


def test_a_state_is_due_when_time_has_passed_or_the_end_is_near(tmp_path: Path) -> None:
    asked: list[bool] = []
    path = tmp_path / "kept"
    assert Checkpointer(path, {}, seconds=0.0).is_due()
    patient = Checkpointer(path, {}, seconds=1e9, is_stopping=lambda: bool(asked))
    assert not patient.is_due()
    patient.save(*state(1))
    asked.append(True)
    assert patient.is_due()
    with pytest.raises(Stopped):
        patient.save(*state(2))
    assert step_of(patient.load()) == 2


CPU = torch.device("cpu")
STAMP_WEIGHTS = {"trial": "f302523445c7", "code": "0a1b"}


def run(select: str = "last", average: float | None = None, **options: Any) -> Trainer:
    config = TrainConfig(
        **{"steps": 12, "evaluations": 12, "batch_tokens": 60, **options},
        select=select,  # type: ignore[arg-type]
        average=average,
    )
    trainer = Trainer(small_model(), Backwards(), config, 0, CPU)
    trainer.run(lambda *_: None, None)
    return trainer


def valid_losses(trainer: Trainer) -> list[float]:
    return [r.value for r in trainer.training.losses("valid") if r.value is not None]


@pytest.mark.parametrize("select", ["last", "best"])
def test_the_mean_is_what_is_evaluated_and_what_is_left(select: str) -> None:
    averaged, plain = run(select, average=0.8), run(select)
    train = [[r.value for r in t.training.losses("train")] for t in (averaged, plain)]
    assert train[0] == train[1]  # averaging changes nothing of the training itself
    assert valid_losses(averaged)[0] == valid_losses(plain)[0]
    assert all(a != b for a, b in zip(valid_losses(averaged)[1:], valid_losses(plain)[1:]))  # noqa: B905
    left = validate(averaged.model, averaged.task, CPU)
    assert left == (valid_losses(averaged)[-1] if select == "last" else averaged.best_loss)


@pytest.mark.parametrize("lr", [0.4, 50.0], ids=["better", "only worse"])
def test_the_best_trained_on_validation_are_left_and_not_the_last(lr: float) -> None:
    options = {"optimizer": {"name": "sgd", "lr": lr}, "steps": 40, "evaluations": 40}
    options["schedule"] = {"name": "constant"}
    best, last = run("best", **options), run("last", **options)
    losses = valid_losses(last)
    assert valid_losses(best) == losses  # choosing changes nothing of the training itself
    assert min(losses[1:]) < losses[-1]
    assert (losses[0] < min(losses[1:])) == (lr == 50.0), "the untrained weights are no choice"
    assert validate(best.model, best.task, CPU) == min(losses[1:])
    assert validate(last.model, last.task, CPU) == losses[-1]


def test_tied_weights_are_stored_once_and_come_back_tied(tmp_path: Path) -> None:
    stored, fresh = (small_model(seed, tied="all") for seed in (0, 1))
    save_weights(stored, tmp_path / "weights", STAMP_WEIGHTS)
    on_disk = load_file(tmp_path / "weights")
    assert sum(t.numel() for t in on_disk.values()) == sum(p.numel() for p in stored.parameters())
    assert len(on_disk) < len(stored.state_dict())
    load_weights(fresh, tmp_path / "weights", STAMP_WEIGHTS)
    torch.testing.assert_close(fresh.state_dict(), stored.state_dict(), rtol=0, atol=0)
    places = [{t.data_ptr() for t in m.state_dict().values()} for m in (stored, fresh)]
    assert len(places[0]) == len(places[1])


def refusal(path: Path, stamp: dict[str, str]) -> str:
    """The one line that names the file and what to do; the model stays as it was."""
    model = nn.Linear(3, 2)
    before = copied(model)
    with pytest.raises(ConfigError) as caught:
        load_weights(model, path, stamp)
    assert all(torch.equal(before[name], tensor) for name, tensor in named(model).items())
    (line,) = caught.value.problems
    assert len(line.splitlines()) == 1
    assert line.startswith(f"{path}: not a checkpoint of this trial (")
    assert line.endswith("; delete it to train again")
    return line


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    save_weights(nn.Linear(3, 2), tmp_path / "weights", STAMP_WEIGHTS)
    return tmp_path / "weights"


def test_weights_that_are_cut_or_have_a_flipped_bit_are_refused(kept: Path) -> None:
    whole = kept.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (3 * place + 1) % 8
        kept.write_bytes(damaged)
        refusal(kept, STAMP_WEIGHTS)
    for length in (*range(0, len(whole), 7), len(whole) - 1):
        kept.write_bytes(whole[:length])
        refusal(kept, STAMP_WEIGHTS)
    kept.write_bytes(whole)
    load_weights(nn.Linear(3, 2), kept, STAMP_WEIGHTS)


def test_the_mean_is_that_of_the_formula_whose_steps_count_from_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ablations.train.loop, "CURVE_POINTS", LONG)
    config = TrainConfig(steps=5, batch_tokens=60, evaluations=1, average=0.3)
    trainer = Trainer(small_model(), Backwards(), config, 0, CPU)
    slow, steps = copied(trainer.model), iter(range(1, 6))

    def follow(*_: Any) -> None:
        """By the formula, from the weights as they are after each step."""
        step = next(steps)
        share = min(0.3, (1 + step) / (10 + step))  # capped from the third
        for name, weight in named(trainer.model).items():
            slow[name] = share * slow[name] + (1 - share) * weight

    trainer.run(follow, None)
    assert next(steps, None) is None
    for name, mean in trainer.average.weights.items():
        torch.testing.assert_close(mean, slow[name], rtol=1e-5, atol=1e-6)


STEPS = 14
POINTS = 4  # of the curve: at 4, 7, 11 and 14
LONG = ablations.train.loop.CURVE_POINTS
few_resume = settings(max_examples=10)


@pytest.fixture(autouse=True, scope="module")
def a_short_curve() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablations.train.loop, "CURVE_POINTS", POINTS)
        yield


def trainer_of(seed: int = 3, tied: str = "free", **options: Any) -> Trainer:
    optimizer = {"name": options.pop("optimizer", "adam"), "lr": options.pop("lr", 0.01)}
    config = TrainConfig(
        **{
            "steps": STEPS,
            "batch_tokens": 60,
            "micro_batches": 2,
            "optimizer": optimizer,
            **options,
        }
    )
    model = small_model(seed, dropout=0.2, tied=tied)
    return Trainer(model, Backwards(), config, seed, CPU)


def quiet(fraction: float, note: str) -> None:
    pass


def interrupted(folder: Path, stops: list[int], **options: Any) -> Trainer:
    """Stopped after each of these steps, and gone on with by a trainer that knows nothing."""
    for stop in sorted(stops):
        trainer = trainer_of(**options)
        torch.rand(stop)  # whatever else used the generator before
        keeper = Checkpointer(folder / "kept", {}, math.inf, lambda t=trainer, k=stop: t.step == k)
        with pytest.raises(Stopped):
            trainer.run(quiet, keeper)
        assert trainer.step == stop
    last = trainer_of(**options)
    last.run(quiet, Checkpointer(folder / "kept", {}, math.inf))
    return last


def assert_same(one: Trainer, two: Trainer) -> None:
    assert one.training == two.training
    torch.testing.assert_close(copied(one.model), copied(two.model), rtol=0, atol=0)


CHOICES: list[dict[str, Any]] = [{}, {"average": 0.9}, {"select": "best"}]


@pytest.fixture(scope="module", params=OPTIMIZER.components)
def wholes(request: pytest.FixtureRequest) -> list[Trainer]:
    """The uninterrupted trainings of an optimizer, one for each choice."""
    trainers = [trainer_of(optimizer=request.param, **choice) for choice in CHOICES]
    for trainer in trainers:
        trainer.run(quiet, None)
    return trainers


@few_resume
@given(
    which=st.integers(0, len(CHOICES) - 1),
    stops=st.sets(st.integers(1, STEPS - 1), min_size=1, max_size=3),
)
def test_an_interrupted_training_ends_with_the_bits_of_an_uninterrupted_one(
    wholes: list[Trainer], which: int, stops: set[int]
) -> None:
    whole = wholes[which]
    optimizer = whole.config.optimizer["name"]
    with tempfile.TemporaryDirectory() as folder:
        parts = interrupted(Path(folder), list(stops), optimizer=optimizer, **CHOICES[which])
    assert_same(whole, parts)


def test_the_best_weights_from_before_the_interruption_are_still_chosen(tmp_path: Path) -> None:
    """The rate grows until it destroys what was learned."""
    options: Any = {"select": "best", "evaluations": STEPS, "optimizer": "sgd", "lr": 9}
    options["schedule"] = {"name": "constant", "warmup": 13}
    whole, parts = trainer_of(**options), interrupted(tmp_path, [12, 13], **options)
    whole.run(quiet, None)
    assert_same(whole, parts)
    found = {r.coordinates["step"]: r.value for r in parts.training.losses("valid")}
    assert min(found, key=lambda step: found[step] or math.inf) < 12
    torch.testing.assert_close(parts.best, copied(parts.model), rtol=0, atol=0)


def test_a_killed_process_is_gone_on_with_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations.train.loop, "CURVE_POINTS", LONG)

    def run(death: float) -> int:
        words = [sys.executable, small_task.__file__, str(tmp_path / "killed"), str(death)]
        return subprocess.run(words, env={"PYTHONPATH": ":".join(sys.path)}).returncode

    assert run(0.6) == -signal.SIGKILL
    assert run(math.inf) == 0
    small_task.train_in(tmp_path / "whole")
    for file in ("trials/small.json", "checkpoints/small.safetensors"):
        whole, killed = ((tmp_path / name / file).read_bytes() for name in ("whole", "killed"))
        assert whole == killed, file


def test_another_training_does_not_go_on_from_it(tmp_path: Path) -> None:
    def run(seed: int, stamp: str) -> Training:
        keeper = Checkpointer(tmp_path / "kept", {"trial": stamp}, seconds=0.0)
        return trainer_of(seed).run(quiet, keeper)

    alone = trainer_of(4).run(quiet, None)
    run(3, "a")
    assert run(4, "b") == alone
