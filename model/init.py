"""Initial values. Variants share those of parameters of equal name and shape.

Each parameter is drawn on the CPU from a generator of its own, seeded by (seed, name). Projections
that are computed jointly are drawn apart, under their logical names.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from model.config import Checked, Registry, ranged

INIT = Registry("init")


@dataclass(frozen=True)
class Spread:
    """The role of a parameter that starts at N(0, std²), whatever the rule."""

    std: float


# "weight" (rows: outputs, columns: inputs), "embedding", a spread, or a constant
Role = str | float | Spread


class Initial:
    """How matrices and embeddings are drawn; gains and biases are constants everywhere."""

    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def embedding(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        raise NotImplementedError


@INIT.register("normal")
class Normal(Initial):
    """N(0, std²) everywhere (GPT-2, BERT)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        std: float = ranged(0.02, above=0)

    def __init__(self, config: Config) -> None:
        self.std = config.std

    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=generator) * self.std

    embedding = weight


@INIT.register("xavier")
class Xavier(Initial):
    """U(±√(6 / (inputs + outputs))) (Glorot & Bengio 2010); embeddings N(0, 1/d)."""

    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        bound = math.sqrt(6 / (shape[0] + shape[1]))
        return (torch.rand(shape, generator=generator) * 2 - 1) * bound

    def embedding(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=generator) * shape[-1] ** -0.5


@INIT.register("unit_variance")
class Unit(Initial):
    """N(0, 1/inputs): unit variance in, unit variance out; embeddings N(0, 1)."""

    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=generator) * shape[-1] ** -0.5

    def embedding(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=generator)


_LIBRARY_ROLES: dict[type[nn.Module], dict[str, Role]] = {
    nn.Linear: {"weight": "weight", "bias": 0.0},
    nn.Embedding: {"weight": "embedding"},
}


def _role(module: nn.Module, name: str, projection: str = "") -> Role:
    """The role of a parameter, or of one projection in a joint matrix."""
    declared = getattr(module, "roles", {})
    for key in (f"{projection}.{name}", name):
        if key in declared:
            return declared[key]
    for kind, roles in _LIBRARY_ROLES.items():
        if isinstance(module, kind):
            return roles[name]
    raise TypeError(f"{type(module).__name__} declares no role for its parameter '{name}'")


def logical_parameters(model: nn.Module) -> Iterator[tuple[str, Tensor, Role]]:
    """Each parameter once, by its logical name, as a view that can be written to."""
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            rows = getattr(module, "splits", {}).get(name)
            if rows is None:
                yield f"{prefix}.{name}", parameter.data, _role(module, name)
                continue
            views = parameter.data.split([count for _, count in rows])
            for (projection, _), view in zip(rows, views, strict=True):
                yield f"{prefix}.{projection}.{name}", view, _role(module, name, projection)


def initialise(model: nn.Module, rule: Initial, seed: int) -> None:
    for name, view, role in logical_parameters(model):
        if isinstance(role, float):
            view.fill_(role)
            continue
        shape, generator = tuple(view.shape), _generator(seed, name)
        if isinstance(role, Spread):
            view.copy_(torch.randn(shape, generator=generator) * role.std)
            continue
        draw = rule.weight if role == "weight" else rule.embedding
        view.copy_(draw(shape, generator))


class NoDraws(TorchFunctionMode):
    """Skips torch's own initialisation while a model is built.

    On the meta device they would cost seconds, for torch then loads its compiler.
    """

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        if getattr(function, "__name__", "") in ("normal_", "uniform_"):
            return arguments[0] if arguments else (options or {})["tensor"]
        return function(*arguments, **(options or {}))


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
