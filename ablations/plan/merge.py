"""From a question to its cells: base ← profile ← ablation ← command line ← variant ← seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.plan.identity import decisive_parts
from ablations.plan.profile import Profile
from ablations.plan.question import Ablation
from ablations.plan.resolve import resolve_trial
from ablations.plan.source import FOLDER, located, read_yaml
from ablations.plan.tree import referred, replaced
from ablations.store.frozen import freeze
from ablations.store.identity import identity
from ablations.store.identity import settings as settings_of
from model.config import ConfigError, nearest
from model.strict_yaml import Source


@dataclass(frozen=True)
class Cell:
    """One place in an ablation's table, and the trial that fills it."""

    label: str
    seed: int
    across: dict[str, str]
    config: dict[str, Any]
    trial: str
    frozen: Mapping[str, str]
    """Each section as one text, made once for all seeds."""
    settings: str
    """Twelve hex digits of what decides the trial's numbers besides the seed."""
    trained: bool


def size(ablation: Ablation, seeds: Sequence[int]) -> int:
    """How many cells an ablation has, without making one."""
    return len(ablation.variants) * math.prod(map(len, ablation.across.values())) * len(seeds)


def expand(
    ablation: Ablation,
    source: Source,
    profile: Profile,
    overrides: Mapping[str, Any],
    seeds: Sequence[int],
    factors: Collection[str] = (),
    trained: bool = True,
) -> list[Cell]:
    """Every cell of the ablation; ConfigError lists all that is wrong with any of them.

    `factors` are the paths that the command line has crossed it with.
    """
    base = read_yaml(_base(ablation.task, source))
    typed = Source("command line", {}, dict.fromkeys([*overrides, *factors], 0))
    _refuse_varied(ablation, overrides)
    tree = dict(base.values)
    layers = (
        (profile.settings, profile.of(ablation.task, {*ablation.settings, *overrides})),
        (source, ablation.settings),
        (typed, overrides),
    )
    for layer, paths in layers:
        for path, value in sorted(paths.items(), key=lambda item: item[0].count(".")):
            tree = replaced(tree, path, referred(value, tree, layer.name))
    levels = [
        [(factor, level, paths or {}) for level, paths in options.items()]
        for factor, options in ablation.across.items()
    ]
    cells: list[Cell] = []
    problems: dict[str, None] = {}  # in order, each once
    for label, variant in ablation.variants.items():
        for crossing in itertools.product(*levels):
            crossed = tree
            for path, value in itertools.chain(*(paths.items() for _, _, paths in crossing)):
                crossed = replaced(crossed, path, referred(value, tree, source.name))
            varied = crossed
            for path, value in (variant or {}).items():
                varied = replaced(varied, path, referred(value, crossed, source.name))
            origins = [(f"variants.{label}.", source)]
            origins += [(f"across.{factor}.{level}.", source) for factor, level, _ in crossing]
            origins += [
                ("", typed),
                ("settings.", source),
                (f"{ablation.task}.", profile.settings),
                ("", base),
            ]
            try:
                config = resolve_trial(varied)
            except ConfigError as error:
                problems |= dict.fromkeys(located(error, origins).problems)
                continue
            across = {factor: level for factor, level, _ in crossing}
            frozen = {name: freeze(section) for name, section in config.items()}
            parts = decisive_parts(config, trained)
            settings = settings_of(parts)
            for seed in seeds:
                trial = identity(parts, seed)
                full = {**config, "seed": seed}
                cells.append(Cell(label, seed, across, full, trial, frozen, settings, trained))
    if problems:
        raise ConfigError(list(problems))
    return cells


def _base(task: str, source: Source) -> Path:
    path = FOLDER / "base" / f"{task}.yaml"
    known = [file.stem for file in path.parent.glob("*.yaml")]
    if task not in known:
        raise ConfigError([f"{source.place('task')}: no task '{task}'. {nearest(task, known)}"])
    return path


def _refuse_varied(ablation: Ablation, overrides: Collection[str]) -> None:
    """An override that a variant would replace again is a mistake, not a setting."""
    for path in overrides:
        if ablation.varies(path):
            raise ConfigError([f"{path}: this ablation varies it, so it cannot be set"])
