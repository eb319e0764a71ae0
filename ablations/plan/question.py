"""A question as its YAML file asks it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ablations.plan.source import FOLDER, located, read_yaml
from model.config import ConfigError, nearest, validate
from model.strict_yaml import Source


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One question, as its YAML file writes it."""

    question: str
    task: str
    control: str
    """The label of the variant that the others are compared with."""
    variants: dict[str, Any]
    """Label → {path: value}; each path is replaced whole."""
    metric: str
    """The score of the task that decides."""
    measures: list[str]
    fixed: str
    """What is held equal."""
    moves: str
    """What moves with the axis, unasked."""
    claims: list[Any] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    """{path: value} for every variant."""
    across: dict[str, Any] = field(default_factory=dict)
    """Factor → level → {path: value}; every variant is crossed with every level."""

    def __post_init__(self) -> None:
        if self.control not in self.variants:
            hint = nearest(self.control, self.variants)
            raise ConfigError([f"control: no variant '{self.control}'. {hint}"])
        problems = [
            f"variants.{label}: expected {{path: value}}, got {paths!r}"
            for label, paths in self.variants.items()
            if not isinstance(paths or {}, Mapping)
        ]
        for factor, levels in self.across.items():
            if not isinstance(levels, Mapping):
                problems.append(f"across.{factor}: expected levels, got {levels!r}")
                continue
            problems += [
                f"across.{factor}.{level}: expected {{path: value}}, got {paths!r}"
                for level, paths in levels.items()
                if not isinstance(paths or {}, Mapping)
            ]
        problems += [
            f"claims: expected an id, a statement and a source, got {claim!r}"
            for claim in self.claims
            if not isinstance(claim, Mapping) or not isinstance(claim.get("id"), str)
        ]
        if problems:
            raise ConfigError(problems)

    def varies(self, path: str) -> bool:
        """Whether a variant or a level replaces this path, or something above it in the control.

        Below a path that only a rival replaces (a whole model, say) a setting still holds for the
        control.
        """
        ours = set(self.variants[self.control] or {})
        theirs = {each for variant in self.variants.values() for each in variant or {}}
        theirs |= {p for o in self.across.values() for paths in o.values() for p in paths or {}}
        above = {path[: match.start()] for match in re.finditer(r"\.", path)}
        return path in theirs or bool(above & ours)


def crossed(ablation: Ablation, factors: Mapping[str, Mapping[str, Any]]) -> Ablation:
    """The same question at every level of some more settings: path → level → value."""
    across = dict(ablation.across)
    for path, levels in factors.items():
        if ablation.varies(path):
            raise ConfigError([f"{path}: this ablation varies it, so it cannot be crossed with it"])
        name = path.rpartition(".")[2]
        across[path if name in across else name] = {
            level: {path: value} for level, value in levels.items()
        }
    return replace(ablation, across=across)


def catalogue() -> dict[str, Path]:
    return {path.stem: path for path in sorted((FOLDER / "catalogue").glob("*.yaml"))}


def find(word: str) -> tuple[str, Path]:
    """An ablation by its name in the catalogue or by its file."""
    if word in catalogue():
        return word, catalogue()[word]
    if word.endswith((".yaml", ".yml")):
        return re.sub(r"[^\w.-]", "_", Path(word).stem)[:100], Path(word)
    raise ConfigError([f"no ablation '{word[:100]}'. {nearest(word[:100], catalogue())}"])


def read_ablation(path: Path) -> tuple[Ablation, Source]:
    source = read_yaml(path)
    try:
        return validate(Ablation, source.values, ""), source
    except ConfigError as error:
        raise located(error, [("", source)]) from None
