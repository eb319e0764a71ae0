"""How much alike the vectors of any two positions are, and whether a step is the same map anywhere.

T: positions, W: width of the position vectors.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.measure import MEASURE, Measure, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.build import build
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
