"""Seeds that are trained as one model: each as if it were alone, and none touches another."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from rank_trainings import CONFIG, train_each, trained
from rank_trainings import MODELS as RANKED
from small_task import Backwards, Upwards
from torch import nn

from ablations.signals import catching_sigterm
from ablations.tasks import TASK
from ablations.tasks.task import Budget, Task
from ablations.train.checkpoint import Checkpointer, named
from ablations.train.config import TrainConfig
from ablations.train.ddp import Devices, run_together
from ablations.train.loop import Training, train
from ablations.train.pack import Pack
from model.batch import Batch
from model.build import build


def test_replicas_in_half_precision_and_of_uneven_steps_learn_as_alone() -> None:
    task, settings = Backwards(), config(precision="bfloat16")
    models = drawn(task, MODELS["encoder-decoder"][1], torch.float32)
    copies = [copy.deepcopy(model) for model in models]
    for pair in zip(together(models, task, settings), alone(copies, task, settings), strict=True):
        ours, theirs = ([r.value for r in each.losses("valid")] for each in pair)
        assert ours == pytest.approx(theirs, rel=0.02)
    assert all(p.dtype == torch.float32 for model in models for p in model.parameters())
    uneven = Uneven()
    assert [len(next(uneven.steps(seed, config().budget))) for seed in SEEDS] == [1, 2, 1]
    assert_as_alone(uneven, drawn(uneven, MODELS["decoder"][1], torch.float64), config(), rtol=1e-8)


CPU = torch.device("cpu")
torch.set_num_threads(1)
SEEDS = [0, 1, 2]
TRANSFORMER = {"name": "transformer", "d_model": 8, "depth": 1, "n_heads": 2, "max_len": 40}


MODELS: dict[str, tuple[Callable[[], Task], dict[str, Any]]] = {
    "encoder-decoder": (Backwards, {**TRANSFORMER, "kind": "encoder_decoder"}),
    "tied": (Backwards, {**TRANSFORMER, "kind": "encoder_decoder", "tied": "all"}),
    "decoder": (Upwards, {**TRANSFORMER, "kind": "decoder"}),
    "lstm with attention": (Backwards, {"name": "recurrent", "d_model": 8, "depth": 2}),
    "gru": (Upwards, {"name": "recurrent", "kind": "decoder", "d_model": 8, "cell": "gru"}),
    "strings of other lengths": (
        lambda: TASK.build({"name": "copy", "length": 6, "examples": 40}),
        {**TRANSFORMER, "kind": "encoder_decoder"},
    ),
    "one place in a row": (
        lambda: TASK.build({"name": "recall", "examples": 40}),
        {**TRANSFORMER, "kind": "decoder"},
    ),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "adam, clipped": {"clip": 0.3},
    "adamw, averaged": {"optimizer": {"name": "adamw", "weight_decay": 0.3}, "average": 0.9},
    "sgd, the best": {
        "optimizer": {"name": "sgd", "lr": 0.3, "nesterov": True, "weight_decay": 0.1},
        "select": "best",
        "clip": None,
    },
    "smoothed, averaged, the best": {"label_smoothing": 0.1, "label_smoothing_over": "other",
                                     "average": 0.8, "select": "best"},
}  # fmt: skip


def drawn(task: Task, written: dict[str, Any], dtype: torch.dtype) -> list[nn.Module]:
    """First weights of every seed."""
    sizes = task.source_size, task.target_size
    return [build(written, *sizes, seed).to(dtype) for seed in SEEDS]


def config(**changes: Any) -> TrainConfig:
    return TrainConfig(
        **{"steps": 12, "batch_tokens": 60, "micro_batches": 2, "evaluations": 3, **changes}
    )


def alone(models: Sequence[nn.Module], task: Task, settings: TrainConfig) -> list[Training]:
    return [
        train(model, task, settings, seed, CPU, lambda *_: None)
        for model, seed in zip(models, SEEDS, strict=True)
    ]


def together(models: Sequence[nn.Module], task: Task, settings: TrainConfig) -> list[Training]:
    return Pack(models, task, settings, SEEDS, CPU).run(lambda *_: None, lambda: False)


def assert_as_alone(
    task: Task, models: Sequence[nn.Module], settings: TrainConfig, rtol: float
) -> list[Training]:
    """Curves, choice, judgement, and weights that are numbers; the loss of training is noted in
    single precision."""
    copies = [copy.deepcopy(model) for model in models]
    expected, found = alone(copies, task, settings), together(models, task, settings)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.status, ours.reason) == (theirs.status, theirs.reason)
        places = [(r.metric, r.unit, r.split, r.coordinates) for r in ours.measurements]
        assert places == [(r.metric, r.unit, r.split, r.coordinates) for r in theirs.measurements]
        numbers = len(places) - (3 if ours.status == "diverged" else 0)  # the last point is none
        for one, other in zip(ours.measurements[:numbers], theirs.measurements, strict=False):
            near = pytest.approx(other.value or 0.0, rel=max(rtol, 1e-6))
            assert one.value == (None if other.value is None else near)
    for model, other, training in zip(models, copies, found, strict=True):
        weights = named(other)
        assert named(model).keys() == weights.keys()
        for name, weight in named(model).items() if training.status != "diverged" else ():
            torch.testing.assert_close(weight, weights[name], rtol=rtol, atol=rtol, msg=name)
    return found


@pytest.mark.parametrize(
    ("model", "settings"), [*zip(MODELS, 2 * [*SETTINGS], strict=False), ("tied", [*SETTINGS][2])]
)
def test_every_seed_of_a_pack_learns_what_it_learns_alone(model: str, settings: str) -> None:
    """In double precision, to 1e-8 over twelve steps of ragged batches."""
    make, written = MODELS[model]
    task = make()
    models = drawn(task, written, torch.float64)
    first = [{name: w.clone() for name, w in named(model).items()} for model in models]
    assert_as_alone(task, models, config(**SETTINGS[settings]), rtol=1e-8)
    for model_, before in zip(models, first, strict=True):
        assert any(not torch.equal(w, before[name]) for name, w in named(model_).items())


class Uneven(Upwards):
    """Every other seed has one part more in a step, as at the end of an epoch."""

    def steps(self, seed: int, budget: Budget, start: int = 0) -> Iterator[tuple[Batch, ...]]:
        for parts in super().steps(seed, budget, start):
            yield parts[: 1 + seed % 2]


def spoil(model: nn.Module, by: float) -> None:
    """What it says of every token is so many times too much, or no number."""
    with torch.no_grad():
        model.head.project.weight.mul_(by)  # type: ignore[operator,union-attr]


@pytest.mark.parametrize(("by", "step", "told"), [(math.nan, 1, 2), (math.inf, 1, 2), (1e30, 2, 2)])
def test_a_seed_that_diverges_does_so_at_its_own_step_and_touches_no_other(
    monkeypatch: pytest.MonkeyPatch, by: float, step: int, told: int
) -> None:
    """Its curves end where they would alone; the others are the same to the last bit."""
    for module in ("loop", "pack"):
        monkeypatch.setattr(f"ablations.train.{module}.CURVE_POINTS", 20)
    task = Backwards()
    settings = config(steps=30, clip=None, optimizer={"name": "sgd", "lr": 0.1})
    models = drawn(task, MODELS["encoder-decoder"][1], torch.float64)
    healthy = [copy.deepcopy(model) for model in models]
    spoil(models[1], by)
    found = assert_as_alone(task, models, settings, rtol=1e-6)
    assert found[1].status == "diverged"
    assert (found[1].reason or "").endswith(f"at step {step}")
    assert found[1].measurements[-1].coordinates == {"step": told}
    undisturbed = together(healthy, task, settings)
    for seed in (0, 2):
        assert found[seed].status != "diverged"
        assert found[seed].measurements == undisturbed[seed].measurements


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one of their trainings is kept when it is stopped."""
    return tmp_path_factory.mktemp("kept") / "unfinished"


@pytest.fixture(scope="module")
def together_ranks(place: Path) -> dict[str, Any]:
    """What two processes made of every model; a warning is an error there, too."""
    payload = {"place": str(place)}
    with pytest.MonkeyPatch.context() as patch, catching_sigterm() as notice:
        patch.setenv("PYTHONWARNINGS", "error")
        return run_together(train_each, payload, 2, lambda *_: None, notice)


@pytest.mark.parametrize("name", RANKED)
def test_two_processes_learn_what_one_does_from_the_whole_batch(
    together_ranks: dict[str, Any], name: str
) -> None:
    one, two = trained(name), together_ranks["trainings"][name]
    assert two["weights"].keys() == one["weights"].keys()
    for weight, values in one["weights"].items():
        ours, theirs = (
            torch.tensor(each, dtype=torch.float64) for each in (two["weights"][weight], values)
        )
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9, msg=lambda m, w=weight: w + m)
    assert two["measurements"].keys() == one["measurements"].keys() >= {("error", "test", 14)}
    for at, value in one["measurements"].items():
        # The training loss is summed in float32, whatever the model is.
        rel = 1e-6 if at[:2] == ("loss", "train") else 1e-9
        assert two["measurements"][at] == pytest.approx(value, rel=rel), at
    valid = [value for at, value in one["measurements"].items() if at[:2] == ("loss", "valid")]
    assert valid[-1] < valid[0] - 0.01, "where nothing is learned, all are equal"


def test_gradients_are_joined_once_a_step_however_many_parts_it_has(
    together_ranks: dict[str, Any],
) -> None:
    assert CONFIG.micro_batches > 1
    assert together_ranks["joins"] == CONFIG.steps


def test_no_two_devices_drop_the_same_and_each_drops_the_same_again(
    together_ranks: dict[str, Any],
) -> None:
    first, second, again = together_ranks["drawn"]
    assert first == again
    assert len({*first, *second}) == 4


def test_a_training_that_was_stopped_and_gone_on_with_ends_with_the_same_bits(
    together_ranks: dict[str, Any], place: Path
) -> None:
    """With dropout: nothing depends on where it was stopped."""
    kept = Checkpointer(place, {}).load()
    assert 0 < kept[1]["step"] < CONFIG.steps
    assert together_ranks["parts"] == together_ranks["whole"]
    assert together_ranks["whole"]["weights"] != together_ranks["trainings"]["decoder"]["weights"]


@pytest.fixture
def part() -> Batch:
    pairs = Backwards().pairs["train"]
    return pairs.batch(torch.arange(5))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_shares_of_a_part_are_its_rows_in_their_order(part: Batch, count: int) -> None:
    shares = [Devices(rank, count).share(part) for rank in range(count)]
    sizes = [len(share.labels) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sum(share.tokens for share in shares) == part.tokens
    for name, whole in vars(part).items():
        each = [vars(share)[name] for share in shares]
        if whole is None:
            assert each == [None] * count
        else:
            assert torch.equal(torch.cat(each), whole), name


def test_where_rows_are_few_a_device_computes_one_that_does_not_count(part: Batch) -> None:
    shares = [Devices(rank, 7).share(part) for rank in range(7)]
    assert all(len(share.labels) == 1 for share in shares)
    counted = [share for share in shares if share.tokens]
    assert len(counted) == 5
    assert torch.equal(torch.cat([share.labels for share in counted]), part.labels)
