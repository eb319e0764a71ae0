"""Whether a step from one position to another is the same map wherever it starts.

T: positions, W: width of the position vectors.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.build import build
from model.positions import InputScheme

OFFSETS = (1, 4, 16)
TIMES = 8  # as many pairs as dimensions: with as few as dimensions, a map fits anything


@MEASURE.register("offset")
class Offset(Probe):
    """What the best linear map M from the vector at pos to that at pos + k leaves unexplained.

    min over M of ‖P M − P₊ₖ‖ / ‖P₊ₖ‖, without an intercept, over eight times as many positions as
    dimensions. Sines and cosines leave nothing: M turns each pair by k / base^(2i/w) (Vaswani et
    al. 2017, 3.5). A stack has a scheme of its own; of several the largest residual counts.
    """

    quantities: ClassVar = {
        "offset_residual": Quantity("1", "lower", "what no linear map explains", "nothing")
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        # On the CPU, since not every device has float64.
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        schemes = [part for part in model.modules() if isinstance(part, InputScheme)]
        if not schemes:
            raise ValueError(
                "this model has no vectors of positions at its input: choose model.position "
                "sinusoidal, learned, index or binary"
            )
        found = [vectors(scheme) for scheme in schemes]
        return Taken(
            [
                Reading(
                    "offset_residual",
                    "1",
                    max(residual(p_TW, offset) for p_TW in found),
                    at={"offset": offset},
                )
                for offset in OFFSETS
            ]
        )


@torch.inference_mode()
def vectors(scheme: InputScheme) -> Tensor:
    """T W: of as many positions as all offsets need."""
    width = scheme.double().vectors(torch.arange(1)).shape[1]
    needed = TIMES * width + max(OFFSETS)
    if scheme.reach is not None and scheme.reach < needed:
        raise ValueError(
            f"positions of {width} dimensions that end at max_len={scheme.reach} are too few to "
            f"tell a map from a table: set model.max_len to at least {needed}"
        )
    return scheme.vectors(torch.arange(needed)).double()


@torch.inference_mode()
def residual(p_TW: Tensor, offset: int) -> float:
    """Relative, of least squares.

    Slow sinusoids are almost the same column, so the driver is one that bears a low rank.
    """
    pairs = TIMES * p_TW.shape[1]
    here_TW, there_TW = p_TW[:pairs], p_TW[offset : offset + pairs]
    map_WW = torch.linalg.lstsq(here_TW, there_TW, driver="gelsd").solution
    return float((here_TW @ map_WW - there_TW).norm() / there_TW.norm())
