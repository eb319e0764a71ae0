"""How weights follow their gradients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ablations.train.ranges import Checked
from model.config import ConfigError
from model.family import Family

OPTIMISER = Family("optimiser")


@OPTIMISER.register("adam")
class Adam(torch.optim.Adam):
    """Steps scaled by running moments of the gradient (Kingma & Ba 2015)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        rate: float = 1e-3
        beta1: float = 0.9
        beta2: float = 0.98
        eps: float = 1e-9

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        betas = (config.beta1, config.beta2)
        super().__init__(parameters, lr=config.rate, betas=betas, eps=config.eps, fused=True)


@OPTIMISER.register("adamw")
class AdamW(torch.optim.AdamW):
    """Adam, beside which weights shrink by rate · weight_decay (Loshchilov & Hutter 2019)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Adam.Config):
        weight_decay: float = 0.01
        """Of matrices, embeddings among them; biases and the gains of norms do not decay."""

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        groups, betas = _groups(parameters, config.weight_decay), (config.beta1, config.beta2)
        super().__init__(groups, lr=config.rate, betas=betas, eps=config.eps, fused=True)


@OPTIMISER.register("sgd")
class SGD(torch.optim.SGD):
    """v = momentum · v + g, and weights move by −rate · v (Sutskever et al. 2013)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        rate: float = 0.1
        momentum: float = 0.9
        nesterov: bool = False
        """Whether the gradient counts as if v had already been followed."""
        weight_decay: float = 0.0
        """Of the same weights as adamw's, but added to the gradient."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.nesterov and not self.momentum:
                raise ConfigError(["nesterov=True: needs a momentum; set momentum above 0"])

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(
            _groups(parameters, config.weight_decay),
            lr=config.rate,
            momentum=config.momentum,
            nesterov=config.nesterov,
            fused=True,
        )


def _groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """The field's rule: what has two dimensions or more decays, what has fewer does not."""
    every = list(parameters)
    return [
        {"params": [p for p in every if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
    ]
