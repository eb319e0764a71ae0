"""A question as its YAML file asks it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from ablations.plan.prediction import read_prediction
from ablations.plan.source import FOLDER, located, parsed, read_yaml, yaml_text
from ablations.plan.tree import is_number
from ablations.store.predictions import Prediction
from ablations.store.words import nearest_label
from model.config import ConfigError, nearest, validate
from model.strict_yaml import Source

RETIRED = {
    "equal": "write step_times, the measured ratio of each variant's step time to the control's",
    "seeds_from": "reported seeds are the same for every question",
}
"""Keys that were, and what to do instead."""
PROFILES = ("smoke", "quick", "full", "gpu")  # from the least on


@dataclass(frozen=True)
class Claim:
    """What somebody says about attention, put so that a measurement can decide it."""

    id: str
    statement: str
    source: str


@cache
def ledger() -> dict[str, Claim]:
    """Id → claim; ConfigError names the line of one that does not say what, or who says it."""
    source = read_yaml(FOLDER / "claims.yaml")
    found, problems = {}, []
    for name, entry in source.values.items():
        words = entry if isinstance(entry, dict) else {}
        told = all(isinstance(text, str) and text.strip() for text in words.values())
        if set(words) != {"statement", "source"} or not told:
            problems.append(f"{source.place(name)}: expected a statement and a source")
            continue
        found[name] = Claim(name, **words)
    if problems:
        raise ConfigError(problems)
    return found


def find_claim(name: str) -> Claim:
    if name not in ledger():
        raise ConfigError([f"no claim '{name[:100]}'. {nearest(name[:100], ledger())}"])
    return ledger()[name]


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
    """Of each claim that is decided here its id, and what it `predicts`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """{path: value} for every variant."""
    across: dict[str, Any] = field(default_factory=dict)
    """Factor → level → {path: value}; every variant is crossed with every level."""
    points: dict[str, Any] = field(default_factory=dict)
    """Timing → coordinate → values: where it is timed, each with each; `tokens` instead of `batch`
    is a batch of so many tokens. A profile may leave some lengths out."""
    step_times: dict[str, Any] = field(default_factory=dict)
    """Variant → how long a step of it takes, in steps of the control: it gets equal time, so its
    steps and its warm-up are divided by that."""
    tune: dict[str, Any] = field(default_factory=dict)
    """Path → values: the settings that are tried for every variant, each with each."""
    least: str | None = None
    """The smallest profile that has it among everything; asked by name it runs at any."""

    def __post_init__(self) -> None:
        if self.control not in self.variants:
            hint = nearest_label(self.control, self.variants)
            raise ConfigError([f"control: no variant '{self.control}'. {hint}"])
        problems = [
            f"across.{factor}: expected levels, got {levels!r}"
            for factor, levels in self.across.items()
            if not isinstance(levels, Mapping)
        ]
        crossings = {f"across.{name}": levels for name, levels in self.across.items()}
        problems += [
            f"{place}.{label}: expected {{path: value}}, got {paths!r}"
            for place, arms in ({"variants": self.variants} | crossings).items()
            for label, paths in (arms.items() if isinstance(arms, Mapping) else ())
            if not isinstance(paths or {}, Mapping)
        ]
        problems += [
            f"tune.{path}: expected a list of two different values or more, got {values!r}"
            for path, values in self.tune.items()
            if not isinstance(values, list) or len({repr(v) for v in values}) < max(2, len(values))
        ]
        problems += [
            f"tune.{path}: a variant sets it, so it cannot be tuned for each of them"
            for path in self.tune
            if self._is_set(path)
        ]
        problems += [
            f"points.{name}: expected {{coordinate: [values]}}, got {given!r}"
            for name, given in self.points.items()
            if not isinstance(given, Mapping)
        ]
        problems += [
            f"points.{name}: this question does not measure it. {nearest(name, self.measures)}"
            for name in self.points
            if name not in self.measures
        ]
        problems += [
            f"step_times.{label}: expected a variant and a number above 0, got {ratio!r}"
            for label, ratio in self.step_times.items()
            if label not in self.variants or not is_number(ratio) or ratio <= 0
        ]
        if self.least not in (None, *PROFILES):
            problems.append(f"least: expected one of {', '.join(PROFILES)}, got {self.least!r}")
        if problems:
            raise ConfigError(problems)
        self.predictions  # noqa: B018 (a ConfigError says what is wrong with one)

    @cached_property
    def predictions(self) -> list[tuple[Claim, list[Prediction]]]:
        """What each claim predicts here, in the order of the file."""
        problems: list[str] = []
        found = []
        seen: set[str] = set()
        for index, written in enumerate(self.claims):
            place = f"claims.{index}"
            try:
                claim, predictions = self._predicted(written, place)
            except ConfigError as error:
                problems += error.problems
                continue
            if claim.id in seen:
                problems.append(f"{place}.id: '{claim.id}' stands twice")
            seen.add(claim.id)
            found.append((claim, predictions))
        if problems:
            raise ConfigError(problems)
        return found

    def _predicted(self, written: Any, place: str) -> tuple[Claim, list[Prediction]]:
        if not isinstance(written, Mapping) or written.keys() - {"require"} != {"id", "predicts"}:
            raise ConfigError([f"{place}: expected an id and what it predicts, got {written!r}"])
        try:
            claim = find_claim(str(written["id"]))
        except ConfigError as error:
            raise ConfigError([f"{place}.id: {problem}" for problem in error.problems]) from None
        levels = {factor: list(options) for factor, options in self.across.items()}
        asked = (list(self.variants), levels, self.metric, self.control)
        problems, predictions = [], []
        for key, role in (("predicts", "predicts"), ("require", "requires")):
            given = written.get(key, [])
            if not isinstance(given, list) or (key == "predicts" and not given):
                problems.append(f"{place}.{key}: expected a list of predictions")
                continue
            for index, each in enumerate(given):
                try:
                    found = read_prediction(each, f"{place}.{key}.{index}", *asked, role)
                except ConfigError as error:
                    problems += error.problems
                else:
                    predictions.append(found)
        arms = {each.arms for each in predictions}
        if "tuned" in arms and not self.tune:
            problems.append(f"{place}: its arms are tuned, and the question names no tune")
        if len(arms) > 1:
            problems.append(f"{place}: one table decides it: all arms fixed, or all tuned")
        if problems:
            raise ConfigError(problems)
        return claim, predictions

    def is_for(self, profile: str) -> bool:
        """Whether this profile is large enough for it."""
        return self.least is None or PROFILES.index(profile) >= PROFILES.index(self.least)

    def decides(
        self,
        label: str,
        across: Mapping[str, str],
        claims: Collection[str] = (),
        arms: str | None = None,
    ) -> bool:
        """Whether a claim (of these, or any) compares this variant; the control is needed whenever
        a variant is."""
        predicted = [
            each
            for claim, predictions in self.predictions
            if not claims or claim.id in claims
            for each in predictions
            if arms in (None, each.arms)
        ]
        labels = self.variants if label == self.control else [label]
        return any(each.looks_at(one, across) for each in predicted for one in labels)

    def _is_set(self, path: str) -> bool:
        """Whether a variant or a level names exactly this path."""
        variants = [*self.variants.values(), *(p for o in self.across.values() for p in o.values())]
        return any(path in (paths or {}) for paths in variants)

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
    for path, levels in sorted(factors.items(), key=lambda item: item[0].count(".")):
        if ablation.varies(path):
            raise ConfigError([f"{path}: this ablation varies it, so it cannot be crossed with it"])
        if path in ablation.tune:
            raise ConfigError([f"{path}: this ablation tunes it, so it cannot be crossed with it"])
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
    hint = nearest(word[:100], catalogue())
    hint = hint if len(hint) < 200 else "`python -m ablations list` names them all."
    raise ConfigError([f"no ablation '{word[:100]}'. {hint}"])


def read_ablation(path: Path) -> tuple[Ablation, Source]:
    return _read(*yaml_text(path))


@lru_cache(maxsize=512)
def _read(text: str, name: str) -> tuple[Ablation, Source]:
    source = parsed(text, name)
    if gone := [key for key in RETIRED if key in source.values]:
        raise ConfigError([f"{source.place(key)}: {key} is gone: {RETIRED[key]}" for key in gone])
    try:
        return validate(Ablation, source.values, ""), source
    except ConfigError as error:
        raise located(error, [("", source)]) from None
