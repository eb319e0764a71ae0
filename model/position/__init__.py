"""How a model learns where a token stands: schemes with sites that do nothing by default.

B: sequences, T: positions given now, S: positions of keys, H: heads, K: width of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.family import Family

POSITION = Family("position")


class Position(nn.Module):
    """A scheme overrides the sites it uses; positions are arguments, so a cache can go on."""

    width = 0  # dimensions of d_model that `embed` appends rather than adds to
    every_layer = False  # whether `embed` is called again before every block but the first
    shared = True  # whether all blocks of a stack have one instance, or each its own
    reach: int | None = None  # positions it knows, where max_len sets an end; None: any number

    def check(self, end: int) -> None:
        """A clear word where more positions are asked for than the scheme knows."""
        if self.reach is not None and end > self.reach:
            raise ValueError(
                f"{type(self).__name__.lower()} positions end at max_len={self.reach}, "
                f"asked for {end}: the model needs max_len={end}"
            )

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        """At the input: vectors of tokens, told where they stand."""
        return x_BTD

    def rotate(self, q_BHTK: Tensor, k_BHTK: Tensor, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        """Before the scores: queries and keys."""
        return q_BHTK, k_BHTK

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor | None:
        """H T S, added to the scores; None adds nothing."""
        return None

    def score(self, q_BHTK: Tensor, queries_T: Tensor, keys_S: Tensor) -> Tensor | None:
        """B H T S, added to the scores before they are scaled; None adds nothing."""
        return None


def precise(positions_T: Tensor) -> Tensor:
    """As double precision, where the device has it: float32 loses the phase of far positions."""
    return positions_T.to(torch.float32 if positions_T.device.type == "mps" else torch.float64)


def angles(positions_T: Tensor, width: int, base: float) -> Tensor:
    """T W/2: pos / base^(2i/width), one for every two dimensions (Vaswani et al. 2017, 3.5)."""
    steps = precise(torch.arange(0, width, 2, device=positions_T.device))
    return positions_T[:, None] * base ** (-steps / width)
