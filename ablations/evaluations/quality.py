"""Loss and scores: greedy and by beam search, of ambiguous words, by length; calibration.

B: examples of a batch, N: examples of a split.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Evaluation, Measured, Metric
from ablations.store.record import Measurement
from ablations.tasks.task import Example, Task
from ablations.train.loop import validate
from model.batch import IGNORE
from model.generate import Answer, Generator, Question, beam
from model.layers import evaluating


@MEASUREMENT.register("quality")
class Quality(Evaluation):
    """Loss and scores on valid and test, from the weights that training chose.

    `trivial_…` is the score of an answer that ignores the question.
    """

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        at: dict[str, float | str] = {"step": step}
        test_loss = validate(model, task, device, "test")
        measurements = [Measurement("loss", "nats/token", test_loss, split="test", coordinates=at)]
        examples: list[Example] = []
        items: dict[str, list[float | None]] = {}
        for split in ("valid", "test"):
            scores, examples = task.scores(model, split, device)
            measurements += [task.measurement(score, split, at) for score in scores]
            if split == "test":
                items = {
                    s.metric: [*s.per_example]
                    for s in scores
                    if s.per_example is not None and not s.coordinates
                }
            for name, value in task.trivial(split).items():
                unit = "nats/token" if name == "loss" else task.metrics[name].unit
                if (name, split) != ("loss", "valid"):  # training has recorded that one
                    measurements.append(Measurement(f"trivial_{name}", unit, value, split=split))
            for name, value in task.copied(split).items():
                unit = task.metrics[name].unit
                measurements.append(Measurement(f"copied_{name}", unit, value, split=split))
        return Measured(measurements, examples, items)


WIDTH = 4


@MEASUREMENT.register("beam")
class Beam(Evaluation):
    """The task's scores on test with a beam of four; answers rank by log probability per token."""

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        def decode(model: Generator, question: Question, longest: int) -> list[Answer]:
            return [best for best, *_ in beam(model, question, longest, WIDTH)]

        scores, _ = task.scores(model, "test", device, decode)
        at: dict[str, float | str] = {"step": step, "beam": WIDTH}
        return Measured([task.measurement(score, "test", at) for score in scores])


SIDES = ("per_several", "per_one")


@MEASUREMENT.register("ambiguity")
class Ambiguity(Evaluation):
    """per_excess: the phone error rate of test words with several pronunciations (the nearest
    counts) minus that of words with one."""

    metrics: ClassVar = {
        "per_excess": Metric("edits/phone", "lower", "excess error rate of ambiguous words")
    }

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        if not set(SIDES) <= set(task.metrics):
            reason = "ambiguity is of words with several pronunciations: choose the task g2p"
            return self.nothing({"step": step}, reason)
        scores = {each.metric: each for each in task.scores(model, "test", device)[0]}
        several, one = (scores[name] for name in SIDES)
        if several.value is None or one.value is None:
            return self.nothing({"step": step}, several.reason or one.reason or "no score")
        excess = several.value - one.value
        return Measured([self.measurement("per_excess", excess, {"step": step})])


ENDS = (4, 8, 12, 16, 24, 32, 48, 64)  # of buckets, in source tokens; longer sources are left out
FEWEST = 20  # examples of a bucket: the loss of fewer says little


@MEASUREMENT.register("lengths")
class Lengths(Evaluation):
    """Nats per label of test examples, in buckets by source length (Koehn & Knowles 2017)."""

    metrics: ClassVar = {
        "loss_at_source": Metric(
            "nats/token", "lower", "loss by length of the source", matters=0.02
        )
    }

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        if task.source_size is None:
            reason = "lengths sorts examples by their source: choose a task that has one"
            return self.nothing({"step": step}, reason)
        nats_N, labels_N, source_N = by_example(model, task, device, "test")
        bucket_N = torch.bucketize(source_N, torch.tensor(ENDS))
        measurements = []
        for index, end in enumerate(ENDS):
            mine_N = bucket_N == index
            if int(mine_N.sum()) >= FEWEST:
                value = float(nats_N[mine_N].sum() / labels_N[mine_N].sum())
                at = {"step": step, "source_length": end}
                measurements.append(self.measurement("loss_at_source", value, at))
        reason = f"no bucket of lengths up to {ENDS[-1]} has {FEWEST} test examples: ask more"
        return Measured(measurements) if measurements else self.nothing({"step": step}, reason)


def by_example(
    model: nn.Module, task: Task, device: torch.device, split: str
) -> tuple[Tensor, Tensor, Tensor]:
    """For each example: its loss in nats, its number of labels, and the length of its source."""
    batches = task.evaluation_batches(split)  # outside inference mode, because they may be cached
    nats, labels, sources = [], [], []
    with evaluating(model), torch.inference_mode():
        for batch in batches:
            assert batch.source is not None
            moved = batch.to(device)
            logits = model(moved).flatten(0, -2)
            each = F.cross_entropy(
                logits, moved.labels.flatten(), ignore_index=IGNORE, reduction="none"
            )
            nats.append(each.view(len(batch.labels), -1).sum(1).double().cpu())
            labels.append((batch.labels != IGNORE).view(len(batch.labels), -1).sum(1))
            size, width = batch.source.shape
            whole_B = torch.full((size,), width)
            sources.append(whole_B if batch.source_lengths is None else batch.source_lengths)
    return torch.cat(nats), torch.cat(labels), torch.cat(sources)


BINS = 15  # as Guo et al. have it
QUANTITIES = ("lower edge", "upper edge", "confidence", "accuracy", "count")


@MEASUREMENT.register("calibration")
class Calibration(Evaluation):
    """Confidence (the largest probability) and accuracy at each label, given those before.

    calibration_error: Σ n_k / N |accuracy_k − confidence_k| over bins of equal width, each without
    its lower edge and with its upper one (Guo et al. 2017). overconfidence: mean confidence less
    accuracy. reliability has a row of QUANTITIES for each bin: confidence and accuracy are null
    where it is empty. The counts are the histogram of confidence.
    """

    metrics: ClassVar = {
        "calibration_error": Metric("1", "lower", "calibration error"),
        "overconfidence": Metric("1", "lower", "confidence less accuracy"),
        "confidence": Metric("probability", "lower", "mean confidence"),
        "label_accuracy": Metric("right/label", "higher", "accuracy of single labels"),
    }

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        confidence_N, right_N = answers(model, task, device, "test")
        at: dict[str, float | str] = {"step": step}
        if not confidence_N.isfinite().all():
            return self.nothing(at, "the model's probabilities are not finite")
        confidence, accuracy = float(confidence_N.mean()), float(right_N.mean())
        rows = reliability(confidence_N, right_N)
        gaps = (n * abs(right - sure) for _, _, sure, right, n in rows if n)
        values = (sum(gaps) / len(right_N), confidence - accuracy, confidence, accuracy)
        named = zip(self.metrics, values, strict=True)
        measurements = [self.measurement(name, value, at) for name, value in named]
        table = [[None if math.isnan(entry) else entry for entry in row] for row in rows]
        axes: dict[str, list[Any]] = {"bin": list(range(BINS)), "quantity": list(QUANTITIES)}
        diagram = Measurement(
            "reliability", "probability", None, "test", at, axes=axes, values=table
        )
        return Measured([*measurements, diagram])


def answers(
    model: nn.Module, task: Task, device: torch.device, split: str
) -> tuple[Tensor, Tensor]:
    """For each label: the model's largest probability, and 1 if that answer is right, else 0."""
    batches = task.evaluation_batches(split)  # outside inference mode, because they may be cached
    sure, right = [], []
    with evaluating(model), torch.inference_mode():
        for batch in batches:
            moved = batch.to(device)
            labels_N = moved.labels.flatten()
            counts_N = labels_N != IGNORE
            logits_NV = model(moved).flatten(0, -2)[counts_N]
            confidence_N, answer_N = logits_NV.float().softmax(-1).max(-1)
            sure.append(confidence_N.cpu())
            right.append((answer_N == labels_N[counts_N]).cpu())
    return torch.cat(sure).double(), torch.cat(right).double()


def reliability(confidence_N: Tensor, right_N: Tensor) -> list[list[float]]:
    """Each bin's edges, mean confidence, accuracy (NaN if it is empty) and count."""
    edges = torch.arange(BINS + 1).double() / BINS
    bin_N = torch.bucketize(confidence_N, edges[1:-1])
    count_K = torch.bincount(bin_N, minlength=BINS)
    means = (torch.bincount(bin_N, each_N, BINS) / count_K for each_N in (confidence_N, right_N))
    columns = (edges[:-1], edges[1:], *means, count_K)
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
