"""From a question to its cells: base ← profile ← ablation ← command line ← variant ← seed."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ablations.config import FOLDER, located, read_yaml, resolve_trial
from ablations.facts import decisive_parts, model_facts
from ablations.plan.tree import get, referred, replaced
from ablations.spec import Experiment, Profile
from ablations.store.identity import canonical_json, identity
from ablations.store.identity import settings as settings_of
from model.config import ConfigError, is_number, nearest
from model.strict_yaml import Source

MATCHED = "matched"  # as it is referred to: d_model: "${matched}"
_WIDEST = 1 << 16


@dataclass(frozen=True)
class Cell:
    """One place in an ablation's table, and the trial that fills it."""

    variant: str
    seed: int
    factors: dict[str, str]
    config: dict[str, Any]
    id: str
    frozen: Mapping[str, str]
    """Each section as one text, made once for all seeds."""
    settings: str
    """Twelve hex digits of what decides the trial's numbers besides the seed."""
    trained: bool
    role: str = "report"
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """{path: value} of what tuning has set, or tries."""


@dataclass(frozen=True)
class PlannedArm:
    """One variant at one level of each crossed factor, before anything is tuned."""

    variant: str
    factors: dict[str, str]
    tree: Mapping[str, Any]
    source: Source
    origins: Sequence[tuple[str, Source]]
    """(prefix, source) from the last written to the first."""
    trained: bool

    @cached_property
    def config(self) -> dict[str, Any]:
        """All its settings as they stand."""
        return self._resolved(self.tree, self.origins)

    @staticmethod
    def _resolved(tree: Mapping[str, Any], origins: Sequence[tuple[str, Source]]) -> dict[str, Any]:
        try:
            return resolve_trial(tree)
        except ConfigError as error:
            raise located(error, origins) from None

    def cells(
        self, seeds: Sequence[int], role: str = "report", tuned: Mapping[str, Any] | None = None
    ) -> list[Cell]:
        """Its cells with these settings on top; ConfigError where they make no trial."""
        config = self.config
        if tuned:
            for path, value in tuned.items():
                config = replaced(config, path, value)  # a default part has its options, too
            config = self._resolved(config, [("tune.", self.source), *self.origins])
        frozen = {name: canonical_json(section) for name, section in config.items()}
        parts = decisive_parts(config, self.trained)
        return [
            Cell(
                self.variant,
                seed,
                self.factors,
                {**config, "seed": seed},
                identity(parts, seed),
                frozen,
                settings_of(parts),
                self.trained,
                role,
                dict(tuned or {}),
            )
            for seed in seeds
        ]


def size(ablation: Experiment, seeds: Sequence[int]) -> int:
    """How many cells an ablation has, without making one."""
    return len(ablation.variants) * math.prod(map(len, ablation.factors.values())) * len(seeds)


def filled(arms: Iterable[PlannedArm], fill: Callable[[PlannedArm], list[Cell]]) -> list[Cell]:
    """The cells of all arms; ConfigError lists what is wrong with any of them."""
    cells: list[Cell] = []
    problems: dict[str, None] = {}  # in order, each once
    for arm in arms:
        try:
            cells += fill(arm)
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise ConfigError(list(problems))
    return cells


def arms_of(
    ablation: Experiment,
    source: Source,
    profile: Profile,
    overrides: Mapping[str, Any],
    factors: Collection[str] = (),
    trained: bool = True,
) -> list[PlannedArm]:
    """Every variant at every crossing. `factors`: the paths that the command line has crossed."""
    known = {file.stem: file for file in (FOLDER / "base").glob("*.yaml")}
    if (task := ablation.task) not in known:
        raise ConfigError([f"{source.place('task')}: no task '{task}'. {nearest(task, known)}"])
    base = read_yaml(known[task])
    typed = Source("command line", {}, dict.fromkeys([*overrides, *factors], 0))
    for path in filter(ablation.varies, overrides):  # which a variant would replace again
        raise ConfigError([f"{path}: this experiment varies it, so it cannot be set"])
    tree = dict(base.values)
    layers = (
        (profile.settings, profile.of(ablation.task, {*ablation.settings, *overrides})),
        (source, profile.multiplied(ablation.settings)),
        (typed, overrides),
    )
    for layer, paths in layers:
        for path, value in sorted(paths.items(), key=lambda item: item[0].count(".")):
            tree = replaced(tree, path, referred(value, tree, layer.name))
    levels = [
        [(factor, level, paths or {}) for level, paths in options.items()]
        for factor, options in ablation.factors.items()
    ]
    arms: list[PlannedArm] = []
    control = ablation.variants[ablation.baseline] or {}
    for label, variant in ablation.variants.items():
        for crossing in itertools.product(*levels):
            crossed = tree
            for path, value in itertools.chain(*(paths.items() for _, _, paths in crossing)):
                crossed = replaced(crossed, path, referred(value, tree, source.name))
            origins = [ablation.written_in(label, source)]
            origins += [(f"factors.{factor}.{level}.", source) for factor, level, _ in crossing]
            origins += [
                ("", typed),
                ("settings.", source),
                (f"{ablation.task}.", profile.settings),
                ("", base),
            ]
            across = {factor: level for factor, level, _ in crossing}
            try:
                varied = _varied(crossed, variant or {}, source, control)
            except ConfigError as error:
                raise located(error, origins) from None
            varied = _capped(varied, profile.most, {*overrides, *factors})
            varied = _in_equal_time(varied, ablation.step_times.get(label, 1))
            arms.append(PlannedArm(label, across, varied, source, origins, trained))
    return arms


def _capped(
    tree: Mapping[str, Any], most: Mapping[str, float], typed: Collection[str]
) -> Mapping[str, Any]:
    """No more than a profile spends, unless the command line says so."""
    for path, cap in most.items():
        with contextlib.suppress(KeyError):
            value = get(tree, path)
            if path not in typed and is_number(value) and value > cap:
                tree = replaced(tree, path, cap)
    return tree


def _in_equal_time(tree: Mapping[str, Any], step_time: float) -> Mapping[str, Any]:
    """With as many steps, and as long a warm-up, as fit into the control's time."""
    for path in ("train.steps", "train.schedule.warmup"):
        with contextlib.suppress(KeyError):  # not every schedule warms up
            value = get(tree, path)
            if is_number(value) and step_time != 1:
                tree = replaced(tree, path, max(1, round(value / step_time)))
    return tree


def _varied(
    tree: Mapping[str, Any], variant: Mapping[str, Any], source: Source, control: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The tree with a variant's settings, at the control's size where it asks for that."""

    def filled_in(settings: Mapping[str, Any], **known: int) -> Mapping[str, Any]:
        varied = tree
        for path, value in settings.items():
            varied = replaced(varied, path, referred(value, {**tree, **known}, source.name))
        return varied

    if not asks_match(variant):
        return filled_in(variant)
    beside = filled_in(control)
    width = matched_width(lambda width: filled_in(variant, **{MATCHED: width}), beside)
    return filled_in(variant, **{MATCHED: width})


def asks_match(value: Any) -> bool:
    """Whether a setting refers to the matched width."""
    if isinstance(value, Mapping):
        return any(map(asks_match, value.values()))
    return value == f"${{{MATCHED}}}"


def matched_width(variant: Callable[[int], Mapping[str, Any]], control: Mapping[str, Any]) -> int:
    """The even number that brings a variant's parameters nearest to the control's.

    Parameters grow about as the square of the width, so a line through square roots finds it in a
    few steps; ConfigError where one of them is no model.
    """
    target = _size(control)
    low, high = 1, 2  # halves
    under, over = _size(variant(2 * low)), _size(variant(2 * high))
    while high < _WIDEST and over < target:
        low, high, under = high, 4 * high, over
        over = _size(variant(2 * high))
    while high - low > 1:
        roots = [math.sqrt(size) for size in (under, target, over)]
        share = (roots[1] - roots[0]) / (roots[2] - roots[0]) if over > under else 0.5
        middle = min(max(round(low + share * (high - low)), low + 1), high - 1)
        size = _size(variant(2 * middle))
        if size < target:
            low, under = middle, size
        else:
            high, over = middle, size
    return 2 * (low if abs(under - target) <= abs(over - target) else high)


def _size(tree: Mapping[str, Any]) -> int:
    config = resolve_trial(tree)
    return model_facts(canonical_json(config["model"]), canonical_json(config["task"])).parameters
