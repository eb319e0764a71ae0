"""Training: what the losses are, that they come again, and when a training has failed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from small_task import Backwards, small_model
from torch import Tensor, nn

from ablations.config import FOLDER, override, read_yaml, resolve_trial
from ablations.expand import expand
from ablations.profile import read_profile
from ablations.spec import experiments, read_experiment
from ablations.tasks import Task
from ablations.tasks.g2p import G2P
from ablations.train.checkpoint import Checkpointer, copied
from ablations.train.config import OPTIMIZER, TrainConfig
from ablations.train.loop import Trainer, Training, train, update, validate
from model.batch import IGNORE, Batch
from model.build import build
from model.config import ConfigError
from model.init import logical_parameters

TRIVIAL = Backwards().trivial("valid")["loss"]


JUDGED: list[tuple[list[float], float, float | None, str, str | None]] = [
    # validation losses at 0, 2 and 4, the last training loss, the best loss if that is chosen
    ([4.0, 3.9, 5.0], 0.01, None, "stuck", "overfitted: validation loss 5, 4 untrained"),
    ([4.0, 3.9, 5.0], 4.5, None, "diverged", "5 at the end, 4 untrained; above that since step 4"),
    ([4.0, 4.1, 5.0], 4.5, None, "diverged", "5 at the end, 4 untrained; above that since step 2"),
    ([4.0, 3.9, math.nan], 0.01, None, "diverged", "nan at the end, 4 untrained"),
    ([4.0, 4.1, math.inf], 1e9, None, "diverged", "nan at the end, 4 untrained"),
    ([3.0, 2.5, TRIVIAL], 0.01, None, "stuck", "no better than the trivial"),
    ([3.0, 2.5, 0.9904 * TRIVIAL], 0.01, None, "stuck", "no better than the trivial"),
    ([3.0, 2.5, 0.9896 * TRIVIAL], 0.01, None, "ok", None),
    # The best weights are judged where those are chosen, whatever became of the model later.
    ([3.0, 0.5, TRIVIAL + 0.1], 0.01, 0.5, "ok", None),
    ([3.0, 0.5, 9.0], 0.01, 0.5, "ok", None),
    ([3.0, 0.5, math.nan], 0.01, 0.5, "ok", None),
]


def test_a_training_is_judged_by_the_weights_that_it_leaves() -> None:
    for valid, learned, best, status, reason in JUDGED:
        trainer = Trainer(small_model(), Backwards(), TrainConfig(steps=4, evaluations=2), 0, CPU)
        for step, loss in zip((0, 2, 4), valid, strict=True):
            trainer.training.add("loss", "nats/token", loss, step, "valid")
        trainer.training.add("loss", "nats/token", learned, 4, "train")
        if best is not None:
            trainer.best, trainer.best_loss = copied(trainer.model), best
        trainer.finish()
        assert trainer.training.status == status, valid
        assert (reason or "") in (trainer.training.reason or ""), valid


CPU = torch.device("cpu")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def task() -> G2P:
    return G2P(G2P.Config(words=200, valid_words=40, test_words=40))


def trial(**changes: Any) -> dict[str, Any]:
    """The base at a size that trains in no time; `model__depth=2` sets model.depth."""
    tree = read_yaml(FOLDER / "base/g2p.yaml").values
    small = {
        "task__words": 200,
        "model__d_model": 16,
        "model__depth": 1,
        "train__steps": 6,
        "train__batch_tokens": 256,
        "train__micro_batches": 2,
        "train__evaluations": 2,
        "train__schedule__warmup": 2,
    }
    paths = {path.replace("__", "."): value for path, value in {**small, **changes}.items()}
    return resolve_trial(override(tree, paths))


def trained(task: Task, seed: int = 0, **changes: Any) -> tuple[nn.Module, Training]:
    config = trial(**changes)
    model = build(config["model"], task.source_size, task.target_size, seed)
    return model, train(model, task, TrainConfig(**config["train"]), seed, CPU, lambda *_: None)


def losses(training: Training, split: str) -> dict[float, float | None]:
    return {
        measurement.coordinates["step"]: measurement.value for measurement in training.losses(split)
    }


@torch.no_grad()
def nats(model: nn.Module, batch: Batch) -> tuple[float, int]:
    """−log p summed label by label, and how many labels there are: the slow formula."""
    total, count = 0.0, 0
    for row, labels in zip(model(batch), batch.labels, strict=True):
        for logits, label in zip(row.double(), labels.tolist(), strict=True):
            if label != IGNORE:
                total += math.log(sum(math.exp(x) for x in logits.tolist())) - float(logits[label])
                count += 1
    return total, count


class Unigram(nn.Module):
    """Knows only how frequent each label is, so it trains as fast as steps can be counted."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.logits_V = nn.Parameter(torch.zeros(size))

    def forward(self, batch: Batch) -> Tensor:
        return self.logits_V.expand(*batch.labels.shape, -1)


def count_labels(task: Task, **options: Any) -> Training:
    model = Unigram(task.target_size)
    return train(model, task, TrainConfig(batch_tokens=64, **options), 0, CPU, lambda *_: None)


def first_step(task: Task, **changes: Any) -> tuple[Batch, ...]:
    return next(task.steps(0, TrainConfig(**trial(**changes)["train"]).budget))


GOLDEN = {
    "transformer": [3.894743, 3.675151, 3.570469, 3.537441],
    "recurrent": [3.733655, 3.711465, 3.692365, 3.683807],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_losses_have_not_moved(task: G2P, name: str) -> None:
    """A change of these numbers is a change of every published number: name it in the commit."""
    rival = {"model": {"name": "recurrent", "d_model": 16, "depth": 1}}
    choice = rival if name == "recurrent" else {}
    settings = {"train__steps": 12, "train__evaluations": 3, "train__optimizer__lr": 3e-3}
    _, training = trained(task, **settings, **choice)
    measured = losses(training, "valid")
    assert list(measured) == [0, 4, 8, 12]
    assert list(measured.values()) == pytest.approx(GOLDEN[name], rel=1e-4)


SHARED = {"positions/g2p": 0.9, "norm/g2p": 0.9, "training/feedforward": 0.8, "scale/g2p": 0.9}
"""Of the weights that either side has; gates have other shapes, and a decoder without a source has
less besides."""


@pytest.mark.parametrize("name", SHARED)
def test_a_variant_and_its_control_start_from_equal_weights(task: G2P, name: str) -> None:
    experiment = read_experiment(experiments()[name])
    first = {}
    for trial in expand(experiment, read_profile("smoke"), {}, [0]):
        model = build(trial.config["model"], task.source_size, task.target_size, trial.seed)
        first[trial.variant] = {each: weight for each, weight, _ in logical_parameters(model)}
    ours = first[experiment.baseline]
    for label, theirs in first.items():
        shared = [
            each for each in theirs if each in ours and ours[each].shape == theirs[each].shape
        ]
        assert len(shared) >= SHARED[name] * min(len(ours), len(theirs)), label
        assert all(torch.equal(ours[n], theirs[n]) for n in shared), label


# What a loss is.


def test_the_validation_loss_is_unsmoothed_whatever_training_minimises(task: G2P) -> None:
    model, training = trained(task, train__label_smoothing=0.3)
    model.eval()
    summed = [nats(model, task.pairs("valid").batch(torch.tensor([row]))) for row in range(40)]
    expected = sum(total for total, _ in summed) / sum(count for _, count in summed)
    assert losses(training, "valid")[6] == pytest.approx(expected, rel=1e-5)


def test_the_training_loss_is_a_mean_over_the_target_tokens_of_all_parts(task: G2P) -> None:
    config = trial()
    model = build(config["model"], task.source_size, task.target_size, seed=0)
    parts = first_step(task)
    summed = [nats(model, batch) for batch in parts]
    assert len({count for _, count in summed}) == len(parts) == 2  # a mean of means would differ
    assert sum(count for _, count in summed) < sum(batch.labels.numel() for batch in parts)
    expected = sum(total for total, _ in summed) / sum(count for _, count in summed)
    _, training = trained(task)
    assert losses(training, "train")[1] == pytest.approx(expected, rel=1e-5)


# Rates and gradients.


def test_the_rate_of_each_step_is_written_down(task: G2P) -> None:
    schedule = {"name": "linear", "warmup": 2}
    training = count_labels(task, steps=5, schedule=schedule, optimizer={"name": "adam", "lr": 8})
    rates = {r.coordinates["step"]: r.value for r in training.measurements if r.metric == "lr"}
    assert rates == pytest.approx({1: 4, 2: 8, 3: 6, 4: 4, 5: 2})


@pytest.mark.parametrize("clip", [None, 0.01, 1e6])
def test_the_gradient_is_cut_to_its_largest_norm_or_not_at_all(task: G2P, clip: Any) -> None:
    model = build(trial()["model"], task.source_size, task.target_size, seed=0)
    parts = first_step(task)
    optimizer = OPTIMIZER.build("adam", parameters=model.parameters())
    tokens = sum(batch.tokens for batch in parts)
    _, norm = update(model, parts, tokens, optimizer, TrainConfig(clip=clip))
    left = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
    assert float(norm) > 0.1  # as it was before the cut
    assert left == pytest.approx(clip if clip == 0.01 else float(norm), rel=1e-3)


def test_half_precision_learns_nearly_the_same_with_weights_in_full(task: G2P) -> None:
    options = {"train__steps": 30, "train__optimizer__lr": 1e-2}
    _, full = trained(task, **options)
    model, half = trained(task, train__precision="bfloat16", **options)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    for split in ("train", "valid"):
        ours, theirs = losses(half, split), losses(full, split)
        assert ours == pytest.approx(theirs, rel=0.02)
        assert ours != theirs
    assert half.losses("valid")[0] == full.losses("valid")[0]  # validation is in full


# How a training ends.


@pytest.mark.parametrize(
    ("step", "noted", "wrong"),
    [(1, 3, math.nan), (9, 9, math.nan), (10, 12, math.inf), (200, 201, math.nan)],
)
def test_a_loss_that_is_no_number_diverges_at_its_own_step(
    task: G2P, step: int, noted: int, wrong: float
) -> None:
    class Poisoned(Unigram):
        calls = 0

        def forward(self, batch: Batch) -> Tensor:
            self.calls += self.training
            spoilt = self.training and self.calls > 2 * (step - 1)
            return super().forward(batch) + (torch.tensor(wrong) if spoilt else 0.0)

    config = TrainConfig(steps=300, batch_tokens=256, micro_batches=2)
    training = train(Poisoned(task.target_size), task, config, 0, CPU, lambda *_: None)
    assert training.status == "diverged"
    assert training.reason == f"loss nan at step {step}"
    assert (
        max(measurement.coordinates["step"] for measurement in training.measurements) == noted
    )  # and no further
    assert training.losses("train")[-1].value is None


def test_a_model_that_beats_the_trivial_one_is_ok(task: G2P) -> None:
    model, training = trained(task, train__steps=40, train__optimizer__lr=1e-2)
    assert validate(model, task, CPU) < task.trivial("valid")["loss"]
    assert (training.status, training.reason) == ("ok", None)
    (trivial,) = [r for r in training.measurements if r.metric == "trivial_loss"]
    assert (trivial.value, trivial.split) == (task.trivial("valid")["loss"], "valid")


# Curves.


def test_a_point_of_the_curve_is_the_mean_since_the_last_one(task: G2P) -> None:
    told: list[float] = []

    class Listening(Unigram):
        def forward(self, batch: Batch) -> Tensor:
            logits = super().forward(batch)
            if self.training:
                told.append(float(nn.functional.cross_entropy(logits.detach().mT, batch.labels)))
            return logits

    training = train(
        Listening(task.target_size), task, TrainConfig(steps=200), 0, CPU, lambda *_: None
    )
    pairs = [sum(told[k : k + 2]) / 2 for k in range(0, 200, 2)]
    assert list(losses(training, "train").values()) == pytest.approx(pairs, rel=1e-5)


def test_validation_is_taken_before_the_first_step_and_after_the_last(task: G2P) -> None:
    for steps, evaluations, at in [
        (10, 5, [0, 2, 4, 6, 8, 10]), (3, 1, [0, 3]), (2, 5, [0, 1, 2]), (1, 5, [0, 1])
    ]:  # fmt: skip
        training = count_labels(task, steps=steps, evaluations=evaluations)
        assert list(losses(training, "valid")) == at


BAD: dict[str, list[float]] = {
    "steps": [0, math.inf, math.nan],
    "batch_tokens": [0],
    "micro_batches": [0],
    "evaluations": [-1, 10**9],
    "label_smoothing": [1.0],
    "clip": [0.0, math.inf, math.nan],
    "average": [1.0, 0.0],
}


def test_a_training_that_cannot_be_is_refused() -> None:
    for option, values in BAD.items():
        for value in values:
            with pytest.raises(ConfigError, match=f"{option}={value}: must be"):
                TrainConfig(**{option: value})


def test_the_seed_decides_what_dropout_drops(task: G2P, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = task.steps
    monkeypatch.setattr(task, "steps", lambda _, *rest: steps(0, *rest))  # the same batches
    for rate in (0.0, 0.5):
        config, found = trial(model__dropout=rate), []
        for seed in (0, 1):
            model = build(config["model"], task.source_size, task.target_size, seed=0)
            options = TrainConfig(**config["train"])
            found.append(losses(train(model, task, options, seed, CPU, lambda *_: None), "train"))
        assert (found[0] == found[1]) == (rate == 0.0)


def test_a_stop_request_in_the_last_step_leaves_no_checkpoint(tmp_path: Path) -> None:
    """There is nothing left to go on with."""
    config = TrainConfig(steps=3, batch_tokens=60, evaluations=1)
    trainer = Trainer(small_model(), Backwards(), config, 0, CPU)
    keeper = Checkpointer(tmp_path / "kept", {}, is_stopping=lambda: trainer.step == 3)
    training = trainer.run(lambda *_: None, keeper)
    assert [measurement.coordinates["step"] for measurement in training.losses("valid")] == [0, 3]
    assert not list(tmp_path.iterdir())


# Two thirds of the way.


def trained_ending(task: Backwards, **options: Any) -> tuple[torch.nn.Module, Training]:
    model = small_model(1, dropout=0.2)
    schedule = {"schedule": {"name": "constant"}, "optimizer": {"name": "adam", "lr": 0.01}}
    config = TrainConfig(batch_tokens=60, micro_batches=2, **schedule, **options)
    return model, train(model, task, config, 1, CPU, lambda *_: None)


def on_test(training: Training) -> dict[tuple[str, float], float | None]:
    return {
        (r.metric, float(r.coordinates["step"])): r.value
        for r in training.measurements
        if r.split == "test"
    }


@pytest.mark.parametrize("choice", [{}, {"average": 0.9}, {"select": "best"}], ids=str)
def test_at_two_thirds_the_scores_are_those_of_a_training_that_ends_there(
    choice: dict[str, Any],
) -> None:
    task = Backwards()
    _, long = trained_ending(task, steps=19, evaluations=19, **choice)
    model, _ = trained_ending(task, steps=13, evaluations=13, **choice)  # ceil(2 · 19 / 3)
    (score,), _ = task.scores(model, "test", CPU)
    assert on_test(long) == {
        ("error", 13): score.value,
        ("loss", 13): validate(model, task, CPU, "test"),
    }
    assert {r.unit for r in long.measurements if r.metric == "error"} == {"errors/label"}


def test_the_end_is_not_scored_twice() -> None:
    for steps, at in [(1, set()), (2, set()), (3, {2}), (4, {3}), (6, {4})]:
        _, training = trained_ending(Backwards(), steps=steps)
        assert {step for _, step in on_test(training)} == at


def test_being_scored_changes_nothing_of_what_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    model, training = trained_ending(Backwards(), steps=15, average=0.9)
    monkeypatch.setattr(Trainer, "score", lambda _: None)
    other, unscored = trained_ending(Backwards(), steps=15, average=0.9)
    assert [r for r in training.measurements if r.split != "test"] == unscored.measurements
    assert all(torch.equal(w, copied(other)[name]) for name, w in copied(model).items())


def test_a_task_that_cannot_be_scored_is_learned_all_the_same() -> None:
    class Mute(Backwards):
        def scores(self, *_: Any) -> Any:
            raise ValueError("nothing to say")

    _, training = trained_ending(Mute(), steps=6)
    assert set(on_test(training)) == {("loss", 4)}
    assert training.losses("valid")[-1].coordinates == {"step": 6}
