"""Whether attention is the same function however it is computed.

B: sequences, T: target positions, S: source positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.measure.throughput import random_batch
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.attention import Path
from model.batch import Batch
from model.build import build, resolve

DRAWS = 3  # of weights
LENGTH, SEQUENCES = 8, 3
DIRECT = {"path": {"name": "explicit"}, "scale": {"name": "sqrt_d_head"}}


@MEASURE.register("forms")
class Forms(Probe):
    """How far a model's logits are from those of softmax(q kᵀ / √d_head) v with the same weights.

    The largest difference over several weights, in float64, of the path and the scale that its
    settings name from two matrix products with every score between them (Vaswani et al. 2017, eq.
    1); where there is padding to hide, it is hidden.
    """

    quantities: ClassVar = {
        "form_gap": Quantity("nats", "lower", "largest difference of a logit", "nothing")
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        seeds = [config["seed"] + draw for draw in range(DRAWS)]
        gaps = [gap(*both(config, task, seed), batch_of(config, task)) for seed in seeds]
        return Taken([Reading("form_gap", "nats", max(gaps))])


def both(config: dict[str, Any], task: Task, seed: int) -> tuple[Any, Any]:
    """The model as it is, and the same weights by the formula. On the CPU: float64 is not
    everywhere."""
    written = resolve(config["model"])
    own = build(written, task.source_size, task.target_size, seed).double().eval()
    if not any(isinstance(part, Path) for part in own.modules()):
        raise ValueError("this model has no attention to compute: choose a transformer with it")
    direct = build({**written, **DIRECT}, task.source_size, task.target_size, None).double().eval()
    weights = own.state_dict()
    if weights.keys() != direct.state_dict().keys():
        raise ValueError("a scale with weights is not that of the formula: choose a fixed one")
    direct.load_state_dict(weights)
    return own, direct


@torch.inference_mode()
def gap(own: Any, direct: Any, batch: Batch) -> float:
    """Where a token is real."""
    difference = (own(batch) - direct(batch)).abs()
    if batch.labels.dim() == 2 and batch.lengths is not None:
        at_T = torch.arange(batch.labels.shape[1])
        difference = difference[at_T < batch.lengths[:, None]]
    return float(difference.max())


def batch_of(config: dict[str, Any], task: Task) -> Batch:
    """Random tokens, and a sequence of each length from the longest downwards."""
    batch = random_batch(task, min(LENGTH, config["model"].get("max_len", LENGTH)), SEQUENCES)

    def falling(x_BT: Tensor | None) -> Tensor | None:
        if x_BT is None:
            return None
        return (x_BT.shape[1] - torch.arange(len(x_BT))).clamp(min=1)

    return replace(batch, lengths=falling(batch.inputs), source_lengths=falling(batch.source))
