"""How much a token attends to itself before anything is learned.

B: sequences, H: heads, T: positions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.attention import attention
from model.batch import BOS, EOS, Batch
from model.build import build
from model.transformer import Transformer

SEQUENCES, TOKENS = 64, 16


@MEASURE.register("diagonal")
class Diagonal(Probe):
    """The mean of p_tt, the weight of a token on itself, in the first block of an untrained model.

    Sequences are random, and no token stands in one twice. Chance is 1/16. The first block is the
    encoder's where there is one; no mask may hide other tokens from it.
    """

    quantities: ClassVar = {
        "diagonal_weight": Quantity("probability", "lower", "weight of a token on itself")
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        shown = {**config["model"], "path": {"name": "explicit"}}
        model = build(shown, task.source_size, task.target_size, config["seed"]).to(device)
        if not isinstance(model, Transformer):
            raise ValueError("this model has no blocks: choose a transformer")
        name = "decoder" if model.encoder is None else "encoder"
        if getattr(model, f"causal_{name}"):
            raise ValueError(f"a mask hides tokens here: choose model.causal_{name}=false")
        stack = getattr(model, name)
        tokens_BT = distinct(stack.embedding.tokens.num_embeddings, config["seed"]).to(device)
        weights = attention(model, _batch(tokens_BT, model)).get(f"{name}.blocks.0.mixer")
        if weights is None:
            raise ValueError("the first block shows no weights: choose model.mixer=attention")
        diagonal_BHT = weights.diagonal(dim1=-2, dim2=-1)
        value = float(diagonal_BHT.double().mean())
        return Taken([Reading("diagonal_weight", "probability", value)])


def distinct(size: int, seed: int) -> Tensor:
    """B T: tokens of a vocabulary of this size, each at most once in a sequence."""
    first = EOS + 1  # of those that mean something
    if size - first < TOKENS:
        raise ValueError(f"the task has {size - first} symbols: choose one with {TOKENS} or more")
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(size - first, generator=generator) for _ in range(SEQUENCES)]
    return first + torch.stack(orders)[:, :TOKENS]


def _batch(tokens_BT: Tensor, model: Transformer) -> Batch:
    """As this kind of model reads it; what a second stack is given makes no difference."""
    start_BT = torch.full_like(tokens_BT[:, :1], BOS)
    if model.encoder is None:
        return Batch(tokens_BT, inputs=tokens_BT)
    return Batch(start_BT, inputs=None if model.decoder is None else start_BT, source=tokens_BT)
