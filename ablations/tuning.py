"""Tuning: every variant tries the same grid and gets its best setting.

An experiment's `tune` names a grid. Every variant, at each level of the factors, trains with every
setting of the grid, with seeds that are never reported. The setting of lowest validation loss is
chosen, and marked (`at_edge`) if it is at an end of the grid.

Choices are saved in the results folder; those for our own experiments are committed to
`ablations/tuned/`. A choice holds for one regime: a digest of all settings that were not tuned.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ablations.config import FOLDER, located, read_yaml
from ablations.expand import Trial
from ablations.spec import Experiment, experiments
from ablations.store.files import write_atomic
from ablations.store.identity import TUNING, canonical_json, value_at
from ablations.store.record import WHOLE
from ablations.store.results import Results
from ablations.store.words import place_of, quoted
from model.config import ConfigError, is_number, validate

Setting = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]]
Tried = dict[str, Any]
"""`set`: one setting of one variant; `losses`: by seed, None where a trial has none."""


@dataclass(frozen=True)
class Choice:
    """The tuned settings of one variant at one level of each factor."""

    variant: str
    factors: dict[str, str]
    regime: str
    chosen: dict[str, Any]
    at_edge: bool
    """Whether the best is at an end of the grid."""
    tried: list[Any] = field(default_factory=list)

    @property
    def place(self) -> str:
        return place_of(self.variant, self.factors)


@dataclass(frozen=True)
class _File:
    seeds: list[int]
    choices: list[Any]


# The grid.


def settings_in(grid: Grid) -> list[Setting]:
    """Every setting of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def grid_of(variant: Trial, grid: Grid) -> Grid:
    """The settings of a grid that a variant has."""
    at = {path: value_at(variant.config, path, MISSING) for path in grid}
    has = {path: values for path, values in grid.items() if at[path] is not MISSING}
    if not has:
        raise ConfigError([f"tune.{next(iter(grid))}: '{variant.variant}' has no such setting"])
    return has


def tuning_trials(variant: Trial, experiment: Experiment) -> list[Trial]:
    """The trials that try a grid."""
    settings = settings_in(grid_of(variant, experiment.tune))
    each = [variant.with_settings(setting, experiment) for setting in settings]
    return [trial.with_seed(seed) for trial in each for seed in TUNING]


def regime(variant: Trial, experiment: Experiment) -> str:
    """The digest of a variant's settings, with the grid's first values for the tuned ones."""
    grid = grid_of(variant, experiment.tune)
    return variant.with_settings(settings_in(grid)[0], experiment).settings


# The choice.


def losses_of(trials: Sequence[Trial], results: Results) -> list[Tried]:
    """The losses of one variant's trials by setting, in the order of the grid."""
    found: dict[str, Tried] = {}
    for trial in trials:
        new = {"set": dict(trial.tuned), "losses": []}
        each = found.setdefault(canonical_json(trial.tuned), new)
        each["losses"].append(_loss(results, trial))
    return list(found.values())


def _loss(results: Results, trial: Trial) -> float | None:
    """Validation loss of the weights that a trial ended with; None where it failed."""
    record = results.read(trial.id)
    if record is None:
        raise ConfigError([f"{trial.id}: this trial has not ended; the same command goes on"])
    losses = [r for r in record.measurements if (r.metric, r.split) == ("loss", "valid")]
    values = [r.value for r in losses if r.value is not None]
    if record.status not in WHOLE or not losses or losses[-1].value is None:
        return None
    return min(values) if record.config["train"]["select"] == "best" else values[-1]


def choose(variant: Trial, experiment: Experiment, tried: Sequence[Tried]) -> Choice:
    """The setting with the fewest failed seeds, and among these the lowest mean loss."""
    best = min(tried, key=_rank)
    return Choice(
        variant.variant,
        dict(variant.factors),
        regime(variant, experiment),
        dict(best["set"]),
        _is_at_edge(best["set"], tried),
        list(tried),
    )


def _rank(each: Tried) -> tuple[int, float]:
    whole = [loss for loss in each["losses"] if loss is not None]
    return len(each["losses"]) - len(whole), statistics.fmean(whole) if whole else math.inf


def _is_at_edge(best: Setting, tried: Sequence[Tried]) -> bool:
    """Whether one of its numbers is the first or last of what was tried there."""
    for path in best:
        values = [each["set"][path] for each in tried]
        is_scale = all(is_number(value) and value > 0 for value in values)
        if is_scale and min(values) < max(values) and best[path] in (min(values), max(values)):
            return True
    return False


def untried(choice: Choice, variant: Trial, grid: Grid) -> list[Setting]:
    """The settings of a variant's grid that this choice did not try."""
    known = {canonical_json(each["set"]) for each in choice.tried}
    return [
        each for each in settings_in(grid_of(variant, grid)) if canonical_json(each) not in known
    ]


def in_words(choice: Choice) -> str:
    """A choice and its loss, in words."""
    chosen = ", ".join(f"{path.rpartition('.')[2]}={v}" for path, v in choice.chosen.items())
    loss = next(_rank(each)[1] for each in choice.tried if each["set"] == choice.chosen)
    edge = ", at the edge of the grid" if choice.at_edge else ""
    return f"{quoted(choice.place)} {chosen} (loss {loss:.4g}){edge}"


# Files.


def committed(name: str, profile: str) -> Path:
    """The file of the committed choices for one of our experiments."""
    return FOLDER / "tuned" / profile / f"{name}.yaml"


def kept(results: Results, name: str) -> Path:
    """The file of a results folder's choices for an experiment."""
    return results.root / "tuned" / f"{name}.yaml"


def choices(
    experiment: Experiment, variants: Sequence[Trial], profile: str, results: Results | None
) -> dict[str, Choice]:
    """Place → the choice for its regime; those of the results folder override committed ones."""
    files = [committed(experiment.name, profile)] if experiment.name in experiments() else []
    files += [] if results is None else [kept(results, experiment.name)]
    known = {
        (choice.place, choice.regime): choice
        for file in files
        if file.exists()
        for choice in read_choices(file)
    }
    if not known:
        return {}
    found = {each.place: known.get((each.place, regime(each, experiment))) for each in variants}
    return {place: choice for place, choice in found.items() if choice is not None}


def read_choices(path: Path) -> list[Choice]:
    source = read_yaml(path)
    try:
        held = validate(_File, source.values, "").choices
        return [validate(Choice, each, f"choices.{index}") for index, each in enumerate(held)]
    except ConfigError as error:
        raise located(error, [("", source)]) from None


def keep_choices(results: Results, name: str, made: Sequence[Choice]) -> Path:
    """Add these choices to the folder's file, which keeps those for other regimes."""
    path = kept(results, name)
    held = read_choices(path) if path.exists() else []
    held = list({(each.place, each.regime): each for each in [*held, *made]}.values())
    plain = {"seeds": list(TUNING), "choices": [asdict(choice) for choice in held]}
    plain = json.loads(json.dumps(plain))  # YAML would write shared objects as aliases
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
