"""Weights: averaged as the formula says, stored once, put back whole or refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_task import Backwards, small_model
from torch import nn

from ablations.train.checkpoint import copied, load_weights, named, pack, save_weights, stamp_of
from ablations.train.config import TrainConfig
from ablations.train.loop import Trainer, validate
from model.batch import Batch
from model.config import ConfigError

CPU = torch.device("cpu")
STAMP = {"trial": "f302523445c7", "code": "0a1b"}


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


def test_the_best_on_validation_are_left_and_not_the_last() -> None:
    options = {"optimizer": {"name": "sgd", "lr": 0.4}, "steps": 40, "evaluations": 40}
    options["schedule"] = {"name": "constant"}
    best, last = run("best", **options), run("last", **options)
    losses = valid_losses(last)
    assert valid_losses(best) == losses  # choosing changes nothing of the training itself
    assert min(losses[1:]) < losses[-1]
    assert validate(best.model, best.task, CPU) == min(losses[1:])
    assert validate(last.model, last.task, CPU) == losses[-1]


def test_tied_weights_are_stored_once_and_come_back_tied(tmp_path: Path) -> None:
    stored, fresh = (small_model(seed, tied="all") for seed in (0, 1))
    save_weights(stored, tmp_path / "weights", STAMP)
    on_disk = load_file(tmp_path / "weights")
    assert sum(t.numel() for t in on_disk.values()) == sum(p.numel() for p in stored.parameters())
    assert len(on_disk) < len(stored.state_dict())
    load_weights(fresh, tmp_path / "weights", STAMP)
    torch.testing.assert_close(fresh.state_dict(), stored.state_dict(), rtol=0, atol=0)
    places = [{t.data_ptr() for t in m.state_dict().values()} for m in (stored, fresh)]
    assert len(places[0]) == len(places[1])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda weights: dict([*weights.items()][1:]),
        lambda weights: {**weights, "z": torch.zeros(1)},
        lambda weights: {name: each[:1].clone() for name, each in weights.items()},
        lambda weights: {name: each.mT.contiguous() for name, each in weights.items()},
    ],
    ids=["lacks one", "has one more", "would broadcast", "is turned"],
)
def test_weights_of_another_model_are_refused_in_one_line_and_change_nothing(
    tmp_path: Path, wrong: Any
) -> None:
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 5, bias=False))
    before = copied(model)
    (tmp_path / "weights").write_bytes(pack(wrong(copied(model)), STAMP))
    with pytest.raises(ConfigError, match=r"is in one of the two alone|has the shape") as caught:
        load_weights(model, tmp_path / "weights", STAMP)
    (problem,) = caught.value.problems
    assert len(problem.splitlines()) == 1
    assert all(torch.equal(before[name], tensor) for name, tensor in named(model).items())


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
    save_weights(nn.Linear(3, 2), tmp_path / "weights", STAMP)
    return tmp_path / "weights"


def test_weights_that_are_cut_or_have_a_flipped_bit_are_refused(kept: Path) -> None:
    whole = kept.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (3 * place + 1) % 8
        kept.write_bytes(damaged)
        refusal(kept, STAMP)
    for length in (*range(0, len(whole), 7), len(whole) - 1):
        kept.write_bytes(whole[:length])
        refusal(kept, STAMP)
    kept.write_bytes(whole)
    load_weights(nn.Linear(3, 2), kept, STAMP)


@pytest.mark.parametrize(
    ("stamp", "words"),
    [
        ({**STAMP, "code": "9c2d"}, "its code is 0a1b, not 9c2d"),
        ({**STAMP, "trial": "0" * 12}, "its trial is f302523445c7, not 000000000000"),
        ({**STAMP, "torch": "3"}, "its torch is None, not 3"),
        ({"trial": STAMP["trial"]}, "its code is 0a1b, not None"),
    ],
    ids=["code", "trial", "more", "less"],
)
def test_weights_with_another_stamp_are_refused(
    kept: Path, stamp: dict[str, str], words: str
) -> None:
    assert words in refusal(kept, stamp)


def test_the_header_alone_tells_whose_weights_they_are(kept: Path) -> None:
    assert stamp_of(kept) == STAMP
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # which only a reader of all notices
    assert stamp_of(kept) == STAMP


def test_the_mean_is_that_of_the_formula_whose_steps_count_from_one() -> None:
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


def test_of_a_training_that_only_gets_worse_the_least_bad_trained_weights_are_left() -> None:
    """It reads right what is asked, and is taught wrong: each step takes it further away."""

    class Misleading(Backwards):
        def steps(self, *asked: Any) -> Iterator[tuple[Batch, ...]]:
            for parts in super().steps(*asked):
                yield tuple(replace(each, labels=torch.zeros_like(each.labels)) for each in parts)

    rate = {"optimizer": {"name": "adam", "lr": 0.1}}
    config = TrainConfig(steps=4, evaluations=4, batch_tokens=60, select="best", **rate)
    trainer = Trainer(small_model(), Misleading(), config, 0, CPU)
    trainer.run(lambda *_: None, None)
    untrained, first, *later = valid_losses(trainer)
    assert untrained < first < min(later)
    assert trainer.best_loss == first
    assert validate(trainer.model, trainer.task, CPU) == first
