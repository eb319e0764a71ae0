"""What the schemes of the input share: a vector for each position, joined to the token's.

B: sequences, T: positions, D: width of the token vectors, W: width of the position vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from model.config import ConfigError
from model.position import Position


class InputScheme(Position):
    """A subclass says what the vectors are; here they are added to the tokens' or appended."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        join: Literal["add", "concat"] = "add"
        """Added to the token vectors (a narrow vector to their first dimensions), or appended to
        shorter ones, so that both together have d_model dimensions."""
        every_layer: bool = False
        """Whether they are added again before every block after the first."""

        def __post_init__(self) -> None:
            if self.every_layer and self.join != "add":
                raise ConfigError(
                    [f"every_layer=true: join={self.join} leaves no room in later blocks; "
                     "choose join=add"]
                )  # fmt: skip

    def __init__(self, config: Config, d_model: int, width: int) -> None:
        super().__init__()
        appended = config.join != "add"
        room = d_model - 1 if appended else d_model  # at least one dimension is the token's own
        if not 1 <= width <= room:
            raise ConfigError(
                [f"join={config.join}: position vectors of width={width} do not fit "
                 f"d_model={d_model}, which has room for 1 to {room}"]
            )  # fmt: skip
        self.width = width if appended else 0
        self.every_layer = config.every_layer
        self.join = _append if appended else _add

    def vectors(self, positions_T: Tensor) -> Tensor:
        """T W."""
        raise NotImplementedError

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        if positions_T.device.type == "cpu" and not torch.compiler.is_compiling():
            # Elsewhere the stack's own check must do.
            self.check(int(positions_T.max()) + 1)
        return self.join(x_BTD, self.vectors(positions_T).to(x_BTD.dtype))


class FreeWidth(InputScheme):
    """Vectors of any width: d_model where they are added, a part of it where appended."""

    @dataclass(frozen=True, kw_only=True)
    class Config(InputScheme.Config):
        width: int | None = None
        """Of vectors that are appended. Left out: d_model / 4."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.width is not None and self.join == "add":
                raise ConfigError(
                    [f"width={self.width}: join=add needs all of d_model; leave width out or "
                     "choose join=concat"]
                )  # fmt: skip

        def choose(self, d_model: int) -> int:
            if self.join == "add":
                return d_model
            return max(1, d_model // 4) if self.width is None else self.width


def _add(x_BTD: Tensor, p_TW: Tensor) -> Tensor:
    return x_BTD + F.pad(p_TW, (0, x_BTD.shape[-1] - p_TW.shape[-1]))


def _append(x_BTD: Tensor, p_TW: Tensor) -> Tensor:
    return torch.cat((x_BTD, p_TW.expand(*x_BTD.shape[:-1], -1)), dim=-1)
