"""How much alike the vectors of any two positions are.

T: positions, W: width of the position vectors.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.measure import MEASURE, Measure, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.positions import InputScheme

METRIC, UNIT = "position_similarity", "cosine"
MOST = 32  # positions
DIGITS = 4


@MEASURE.register("positions")
class Positions(Measure):
    """The cosine between the vectors of every two positions, in each stack that has its own.

    p_s · p_t / (‖p_s‖ ‖p_t‖). Of sines and cosines it depends on t − s alone (Vaswani et al. 2017,
    3.5); learned vectors have whatever order they have found (Wang & Chen 2020).
    """

    quantities: ClassVar = {METRIC: Quantity(UNIT, "higher", "similarity of positions")}

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        schemes = {n: part for n, part in model.named_modules() if isinstance(part, InputScheme)}
        if not schemes:
            reason = "this model has no vectors of positions at its input"
            return Taken([Reading(METRIC, UNIT, None, "test", {"step": step}, reason=reason)])
        readings = []
        for name, scheme in schemes.items():
            cosines_TT = similarity(scheme, device)
            places = list(range(len(cosines_TT)))
            axes: dict[str, list[Any]] = {"position": places, "other": places}
            values = [[round(value, DIGITS) for value in row] for row in cosines_TT.tolist()]
            at: dict[str, float | str] = {"step": step, "stack": name.split(".")[0]}
            readings.append(Reading(METRIC, UNIT, None, "test", at, axes=axes, values=values))
        return Taken(readings)


@torch.inference_mode()
def similarity(scheme: InputScheme, device: torch.device) -> Tensor:
    """T T."""
    count = MOST if scheme.reach is None else min(MOST, scheme.reach)
    vectors_TW = scheme.vectors(torch.arange(count, device=device)).float()
    unit_TW = F.normalize(vectors_TW, dim=-1)
    return (unit_TW @ unit_TW.T).cpu()
