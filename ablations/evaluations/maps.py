"""Attention maps, and similarity of positions.

B: sequences, H: heads, T: queries or positions, S: keys, W: width of a position's vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.evaluations.heads import unfused
from ablations.measurement import MEASUREMENT, Evaluation, Measured, Metric
from ablations.store.record import Measurement
from ablations.tasks.task import Task
from model.attention import attention
from model.batch import Batch
from model.positions import InputScheme

EXAMPLES = 3
SHORT = 16  # tokens, of the longer side
WHOLE = 32  # tokens: a longer text without a source is cut to SHORT
DIGITS = 4
MOST = 32  # positions


@MEASUREMENT.register("maps")
class Maps(Evaluation):
    """Each layer's attention weights in three short examples of test, by head, query and key.

    The examples are at a quarter, half and three quarters of those with at most 16 tokens on either
    side: batches are sorted by length, and the first examples are too short to show anything. A
    text of over 32 tokens is cut to 16. `example` counts in the order of the evaluation batches.
    """

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        at: dict[str, float | str] = {"step": step}
        chosen = examples(task.evaluation_batches("test"))
        if not chosen:
            return _nothing(at, f"no example of test is as short as {SHORT} tokens")
        shown = unfused(model)
        measurements = [
            _map(task, batch, layer, weights_BHTS[0], {**at, "layer": layer, "example": number})
            for number, batch in chosen
            for layer, weights_BHTS in attention(shown, batch.to(device)).items()
        ]
        return (
            Measured(measurements) if measurements else _nothing(at, "the model attends to nothing")
        )


def _nothing(at: dict[str, float | str], reason: str) -> Measured:
    return Measured([Measurement("attention", "probability", None, "test", at, reason=reason)])


def _map(
    task: Task, batch: Batch, layer: str, weights_HTS: Tensor, at: dict[str, float | str]
) -> Measurement:
    if not weights_HTS.isfinite().all():
        reason = "the model's weights are not finite"
        return Measurement("attention", "probability", None, "test", at, reason=reason)
    of_source = layer.startswith("encoder")
    to_source = of_source or "cross" in layer or layer == "shown"  # a recurrent model's
    axes = {
        "head": list(range(len(weights_HTS))),
        "query": words(task, batch, of_source),
        "key": words(task, batch, to_source),
    }
    values = weights_HTS.double().round(decimals=DIGITS).tolist()
    return Measurement("attention", "probability", None, "test", at, axes=axes, values=values)


def words(task: Task, batch: Batch, of_source: bool) -> list[Any]:
    """The tokens of one example as text, or their positions if they have no text."""
    tokens_BT = batch.source if of_source else batch.inputs
    assert tokens_BT is not None
    known = task.input_tokens if of_source else task.output_tokens
    places = range(tokens_BT.shape[1])
    return [*places] if known is None else known.show(tokens_BT[0].tolist())


def examples(batches: Sequence[Batch]) -> list[tuple[int, Batch]]:
    """Up to three short examples with their numbers, without padding."""
    places = [(batch, row) for batch in batches for row in range(len(batch.labels))]
    alone = ((number, single(*place)) for number, place in enumerate(places))
    short = [(number, batch) for number, batch in alone if _size(batch) <= SHORT]
    quarters = {len(short) * k // (EXAMPLES + 1) for k in range(1, EXAMPLES + 1)}
    return [short[index] for index in sorted(quarters)] if short else []


def single(batch: Batch, row: int) -> Batch:
    """One sequence of a batch without padding; the beginning of a long text."""

    def own(x_BT: Tensor | None, lengths_B: Tensor | None) -> Tensor | None:
        if x_BT is None:
            return None
        end = x_BT.shape[1] if lengths_B is None else int(lengths_B[row])
        is_cut = batch.source is None and end > WHOLE
        return x_BT[row : row + 1, : SHORT if is_cut else end]

    return replace(
        batch,
        labels=batch.labels[row : row + 1],
        inputs=own(batch.inputs, batch.lengths),
        lengths=None,
        source=own(batch.source, batch.source_lengths),
        source_lengths=None,
        segments=own(batch.segments, batch.source_lengths),
    )


def _size(batch: Batch) -> int:
    """Tokens of the longer side; 0 without a source, because long texts are cut."""
    if batch.source is None:
        return 0
    return max(x.shape[1] for x in (batch.source, batch.inputs) if x is not None)


@MEASUREMENT.register("positions")
class Positions(Evaluation):
    """The cosine between the vectors of every two positions, in each stack that has its own.

    p_s · p_t / (‖p_s‖ ‖p_t‖). Of sines and cosines it depends on t − s alone (Vaswani et al. 2017,
    3.5); learned vectors have whatever order they have found (Wang & Chen 2020).
    """

    metrics: ClassVar = {
        "position_similarity": Metric("cosine", "higher", "similarity of positions")
    }

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        schemes = {
            n: module for n, module in model.named_modules() if isinstance(module, InputScheme)
        }
        if not schemes:
            return self.nothing(
                {"step": step}, "this model has no vectors of positions at its input"
            )
        measurements = []
        for name, scheme in schemes.items():
            cosines_TT = similarity(scheme, device)
            places = list(range(len(cosines_TT)))
            axes: dict[str, list[Any]] = {"position": places, "other": places}
            values = [[round(value, DIGITS) for value in row] for row in cosines_TT.tolist()]
            at: dict[str, float | str] = {"step": step, "stack": name.split(".")[0]}
            measurements.append(
                self.measurement("position_similarity", None, at, axes=axes, values=values)
            )
        return Measured(measurements)


@torch.inference_mode()
def similarity(scheme: InputScheme, device: torch.device) -> Tensor:
    """T T: the cosine of every two positions."""
    count = MOST if scheme.reach is None else min(MOST, scheme.reach)
    vectors_TW = scheme.vectors(torch.arange(count, device=device)).float()
    unit_TW = F.normalize(vectors_TW, dim=-1)
    return (unit_TW @ unit_TW.T).cpu()
