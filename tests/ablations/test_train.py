"""Training: what the losses are, that they come again, and when a training has failed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ablations.config import FOLDER, read_yaml, replaced
from ablations.expand import catalogue, expand, read_ablation, read_profile, resolve_trial
from ablations.optimise import OPTIMISER, SCHEDULE
from ablations.tasks import Task
from ablations.tasks.g2p import G2P
from ablations.train import CURVE_POINTS, TrainConfig, Training, train, update, validate
from model.batch import IGNORE, Batch
from model.build import build
from model.config import ConfigError
from model.initialise import logical_parameters

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
        "train__batch_size": 16,
        "train__evaluations": 2,
        "train__schedule__warmup": 2,
    }
    for path, value in {**small, **changes}.items():
        tree = replaced(tree, path.replace("__", "."), value)
    return resolve_trial(tree)


def trained(task: Task, seed: int = 0, **changes: Any) -> tuple[nn.Module, Training]:
    config = trial(**changes)
    model = build(config["model"], task.source_size, task.target_size, seed)
    return model, train(model, task, TrainConfig(**config["train"]), seed, CPU, lambda *_: None)


def losses(training: Training, split: str) -> dict[float, float | None]:
    return {
        reading.at["step"]: reading.value
        for reading in training.readings
        if (reading.metric, reading.split) == ("loss", split)
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
    return train(model, task, TrainConfig(batch_size=4, **options), 0, CPU, lambda *_: None)


# The same numbers.


def test_the_same_seed_gives_the_same_bits(task: G2P) -> None:
    one, first = trained(task, seed=3, model__dropout=0.2)
    two, second = trained(task, seed=3, model__dropout=0.2)
    assert first == second
    for (name, a), (_, b) in zip(one.state_dict().items(), two.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


def test_another_seed_gives_other_losses(task: G2P) -> None:
    (_, first), (_, second) = trained(task, seed=0), trained(task, seed=1)
    for split in ("train", "valid"):
        one, two = losses(first, split), losses(second, split)
        assert all(one[step] != two[step] for step in one)


GOLDEN = {
    "transformer": [3.894743, 3.689687, 3.577869, 3.547683],
    "recurrent": [3.733655, 3.713019, 3.695256, 3.687525],
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_losses_have_not_moved(task: G2P, name: str) -> None:
    """A change of these numbers is a change of every published number: name it in the commit."""
    rival = {"model": {"name": "recurrent", "d_model": 16, "depth": 1}}
    choice = rival if name == "recurrent" else {}
    _, training = trained(task, train__steps=12, train__evaluations=3, **choice)
    measured = losses(training, "valid")
    assert list(measured) == [0, 4, 8, 12]
    assert list(measured.values()) == pytest.approx(GOLDEN[name], rel=1e-4)


@pytest.mark.parametrize("name", ["position", "norm", "feedforward", "scale"])
def test_a_variant_and_its_control_start_from_equal_weights(name: str) -> None:
    ablation, source = read_ablation(catalogue()[name])
    cells = expand(ablation, source, read_profile("smoke"), {}, [0, 1])
    first = {
        (cell.label, cell.seed): {
            each: weight
            for each, weight, _ in logical_parameters(
                build(cell.config["model"], G2P.source_size, G2P.target_size, cell.seed)
            )
        }
        for cell in cells
    }
    for (label, seed), theirs in first.items():
        ours = first[ablation.control, seed]
        shared = [
            each for each in theirs if each in ours and ours[each].shape == theirs[each].shape
        ]
        assert len(shared) >= 0.9 * min(len(ours), len(theirs)), label
        assert all(torch.equal(ours[each], theirs[each]) for each in shared), label
        drawn = [each for each in shared if ours[each].std() > 0]
        assert not any(torch.equal(theirs[e], first[label, 1 - seed][e]) for e in drawn)


# What a loss is.


def test_the_validation_loss_is_unsmoothed_whatever_training_minimises(task: G2P) -> None:
    model, training = trained(task, train__smoothing=0.3)
    model.eval()
    summed = [nats(model, task.pairs("valid").batch(torch.tensor([row]))) for row in range(40)]
    expected = sum(total for total, _ in summed) / sum(count for _, count in summed)
    assert losses(training, "valid")[6] == pytest.approx(expected, rel=1e-5)


def test_smoothing_moves_the_training_loss(task: G2P) -> None:
    (_, plain), (_, smooth) = trained(task), trained(task, train__smoothing=0.3)
    assert losses(plain, "train")[1] != losses(smooth, "train")[1]
    assert losses(plain, "valid")[0] == losses(smooth, "valid")[0]


def test_the_training_loss_is_a_mean_over_target_tokens(task: G2P) -> None:
    config = trial()
    model = build(config["model"], task.source_size, task.target_size, seed=0)
    batch = next(task.train_batches(0, 16))
    total, count = nats(model, batch)
    assert count < batch.labels.numel()  # some of it is padding
    _, training = trained(task)
    assert losses(training, "train")[1] == pytest.approx(total / count, rel=1e-5)


def test_the_count_of_tokens_is_the_whole_batch_however_it_is_cut(task: G2P) -> None:
    """As several devices would: each gets its share of the rows and the count of all of them."""
    batch = next(task.train_batches(0, 16))
    rows = torch.arange(len(batch.labels))
    shares = [rows[:3], rows[3:]]
    config = TrainConfig(clip=None)

    def gradient(parts: list[Tensor]) -> Tensor:
        model = build(trial()["model"], task.source_size, task.target_size, seed=0)
        gradients = []
        for part in parts:
            piece = Batch(**{k: None if v is None else v[part] for k, v in vars(batch).items()})
            still = torch.optim.SGD(model.parameters(), lr=0.0)
            update(model, piece, batch.tokens, still, config)
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        return torch.stack(gradients).sum(0)

    torch.testing.assert_close(gradient(shares), gradient([rows]), rtol=1e-4, atol=1e-6)


def test_validating_leaves_the_mode_and_the_gradients_of_the_model(task: G2P) -> None:
    model = build(trial(model__dropout=0.5)["model"], task.source_size, task.target_size, seed=0)
    for mode in (True, False):
        model.train(mode)
        assert validate(model, task, CPU) == validate(model, task, CPU)  # dropout is off
        assert all(module.training is mode for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


# Rates and gradients.


@pytest.mark.parametrize(
    ("warmup", "steps", "shares"),
    [
        (4, 10, {1: 1 / 4, 2: 2 / 4, 4: 1, 5: 6 / 7, 8: 3 / 7, 10: 1 / 7}),
        (0, 4, {1: 4 / 5, 2: 3 / 5, 4: 1 / 5}),
        (8, 4, {1: 1 / 8, 4: 4 / 8}),
        (4, 4, {1: 1 / 4, 4: 1}),
    ],
)
def test_the_rate_climbs_to_its_peak_and_falls_to_nothing(
    warmup: int, steps: int, shares: dict[int, float]
) -> None:
    schedule = SCHEDULE.build({"name": "linear", "warmup": warmup}, steps=steps)
    assert {step: schedule.share(step) for step in shares} == pytest.approx(shares)


def test_the_rate_of_each_step_is_written_down(task: G2P) -> None:
    schedule = {"name": "linear", "warmup": 2}
    training = count_labels(task, steps=5, schedule=schedule, optimiser={"name": "adam", "rate": 8})
    rates = {r.at["step"]: r.value for r in training.readings if r.metric == "rate"}
    assert rates == pytest.approx({1: 4, 2: 8, 3: 6, 4: 4, 5: 2})


@pytest.mark.parametrize("clip", [None, 0.01, 1e6])
def test_the_gradient_is_cut_to_its_largest_norm_or_not_at_all(
    task: G2P, clip: float | None
) -> None:
    model = build(trial()["model"], task.source_size, task.target_size, seed=0)
    batch = next(task.train_batches(0, 16))
    optimiser = OPTIMISER.build("adam", parameters=model.parameters())
    _, norm = update(model, batch, batch.tokens, optimiser, TrainConfig(clip=clip))
    left = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
    assert float(norm) > 0.1  # told as it was before the cut
    assert left == pytest.approx(clip if clip == 0.01 else float(norm), rel=1e-3)


# How a training ends.


def test_weights_that_are_not_numbers_diverge_at_a_named_step(task: G2P) -> None:
    model = Unigram(task.target_size)
    model.logits_V.data[5] = math.nan
    training = train(model, task, TrainConfig(steps=5), 0, CPU, lambda *_: None)
    assert (training.status, training.reason) == ("diverged", "loss nan by step 1")
    assert max(reading.at["step"] for reading in training.readings) == 1  # no step is wasted
    nulls = [reading for reading in training.readings if reading.metric == "loss"]
    assert all(reading.value is None and reading.reason for reading in nulls)


@pytest.mark.parametrize("rate", [30.0, 1e6, 1e30])
def test_a_rate_that_explodes_diverges(task: G2P, rate: float) -> None:
    _, training = trained(task, train__optimiser__rate=rate)
    assert training.status == "diverged"
    reason = training.reason or ""
    assert "untrained" in reason or "by step" in reason


def test_a_model_that_learns_nothing_is_stuck(task: G2P) -> None:
    model, training = trained(task, train__optimiser__rate=1e-12)
    final = validate(model, task, CPU)
    assert final >= task.trivial_loss()
    assert training.status == "stuck"
    assert f"{task.trivial_loss():.3g}" in (training.reason or "")


def test_a_model_that_only_counts_labels_cannot_be_ok(task: G2P) -> None:
    options = {"optimiser": {"name": "adam", "rate": 0.05}, "steps": 300}
    training = count_labels(task, **options)
    assert training.status == "stuck"


def test_a_model_that_beats_the_trivial_one_is_ok(task: G2P) -> None:
    model, training = trained(task, train__steps=40, train__optimiser__rate=1e-2)
    assert validate(model, task, CPU) < task.trivial_loss()
    assert (training.status, training.reason) == ("ok", None)
    (trivial,) = [r for r in training.readings if r.metric == "trivial_loss"]
    assert (trivial.value, trivial.split) == (task.trivial_loss(), "valid")


# Curves.


@pytest.mark.parametrize("steps", [1, 7, 100, 101, 399])
def test_a_curve_has_a_bounded_number_of_points_and_ends_with_the_last_step(
    task: G2P, steps: int
) -> None:
    training = count_labels(task, steps=steps, evaluations=3)
    curve = losses(training, "train")
    assert len(curve) == min(steps, CURVE_POINTS)
    assert max(curve) == steps
    assert len(training.readings) <= 3 * CURVE_POINTS + 3 + 2


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


@pytest.mark.parametrize(
    ("steps", "evaluations", "at"),
    [(10, 5, [0, 2, 4, 6, 8, 10]), (3, 1, [0, 3]), (2, 5, [0, 1, 2]), (1, 5, [0, 1])],
)
def test_validation_is_taken_before_the_first_step_and_after_the_last(
    task: G2P, steps: int, evaluations: int, at: list[int]
) -> None:
    training = count_labels(task, steps=steps, evaluations=evaluations)
    assert list(losses(training, "valid")) == at


def test_every_reading_of_a_training_has_a_unit_a_split_and_a_step(task: G2P) -> None:
    training = count_labels(task, steps=3)
    assert all(r.unit and r.split and set(r.at) == {"step"} for r in training.readings)


def test_batches_depend_on_the_seed_and_the_task_alone(task: G2P) -> None:
    _, training = trained(task, seed=5)
    seen = []

    class Watching(Unigram):
        def forward(self, batch: Batch) -> Tensor:
            if self.training:
                seen.append(batch.labels)
            return super().forward(batch)

    config = TrainConfig(steps=6, batch_size=16)
    train(Watching(task.target_size), task, config, 5, CPU, lambda *_: None)
    given = [batch.labels for batch in islice(task.train_batches(5, 16), 6)]
    assert all(torch.equal(a, b) for a, b in zip(seen, given, strict=True))
    assert training.status != "diverged"


@pytest.mark.parametrize(
    ("option", "value"),
    [("steps", 0), ("batch_size", 0), ("evaluations", -1), ("smoothing", 1.0), ("clip", 0.0)],
)
def test_a_training_that_cannot_be_is_refused(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{option}={value}: must be"):
        TrainConfig(**{option: value})
