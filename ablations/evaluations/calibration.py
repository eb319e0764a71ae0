"""Whether a model is right as often as it is sure to be.

N: labels that count, V: vocabulary or classes, K: bins.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Evaluation, Measured, Metric
from ablations.store.record import Measurement
from ablations.tasks.task import Task
from model.batch import IGNORE
from model.layers import evaluating

BINS = 15  # as Guo et al. have it
QUANTITIES = ("lower edge", "upper edge", "confidence", "accuracy", "count")


@MEASUREMENT.register("calibration")
class Calibration(Evaluation):
    """Confidence, the largest probability, beside accuracy, at each label given those before.

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
    """The largest probability at each label, and 1 where it is the label's, else 0."""
    batches = task.evaluation_batches(split)  # which may be kept, so not in inference mode
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
    """Of each bin its edges, mean confidence, accuracy (NaN where it is empty) and count."""
    edges = torch.arange(BINS + 1).double() / BINS
    bin_N = torch.bucketize(confidence_N, edges[1:-1])
    count_K = torch.bincount(bin_N, minlength=BINS)
    means = (torch.bincount(bin_N, each_N, BINS) / count_K for each_N in (confidence_N, right_N))
    columns = (edges[:-1], edges[1:], *means, count_K)
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
