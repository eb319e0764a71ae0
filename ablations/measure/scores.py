"""Whether scores keep their size as heads widen, and what the softmax makes of them.

B: draws, H: heads, T: queries, S: keys, K: width of a head.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.init import INIT, initialise
from model.scale import SCALE, Scale

WIDTHS = (4, 16, 64, 256, 1024)
DRAWS, QUERIES, KEYS = 16, 64, 64


@MEASURE.register("scores")
class Scores(Probe):
    """Dot products of queries and keys from N(0, 1), under the model's own scale.

    score_variance: of qᵀk · scale, which is d_head · scale² (Vaswani et al. 2017, 3.2.1).
    score_entropy: −Σ p log p of the softmax over the keys, as a share of log S.
    softmax_gradient: |diag(p) − p pᵀ|, what is left of a gradient that goes through the softmax.
    """

    quantities: ClassVar = {
        "score_variance": Quantity("1", "lower", "variance of the scores"),
        "score_entropy": Quantity("1", "higher", "entropy of the weights over log of the keys"),
        "softmax_gradient": Quantity("1", "higher", "norm of the softmax's Jacobian"),
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        generator = torch.Generator().manual_seed(config["seed"])
        readings = []
        for width in WIDTHS:
            scores_BHTS = drawn_scores(config["model"], width, config["seed"], generator)
            weights_BHTS = scores_BHTS.softmax(-1)
            at: dict[str, float | str] = {"d_head": width}
            values = (scores_BHTS.var(), entropy_share(weights_BHTS), jacobian_norm(weights_BHTS))
            readings += [
                Reading(name, "1", float(value.mean()), at=at)
                for name, value in zip(self.quantities, values, strict=True)
            ]
        return Taken(readings)


@torch.inference_mode()
def drawn_scores(
    model: dict[str, Any], width: int, seed: int, generator: torch.Generator
) -> Tensor:
    """B H T S: what a softmax would meet in heads of this width."""
    if "scale" not in model:
        raise ValueError("this model has no scale of scores: choose a transformer")
    heads = model["n_heads"]
    scale: Scale = SCALE.build(
        model["scale"], d_head=width, n_heads=heads, d_model=heads * width, depth=model["depth"]
    )
    initialise(scale, INIT.build(model["init"]), seed)
    q_BHTK = torch.randn(DRAWS, heads, QUERIES, width, generator=generator)
    k_BHSK = torch.randn(DRAWS, heads, KEYS, width, generator=generator)
    q_BHTK, factor = scale.scaled(q_BHTK)
    return (q_BHTK @ k_BHSK.transpose(-2, -1)).double() * factor


def entropy_share(weights_BHTS: Tensor) -> Tensor:
    """B H T: 1 where all keys weigh the same, 0 where one has all the weight."""
    return torch.special.entr(weights_BHTS).sum(-1) / math.log(weights_BHTS.shape[-1])


def jacobian_norm(weights_BHTS: Tensor) -> Tensor:
    """B H T: |diag(p) − p pᵀ|, without the matrix: Σ p² − 2 Σ p³ + (Σ p²)² is its square."""
    squares, cubes = weights_BHTS.square().sum(-1), weights_BHTS.pow(3).sum(-1)
    return (squares - 2 * cubes + squares.square()).clamp(min=0).sqrt()
