"""Fair arms: the same settings are tried for every arm, and each goes on with its best.

A question's `tune` names a grid. Every arm, that is a variant at one level of each crossed factor,
trains with every setting of it that it has, equally long, with seeds that are never reported. The
setting of lowest validation loss is chosen; where that is the first or the last value of the grid,
the choice is marked (`at_edge`).

What was chosen is kept with its scores: in the results folder that tried it, and for our own
experiments in `ablations/tuned/`, which every other folder goes by. A choice holds for its regime
alone: all that decides an arm's numbers but what was tuned.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ablations.config import FOLDER, located, parsed, yaml_text
from ablations.plan.merge import Cell, PlannedArm
from ablations.plan.tree import get
from ablations.spec import Experiment, experiments
from ablations.store.files import write_atomic
from ablations.store.identity import TUNING, canonical_json
from ablations.store.results import Results
from ablations.store.words import quoted
from model.config import ConfigError, is_number, validate

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

    variant: str
    factors: dict[str, str]
    profile: str
    regime: str
    chosen: Setting
    at_edge: bool
    """Whether the best is at an end of the grid."""
    tried: list[Any] = field(default_factory=list)

    @property
    def key(self) -> str:
        return canonical_json([self.variant, self.factors, self.regime])


def settings_in(grid: Mapping[str, Sequence[Any]]) -> list[Setting]:
    """Every setting of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def grid_for(arm: PlannedArm, grid: Grid) -> Grid:
    """The settings of a grid that an arm has."""
    has = {}
    for path, values in grid.items():
        with contextlib.suppress(KeyError):
            get(arm.config, path)
            has[path] = values
    if not has:
        raise ConfigError([f"tune.{next(iter(grid))}: '{arm.variant}' has no such setting"])
    return has


def regime(arm: PlannedArm, ablation: Experiment) -> str:
    """Twelve hex digits of what an arm is, with the grid's first setting for what is tuned."""
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
        if (cell.variant, cell.factors) == (arm.variant, arm.factors):
            _, losses = found.setdefault(canonical_json(cell.tuned), (dict(cell.tuned), []))
            losses.append(_loss(results, cell))
    return [Tried(*each) for each in found.values()]


def _loss(results: Results, cell: Cell) -> float | None:
    """Validation loss of the weights that a trial ended with; None where it failed."""
    record = results.read(cell.id)
    if record is None:
        raise ConfigError([f"{cell.id}: this trial has not ended; run again with --tune"])
    losses = [r for r in record.measurements if (r.metric, r.split) == ("loss", "valid")]
    values = [r.value for r in losses if r.value is not None]
    if record.status not in ("ok", "stuck") or not losses or losses[-1].value is None:
        return None
    return min(values) if record.config["train"]["select"] == "best" else values[-1]


def choose(arm: PlannedArm, ablation: Experiment, profile: str, tried: Sequence[Tried]) -> Choice:
    """The setting of lowest mean loss, of those with which the fewest seeds fail."""
    best = min(tried, key=_rank)
    return Choice(
        arm.variant,
        arm.factors,
        profile,
        regime(arm, ablation),
        best.set,
        _is_at_edge(best.set, tried),
        [asdict(each) for each in tried],
    )


def _rank(each: Tried) -> tuple[int, float]:
    whole = [loss for loss in each.losses if loss is not None]
    return len(each.losses) - len(whole), statistics.fmean(whole) if whole else math.inf


def _is_at_edge(best: Setting, tried: Sequence[Tried]) -> bool:
    """Whether one of its numbers is the first or last of what was tried there."""
    for path in best:
        values = list({canonical_json(each.set[path]): each.set[path] for each in tried}.values())
        is_scale = len(values) > 1 and all(is_number(value) and value > 0 for value in values)
        if is_scale and best[path] in (min(values), max(values)):
            return True
    return False


def untried(choice: Choice, arm: PlannedArm, grid: Grid) -> list[Setting]:
    """Settings of a grid that an arm has and that this choice was made without."""
    known = {canonical_json(each["set"]) for each in choice.tried}
    return [each for each in settings_in(grid_for(arm, grid)) if canonical_json(each) not in known]


def in_words(choice: Choice) -> str:
    """What was chosen, with its loss."""
    told = ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in choice.chosen.items())
    loss = next(_rank(Tried(**each))[1] for each in choice.tried if each["set"] == choice.chosen)
    edge = ", at the edge of the grid" if choice.at_edge else ""
    place = ":".join((choice.variant, *choice.factors.values()))
    return f"{quoted(place)} {told} (loss {loss:.4g}){edge}"


@dataclass(frozen=True)
class _File:
    seeds: list[int]
    arms: list[Any]


def committed(name: str, profile: str) -> Path:
    """Where the choices for one of our experiments stand."""
    return FOLDER / "tuned" / profile / f"{name}.yaml"


def kept(results: Results, name: str) -> Path:
    """Where the choices that a results folder has made for a question stand."""
    return results.root / "tuned" / f"{name}.yaml"


def choices(name: str, profile: str, results: Results | None) -> dict[str, Choice]:
    """What was chosen for a question, by arm and regime; what its folder chose comes first."""
    found: dict[str, Choice] = {}
    if name in experiments() and committed(name, profile).exists():
        found |= {choice.key: choice for choice in read_choices(committed(name, profile))}
    if results is not None and kept(results, name).exists():
        found |= {choice.key: choice for choice in read_choices(kept(results, name))}
    return found


def read_choices(path: Path) -> list[Choice]:
    text, name = yaml_text(path)
    source = parsed(text, name)
    try:
        held = validate(_File, source.values, "")
        return [validate(Choice, each, f"arms.{index}") for index, each in enumerate(held.arms)]
    except ConfigError as error:
        raise located(error, [("", source)]) from None


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
