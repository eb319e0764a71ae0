"""Fair arms: the same settings are tried for every arm, and each goes on with its best.

A question's `tune` names a grid. Every arm, that is a variant at one level of each crossed factor,
trains with every setting of it, equally long, with seeds that decide nothing. The lowest validation
loss is chosen. Where that is the first or the last value for any arm, the grid grows there for all
of them, at most twice. An arm that lacks one of the settings (a forget bias, say) spends what the
others spend on it on values in between: all arms try equally many.

What was chosen is kept with its scores: in the results folder that tried it, and for the catalogue
in `ablations/tuned/`, which every other folder goes by. A choice holds for its regime alone: all
that decides an arm's numbers but what was tuned.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ablations.plan.memory import memory
from ablations.plan.merge import Cell, PlannedArm
from ablations.plan.question import Ablation, catalogue
from ablations.plan.source import FOLDER, located, parsed, yaml_text
from ablations.plan.tree import get
from ablations.store.files import write_atomic
from ablations.store.frozen import freeze
from ablations.store.results import Results
from ablations.store.seeds import TUNING
from model.config import ConfigError, validate

EXTENSIONS = 2
_ALIKE = 3  # settings, the best ones, whose spread between seeds is taken together

Setting = dict[str, Any]
Grid = dict[str, list[Any]]


@dataclass(frozen=True)
class Tried:
    """One setting of one arm."""

    set: Setting
    losses: list[Any]
    """Validation loss by seed; null where a trial has none."""


@dataclass(frozen=True)
class Choice:
    """What tuning has found for one arm."""

    label: str
    across: dict[str, str]
    profile: str
    regime: str
    chosen: Setting
    runner_up: Any
    """Another setting within one standard error of the best; null where there is none."""
    at_edge: bool
    """Whether the best is still at an end of the grid."""
    error: Any
    """The standard error of a mean, from the best settings."""
    tried: list[Any] = field(default_factory=list)

    @property
    def key(self) -> str:
        return freeze([self.label, self.across, self.regime])


def settings_in(grid: Mapping[str, Sequence[Any]]) -> list[Setting]:
    """Every setting of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def grid_for(arm: PlannedArm, grid: Grid) -> Grid:
    """The settings of a grid that an arm has, as many as others try."""
    has = {path: values for path, values in grid.items() if _has(arm.config, path)}
    more = math.prod(len(values) for path, values in grid.items() if path not in has)
    scales = [path for path, values in has.items() if _is_scale(values)]
    if not has or (more > 1 and not scales):
        lacking = next(path for path in grid if path not in has)
        raise ConfigError(
            [f"tune.{lacking}: '{arm.label}' has no such setting, nor a range to try more of"]
        )
    return {p: _refined(v, more) if p in scales[:1] else v for p, v in has.items()}


def _has(config: Mapping[str, Any], path: str) -> bool:
    try:
        get(config, path)
    except KeyError:
        return False
    return True


def _refined(values: Sequence[float], times: int) -> list[float]:
    """So many times as many values, in equal ratios, and as far past the end as between two."""
    if times == 1:
        return list(values)
    ordered = sorted(values)
    steps = [b / a for a, b in pairwise(ordered)]
    steps.append(steps[-2] if len(steps) > 1 else steps[-1])
    finer = [v * step ** (i / times) for v, step in zip(ordered, steps, strict=True)
             for i in range(times)]  # fmt: skip
    return [v if v in ordered else float(f"{v:.2g}") for v in finer]


def regime(arm: PlannedArm, ablation: Ablation) -> str:
    """Twelve hex digits of what an arm is, with the grid's first setting for what is tuned.

    Of one that has as many steps as it has time for, what it is at any pace.
    """
    arm = arm.before or arm
    first = {path: values[0] for path, values in grid_for(arm, ablation.tune).items()}
    return arm.cells([TUNING[0]], "tune", first)[0].settings


def trials_of(arm: PlannedArm, grid: Grid) -> list[Cell]:
    """The cells that try a grid."""
    tried = settings_in(grid_for(arm, grid))
    return [cell for each in tried for cell in arm.cells(TUNING, "tune", each)]


def tried(cells: Sequence[Cell], arm: PlannedArm, results: Results) -> list[Tried]:
    """What the trials of an arm have come to, in the order of the grid."""
    found: dict[str, tuple[Setting, list[float | None]]] = {}
    for cell in cells:
        if (cell.label, cell.across) == (arm.label, arm.across):
            _, losses = found.setdefault(freeze(cell.tuned), (dict(cell.tuned), []))
            losses.append(_loss(results, cell))
    return [Tried(*each) for each in found.values()]


def _loss(results: Results, cell: Cell) -> float | None:
    """Validation loss of the weights that a trial ended with; None where it failed."""
    record = results.read(cell.trial)
    if record is None:
        raise ConfigError([f"{cell.trial}: this trial has not ended; run again with --tune"])
    losses = [r for r in record.readings if (r.metric, r.split) == ("loss", "valid")]
    values = [r.value for r in losses if r.value is not None]
    if record.status not in ("ok", "stuck") or not losses or losses[-1].value is None:
        return None
    return min(values) if record.config["train"]["select"] == "best" else values[-1]


def choose(arm: PlannedArm, ablation: Ablation, profile: str, tried: Sequence[Tried]) -> Choice:
    """The setting of lowest mean; one that a seed fails with comes after all that none does."""
    ranked = sorted(tried, key=_rank)
    best, error = ranked[0], _error(ranked)
    runner_up = next((t for t in ranked[1:] if _is_within(t, best, error)), None)
    return Choice(
        arm.label,
        arm.across,
        profile,
        regime(arm, ablation),
        best.set,
        None if runner_up is None else runner_up.set,
        bool(edges(best.set, tried)),
        error,
        [asdict(each) for each in tried],
    )


def _rank(each: Tried) -> tuple[int, float]:
    whole = [loss for loss in each.losses if loss is not None]
    return len(each.losses) - len(whole), statistics.fmean(whole) if whole else math.inf


def _error(ranked: Sequence[Tried]) -> float | None:
    """Of a mean over the seeds; two seeds say little of a spread, so the best settings share it."""
    whole = [each.losses for each in ranked if None not in each.losses][:_ALIKE]
    if not whole or len(whole[0]) < 2:
        return None
    return math.sqrt(statistics.fmean(map(statistics.variance, whole)) / len(whole[0]))


def _is_within(one: Tried, best: Tried, error: float | None) -> bool:
    fails, mean = _rank(one)
    least_fails, least = _rank(best)
    return error is not None and fails == least_fails and mean <= least + error


def edges(best: Setting, tried: Sequence[Tried]) -> set[tuple[str, bool]]:
    """(path, whether above) where the best setting is the first or last of what was tried.

    Only a path whose values are positive numbers, two or more of them, has ends.
    """
    found = set()
    for path in best:
        values = list({freeze(each.set[path]): each.set[path] for each in tried}.values())
        if _is_scale(values):
            found |= {(path, False)} if best[path] == min(values) else set()
            found |= {(path, True)} if best[path] == max(values) else set()
    return found


def _is_scale(values: Sequence[Any]) -> bool:
    are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return are_numbers and min(values) > 0 and len(values) > 1


def extended(grid: Grid, at: set[tuple[str, bool]]) -> Grid:
    """A grid that goes one step further at these ends.

    A step is as wide as the last but one, since grids alternate: 3e-3, 1e-2, 3e-2, then 1e-1.
    """
    wider = {path: list(values) for path, values in grid.items()}
    for path, is_above in sorted(at):
        values = sorted(wider[path])
        first, second = values if len(values) == 2 else values[-3:-1] if is_above else values[1:3]
        end = values[-1] * second / first if is_above else values[0] * first / second
        wider[path] = sorted([*values, float(f"{end:.3g}")])
    return wider


@dataclass(frozen=True)
class _File:
    seeds: list[int]
    arms: list[Any]


def committed(name: str, profile: str) -> Path:
    """Where the choices for a question of the catalogue stand."""
    return FOLDER / "tuned" / profile / f"{name}.yaml"


def kept(results: Results, name: str) -> Path:
    """Where the choices that a results folder has made for a question stand."""
    return results.root / "tuned" / f"{name}.yaml"


def choices(name: str, profile: str, results: Results | None) -> dict[str, Choice]:
    """What was chosen for a question, by arm and regime; what its folder chose comes first."""
    found: dict[str, Choice] = {}
    if name in catalogue() and committed(name, profile).exists():
        found |= {choice.key: choice for choice in read_choices(committed(name, profile))}
    if results is not None and kept(results, name).exists():
        found |= {choice.key: choice for choice in read_choices(kept(results, name))}
    return found


def read_choices(path: Path) -> list[Choice]:
    text, name = yaml_text(path)
    with contextlib.suppress(TypeError):  # nothing is known of it, or nothing of use
        return [Choice(**each) for each in memory().recall("choices", text)]
    source = parsed(text, name)
    try:
        held = validate(_File, source.values, "")
        found = [validate(Choice, each, f"arms.{index}") for index, each in enumerate(held.arms)]
    except ConfigError as error:
        raise located(error, [("", source)]) from None
    memory().note("choices", text, [asdict(choice) for choice in found])
    return found


def keep_choices(results: Results, name: str, made: Sequence[Choice]) -> Path:
    """Write them beside what was chosen in this folder for other regimes."""
    path = kept(results, name)
    held = {choice.key: choice for choice in read_choices(path)} if path.exists() else {}
    held |= {choice.key: choice for choice in made}
    plain = {"seeds": list(TUNING), "arms": [asdict(choice) for choice in held.values()]}
    plain = json.loads(json.dumps(plain))  # no object twice, which YAML would write as an alias
    write_atomic(path, yaml.dump(plain, Dumper=_Quoting, sort_keys=False, allow_unicode=True,
                                 width=100, default_flow_style=None))  # fmt: skip
    return path


class _Quoting(yaml.SafeDumper):
    """Quotes a text that begins like a number: 956e78245692 is a regime, and would be read as ∞."""


_Quoting.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="'" if text[:1].isdecimal() else None
    ),
)
