"""Whether a model errs more once its own answer is the past that it goes on from.

B: sequences, T: target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import nn

from ablations.measure import MEASURE, Measure, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.scoring import edits
from ablations.tasks.task import Task
from model.batch import EOS, IGNORE, Batch
from model.evaluating import evaluating
from model.generate import Generator, Question, greedy

Counts = tuple[int, int]  # errors, of so many


@MEASURE.register("forcing")
class Forcing(Measure):
    """Errors of a model that is told the true past, as in training, and of one that writes alone.

    forced_error: labels that are not the likeliest, given those before. free_error: Σ edits from
    the greedy answers to their targets / Σ tokens of the targets, without the end, which has no
    edit; an answer is stopped where the task's longest would end. exposure_gap: free less forced,
    which the bias of exposure (Bengio et al. 2015, Ranzato et al. 2016) would make large. It is not
    0 of a model whose errors change nothing after them: the end is a label but no token, and one
    edit can mend what are several wrong labels.
    """

    quantities: ClassVar = {
        "forced_error": Quantity("errors/label", "lower", "errors after the true past"),
        "free_error": Quantity("edits/token", "lower", "errors after its own past"),
        "exposure_gap": Quantity("errors/token", "lower", "what its own past adds in errors"),
    }

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        at: dict[str, float | str] = {"step": step}
        if task.kind != "encoder_decoder" or not task.writes:
            reason = "nothing is written after a source: choose a task of kind encoder_decoder"
            return _nothing(at, reason)
        batches = [batch.to(device) for batch in task.evaluation_batches("test")]
        told = [forced(model, batch) for batch in batches]
        if None in told:
            return _nothing(at, "the model's logits are not finite")
        alone = [free(model, batch, task.longest - 1) for batch in batches]
        told_error, free_error = (_rate(counts) for counts in (told, alone))
        values = (told_error, free_error, free_error - told_error)
        readings = [
            Reading(name, each.unit, value, "test", at)
            for (name, each), value in zip(self.quantities.items(), values, strict=True)
        ]
        return Taken(readings)


def _nothing(at: dict[str, float | str], reason: str) -> Taken:
    quantities = Forcing.quantities.items()
    return Taken([Reading(n, each.unit, None, "test", at, reason=reason) for n, each in quantities])


def _rate(counts: Sequence[Counts | None]) -> float:
    wrong, of = (sum(column) for column in zip(*filter(None, counts), strict=True))
    return wrong / of


@torch.inference_mode()
def forced(model: nn.Module, batch: Batch) -> Counts | None:
    """Wrong labels after the true past, of all that count; None where the logits are no numbers."""
    with evaluating(model):
        logits_BTV = model(batch)
    counts_BT = batch.labels != IGNORE
    if not logits_BTV[counts_BT].isfinite().all():
        return None
    wrong_BT = (logits_BTV.argmax(-1) != batch.labels) & counts_BT
    return int(wrong_BT.sum()), batch.tokens


def free(model: nn.Module, batch: Batch, longest: int) -> Counts:
    """Edits from what it writes to the targets, and tokens of the targets."""
    question = Question(batch.source, batch.source_lengths)
    answers = greedy(cast(Generator, model), question, longest)
    targets = [[x for x in row if x not in (EOS, IGNORE)] for row in batch.labels.tolist()]
    wrong = (edits(said.tokens, true) for said, true in zip(answers, targets, strict=True))
    return sum(wrong), sum(map(len, targets))
