"""How much a block changes what goes through it before it has learned anything.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Budget, Task
from model.batch import Batch
from model.build import build
from model.layers import evaluating
from model.mixers import Context
from model.transformer import Block

TOKENS = 1024  # of the batch, about


@MEASURE.register("fresh")
class Fresh(Probe):
    """|block(x) − x| / |x| of an untrained block on real tokens, the mean over all blocks.

    0 is the identity, which a residual layer has at hand (He et al. 2016); √2 is a block whose
    answer is as long as what it was given and has nothing to do with it.
    """

    quantities: ClassVar = {"relative_change": Quantity("1", "lower", "change by a fresh block")}

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        (batch,) = next(task.steps(config["seed"], Budget(TOKENS)))
        changes = relative_changes(model.to(device), batch.to(device))
        return Taken([Reading("relative_change", "1", sum(changes) / len(changes))])


@torch.inference_mode()
def relative_changes(model: nn.Module, batch: Batch) -> list[float]:
    """Of each block, in the order in which they are called; padding does not count."""
    found: list[float] = []

    def watch(block: nn.Module, given: tuple[Any, ...], answer: tuple[Tensor, Any]) -> None:
        x_BTD: Tensor = given[0]
        context: Context = given[1]
        change_BTD = answer[0] - x_BTD
        if context.real is not None:
            x_BTD, change_BTD = x_BTD[context.real], change_BTD[context.real]
        found.append(float(change_BTD.norm() / x_BTD.norm()))

    blocks = [part for part in model.modules() if isinstance(part, Block)]
    if not blocks:
        raise ValueError("this model has no blocks: choose a transformer")
    hooks = [block.register_forward_hook(watch) for block in blocks]
    try:
        with evaluating(model):
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return found
