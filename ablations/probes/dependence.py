"""What an output depends on: probes change everything that it should not depend on.

B: sequences, T: positions, D: width of an answer, which is d_model or the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.benchmarks.throughput import padded
from ablations.measurement import MEASUREMENT, Measured, Metric, Probe, untrained
from ablations.tasks.task import Task
from model.batch import BOS, IGNORE, Batch
from model.layers import evaluating

DRAWS = 3  # of weights, tokens and orders
LENGTH = 12

Answer = Callable[[Tensor], Tensor]  # B T tokens → B T D


class Gap(Probe):
    """The largest gap of several models that differ in their initial weights."""

    def gap(self, model: Any, config: Any, task: Task, draw: torch.Generator) -> float:
        raise NotImplementedError

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        """In float64, and so on the CPU: not every device has it."""
        gaps = []
        for seed in range(config["seed"], config["seed"] + DRAWS):
            model = untrained({**config, "seed": seed}, task).double().eval()
            gaps.append(self.gap(model, config, task, torch.Generator().manual_seed(seed)))
        (name,) = self.metrics
        return Measured([self.measurement(name, max(gaps))])


@MEASUREMENT.register("permutation")
class Permutation(Gap):
    """How far an encoder is from a set operation, f(Px) = P f(x) (Zaheer et al. 2017).

    The largest entry of f(Px) − P f(x), over drawn weights, tokens and permutations P.
    """

    metrics: ClassVar = {
        "permutation_gap": Metric("1", "lower", "change by permuting the input", "nothing")
    }

    def gap(self, model: Any, config: Any, task: Task, draw: torch.Generator) -> float:
        answer = encoding(model)
        x_BT = tokens(config, task.source_size, draw)
        orders = [torch.randperm(x_BT.shape[1], generator=draw) for _ in range(DRAWS)]
        return max(permutation_gap(answer, x_BT, order_T) for order_T in orders)


@MEASUREMENT.register("future")
class Future(Gap):
    """How much a decoder sees of later tokens (Vaswani et al. 2017, 3.2.3).

    The largest change of a logit at or before t when every token after t is another, over all t.
    """

    metrics: ClassVar = {"future_gap": Metric("nats", "lower", "change by later tokens", "nothing")}

    def gap(self, model: Any, config: Any, task: Task, draw: torch.Generator) -> float:
        answer = decoding(model, config, task, draw)
        x_BT = tokens(config, task.target_size, draw)
        return future_gap(answer, x_BT, others(x_BT, task.target_size, draw))


@MEASUREMENT.register("mixing")
class Mixing(Gap):
    """Whether the output at a token depends on any other token.

    The largest change of the answer at t (an encoder's vector, a decoder's logits) when every token
    but that at t is another, over all t.
    """

    metrics: ClassVar = {"mixing_gap": Metric("1", "lower", "change by other tokens", "nothing")}

    def gap(self, model: Any, config: Any, task: Task, draw: torch.Generator) -> float:
        reads, writes = (getattr(model, side, None) for side in ("encoder", "decoder"))
        if reads is not None and writes is not None:
            raise ValueError(
                "every token of an encoder-decoder may read the source: to see whether tokens "
                "mix, choose a task with kind=decoder or kind=encoder, such as recall"
            )
        answer = encoding(model) if writes is None else decoding(model, config, task, draw)
        size = task.source_size if writes is None else task.target_size
        x_BT = tokens(config, size, draw)
        return mixing_gap(answer, x_BT, others(x_BT, size, draw))


@MEASUREMENT.register("padding_seen")
class PaddingSeen(Probe):
    """The largest change of a logit, in float64, when the padding is doubled: with the lengths
    (`told`), or without them (`untold`), which shows that such a change would be seen."""

    metrics: ClassVar = {"padding_gap": Metric("nats", "lower", "largest change of a logit")}

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        model = untrained(config, task, device).double()
        batch = next(iter(task.evaluation_batches("valid")))
        target, source = (0 if x is None else x.shape[1] for x in (batch.inputs, batch.source))
        more = padded(batch, 2 * target, 2 * source)
        measurements = []
        for word, sides in (("told", (batch, more)), ("untold", (_untold(batch), _untold(more)))):
            gap = _padding_gap(model, sides[0].to(device), sides[1].to(device), batch.labels)
            measurements.append(self.measurement("padding_gap", gap, {"lengths": word}))
        return Measured(measurements)


def _untold(batch: Batch) -> Batch:
    return replace(batch, lengths=None, source_lengths=None)


def _padding_gap(model: Any, own: Batch, wider: Batch, labels: Tensor) -> float:
    """At the labels; the outputs of padding itself do not matter."""
    counts = labels != IGNORE
    with evaluating(model), torch.inference_mode():
        one, two = model(own).cpu(), model(wider).cpu()
    if labels.dim() == 2:
        two = two[:, : labels.shape[1]]
    return float((one - two)[counts].abs().max())


@torch.inference_mode()
def permutation_gap(answer: Answer, x_BT: Tensor, order_T: Tensor) -> float:
    return _largest(answer(x_BT[:, order_T]) - answer(x_BT)[:, order_T])


def future_gap(answer: Answer, x_1T: Tensor, other_1T: Tensor) -> float:
    """Row t of the batch has other tokens after t."""
    length = x_1T.shape[1]
    return _gap(answer, x_1T, other_1T, torch.ones(length - 1, length).tril().bool())


def mixing_gap(answer: Answer, x_1T: Tensor, other_1T: Tensor) -> float:
    """Row t of the batch has other tokens everywhere but at t."""
    return _gap(answer, x_1T, other_1T, torch.eye(x_1T.shape[1], dtype=torch.bool))


@torch.inference_mode()
def _gap(answer: Answer, x_1T: Tensor, other_1T: Tensor, kept_BT: Tensor) -> float:
    """The largest change of an answer at the kept tokens when all others are replaced."""
    change_BTD = answer(torch.where(kept_BT, x_1T, other_1T)) - answer(x_1T.expand_as(kept_BT))
    return _largest(change_BTD[kept_BT])


def _largest(change: Tensor) -> float:
    return float(change.abs().max())


def tokens(config: dict[str, Any], size: Any, draw: torch.Generator) -> Tensor:
    """1 T, without padding."""
    length = min(LENGTH, config["model"].get("max_len", LENGTH))
    return torch.randint(BOS, size, (1, length), generator=draw)


def others(x_1T: Tensor, size: Any, draw: torch.Generator) -> Tensor:
    """1 T: at each place another token than was there."""
    further_1T = torch.randint(1, size - BOS, x_1T.shape, generator=draw)
    return BOS + (x_1T - BOS + further_1T) % (size - BOS)


def encoding(model: Any) -> Answer:
    if getattr(model, "encoder", None) is None or not hasattr(model, "encode"):
        raise ValueError(
            "this model has no encoder to ask: choose a transformer with kind=encoder or "
            "kind=encoder_decoder"
        )
    return lambda x_BT: model.encode(x_BT, None)


def decoding(model: Any, config: dict[str, Any], task: Task, draw: torch.Generator) -> Answer:
    """The logits, given one source if the model reads any."""
    if getattr(model, "decoder", None) is None:
        raise ValueError(
            "this model has no decoder to ask: choose kind=decoder or kind=encoder_decoder"
        )
    source_1S = None if task.source_size is None else tokens(config, task.source_size, draw)

    def answer(x_BT: Tensor) -> Tensor:
        rows_BS = None if source_1S is None else source_1S.expand(len(x_BT), -1)
        return model(Batch(x_BT, inputs=x_BT, source=rows_BS))

    return answer
