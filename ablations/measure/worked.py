"""Whether a slide's worked example of attention comes out as it is printed.

B: 1, H: 1, T: 1, S: keys, K: 64.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.attention import MASK, PATH
from model.scale import SCALE

WIDTH = 64  # of the slide's heads
PRINTED = {
    "first": ((112.0, 96.0, 16.0, 8.0), (0.87, 0.12, 0.01, 0.0)),
    "second": ((92.0, 124.0, 22.0, 8.0), (0.08, 0.91, 0.01, 0.0)),
}
"""Example → dot products, and the weights that the slide has for them (MIT 6.861)."""
SCALES = {"scaled": "sqrt_d_head", "raw": "none"}


@MEASURE.register("worked")
class Worked(Probe):
    """The largest |p − printed|, p = softmax(qᵀk / √64) by this project's own attention.

    `raw` leaves the division out, which shows that a wrong formula would be seen.
    """

    quantities: ClassVar = {
        "slide_gap": Quantity(
            "probability", "lower", "largest gap to the printed weights", repeats="nothing"
        )
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        readings = []
        for example, (products, printed) in PRINTED.items():
            for word, scale in SCALES.items():
                gap_S = attended(products, scale).cpu() - torch.tensor(printed, dtype=torch.float64)
                at: dict[str, float | str] = {"example": example, "scores": word}
                value = float(gap_S.abs().max())
                readings.append(Reading("slide_gap", "probability", value, at=at))
        return Taken(readings)


def attended(products: tuple[float, ...], scale: str) -> Tensor:
    """S: the weights of a query whose dot products with the keys are these."""
    q_BHTK = torch.zeros(1, 1, 1, WIDTH, dtype=torch.float64)
    k_BHSK = torch.zeros(1, 1, len(products), WIDTH, dtype=torch.float64)
    q_BHTK[..., 0] = 1.0
    k_BHSK[..., 0] = torch.tensor(products, dtype=torch.float64)
    path = PATH.build("explicit", mask=MASK.build("infinity"))
    q_BHTK, factor = SCALE.build(scale, d_head=WIDTH).scaled(q_BHTK)
    weights_BHTS: Tensor = path(q_BHTK, k_BHSK, k_BHSK, factor)[1]
    return weights_BHTS.flatten()
