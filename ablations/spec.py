"""Reads the YAML files of `experiments/`: chapters and experiments.

A chapter is a folder of experiments. Its `variants.yaml` declares each variant once; an experiment
measures all of them, some by name, or variants of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ablations.config import FOLDER, located, parsed, yaml_text
from ablations.predictions import Claim, read_predictions
from ablations.profile import PROFILES
from ablations.store.predictions import Prediction
from ablations.store.words import CHAPTERS, listed, nearest_label
from model.config import ConfigError, is_number, nearest, validate
from model.strict_yaml import Source

COLORS = ("ink", "amber", "plum", "teal", "grey")
RETIRED = {
    "control": "write baseline",
    "fixed": "write held_constant",
    "moves": "write changes",
    "measures": "list each under evaluations (of a trained model), probes (of an untrained one) or "
    "benchmarks (by the clock)",
    "across": "write factors",
    "points": "write them below the benchmark: benchmarks: {throughput: {length: [32, 64]}}",
    "least": "write from",
    "equal": "write step_times, the measured ratio of each variant's step time to the baseline's",
    "seeds_from": "reported seeds are the same for every experiment",
    "chapter": "an experiment is of the chapter in whose folder its file is",
    "name": "an experiment is called by its file",
    "source": "claims.yaml says who makes a claim",
}
"""Removed keys, and what replaces them."""
RENAMED = {
    "position": "positions/g2p", "text-position": "positions/text", "text-norm": "norm/text",
    "position-join": "positions/g2p-join", "norm-kind": "norm/g2p", "text-heads": "heads/text",
    "text-scale": "scale/text", "scale-width": "scale/width", "recurrent": "rnn/g2p",
    "recurrent-narrow": "rnn/narrow", "rnn-vs-attention": "rnn/text-speed",
    "smoothing-scarce": "smoothing/scarce", "initial": "training/init",
    "optimiser": "training/optimizer",
}  # fmt: skip
"""Old name of an experiment → its name now."""


@dataclass(frozen=True)
class Variant:
    """One of a chapter's variants."""

    color: str
    """A role of the palette, such as amber, or `amber dashed`."""
    changes: str
    """What else changes when these settings do."""
    set: dict[str, Any]
    """{path: value}; each path is replaced whole."""

    def __post_init__(self) -> None:
        if self.color.removesuffix(" dashed") not in COLORS:
            raise ConfigError([f"color: no '{self.color}'. {nearest(self.color, COLORS)}"])


@dataclass(frozen=True, eq=False)
class Chapter:
    """The content of a `variants.yaml`: the variants that a folder of experiments shares."""

    question: str
    baseline: str
    variants: dict[str, Any]
    """Label → Variant."""
    source: Any = None


def read_chapter(folder: Path) -> Chapter | None:
    """The chapter of a folder; None if it has no `variants.yaml`."""
    path = folder / "variants.yaml"
    return _chapter(*yaml_text(path)) if path.is_file() else None


@lru_cache(maxsize=64)
def _chapter(text: str, name: str) -> Chapter:
    source = parsed(text, name)
    problems: list[str] = []
    variants: dict[str, Variant] = {}
    try:
        chapter: Chapter = validate(Chapter, source.values, "")
        for label, written in chapter.variants.items():
            try:
                variants[label] = validate(Variant, written, f"variants.{label}")
            except ConfigError as error:
                problems += error.problems
        if chapter.baseline not in chapter.variants:
            hint = nearest_label(chapter.baseline, chapter.variants)
            problems.append(f"baseline: no variant '{chapter.baseline}'. {hint}")
        if problems:
            raise ConfigError(problems)
    except ConfigError as error:
        raise located(error, [("", source)]) from None
    return replace(chapter, variants=variants, source=source)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A question, the variants that are compared to answer it, and what is measured."""

    question: str
    task: str
    metric: str
    """The metric that answers the question."""
    held_constant: str
    baseline: str
    """The variant that the others are compared with."""
    variants: dict[str, Any]
    """Label → {path: value}; each path is replaced whole."""
    changes: str
    """What else changes when the variants' settings do."""
    settings: dict[str, Any] = field(default_factory=dict)
    """{path: value} for every variant."""
    factors: dict[str, Any] = field(default_factory=dict)
    """Factor → level → {path: value}; every variant is crossed with every level."""
    evaluations: list[str] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)
    benchmarks: dict[str, Any] = field(default_factory=dict)
    """Benchmark → coordinate → values: it is timed at every combination. `tokens` may replace
    `batch`: a fixed number of tokens. A profile may leave out some lengths."""
    tune: dict[str, Any] = field(default_factory=dict)
    """Path → values: a grid; every variant tries every combination."""
    step_times: dict[str, Any] = field(default_factory=dict)
    """Variant → time of its step / time of the baseline's. Its steps and warm-up are divided by
    that, so that all variants train equally long."""
    from_: Any = None
    """The smallest profile that includes it. Asked for by name, it runs at any profile."""
    claims: list[Any] = field(default_factory=list)
    """The id of each claim that is decided here, and what it `predicts`."""
    chapter: Any = None
    """The Chapter that declares its variants; None if it declares them itself."""
    name: str = ""
    source: Any = None
    """The Source of its file."""

    def __post_init__(self) -> None:
        if self.baseline not in self.variants:
            hint = nearest_label(self.baseline, self.variants)
            raise ConfigError([f"baseline: no variant '{self.baseline}'. {hint}"])
        problems = []
        for place, options in self._options.items():
            if not isinstance(options, Mapping):
                problems.append(f"{place}: expected levels, got {options!r}")
                continue
            problems += [
                f"{place}.{label}: expected {{path: value}}, got {paths!r}"
                for label, paths in options.items()
                if not isinstance(paths or {}, Mapping)
            ]
        if problems:
            raise ConfigError(problems)
        problems += [
            f"tune.{path}: expected a list of two different values or more, got {values!r}"
            for path, values in self.tune.items()
            if not isinstance(values, list) or len({repr(v) for v in values}) < max(2, len(values))
        ]
        problems += [
            f"tune.{path}: a variant sets it, so it cannot be tuned for each of them"
            for path in self.tune
            if path in self._set_paths
        ]
        problems += [
            f"benchmarks.{name}: expected {{coordinate: [values]}}, got {given!r}"
            for name, given in self.benchmarks.items()
            if not isinstance(given or {}, Mapping)
        ]
        problems += [
            f"step_times.{label}: expected a variant and a number above 0, got {ratio!r}"
            for label, ratio in self.step_times.items()
            if label not in self.variants or not is_number(ratio) or ratio <= 0
        ]
        if self.from_ not in (None, *PROFILES):
            problems.append(f"from: expected one of {', '.join(PROFILES)}, got {self.from_!r}")
        if problems:
            raise ConfigError(problems)
        self.predictions  # noqa: B018 (a ConfigError says what is wrong with one)

    @property
    def sources(self) -> list[str]:
        """Its evaluations, probes and benchmarks."""
        return [*self.evaluations, *self.probes, *self.benchmarks]

    @property
    def is_trained(self) -> bool:
        """False if it has only probes and benchmarks, which need no training."""
        return bool(self.evaluations) or not (self.probes or self.benchmarks)

    def check_sources(self) -> None:
        """ConfigError if one of them is unknown or listed under the wrong key."""
        from ablations.measurement import Benchmark, Evaluation, Probe, discover

        kinds = {"evaluations": Evaluation, "probes": Probe, "benchmarks": Benchmark}
        for key, kind in kinds.items():
            for name in getattr(self, key):
                part = discover().component(name, key)
                if not issubclass(part, kind):
                    right = next(each for each, its in kinds.items() if issubclass(part, its))
                    raise ConfigError([f"{key}: '{name}' belongs under {right}"])

    @cached_property
    def predictions(self) -> list[tuple[Claim, list[Prediction]]]:
        """Each claim with its predictions, in the order of the file."""
        levels = {factor: list(options) for factor, options in self.factors.items()}
        return read_predictions(self.claims, self.variants, levels, self.metric, self.baseline)

    def is_for(self, profile: str) -> bool:
        """Whether this profile includes it."""
        return self.from_ is None or PROFILES.index(profile) >= PROFILES.index(self.from_)

    def compares(self, label: str, levels: Mapping[str, str]) -> bool:
        """Whether a claim compares this variant at these levels."""
        return any(p.looks_at(label, levels) for _, each in self.predictions for p in each)

    def written_in(self, label: str) -> tuple[str, Source]:
        """The file of a variant's settings, and the path above them."""
        if self.chapter is None:
            return f"variants.{label}.", self.source
        return f"variants.{label}.set.", self.chapter.source

    @property
    def _options(self) -> dict[str, Any]:
        """The variants, and the levels of each factor, by the path of their section."""
        return {"variants": self.variants} | {f"factors.{k}": v for k, v in self.factors.items()}

    @property
    def _set_paths(self) -> set[str]:
        """Every path that a variant or a level sets."""
        every = [each for options in self._options.values() for each in options.values() if each]
        return {path for paths in every for path in paths}

    def varies(self, path: str) -> bool:
        """Whether a variant or a level sets this path, or the baseline sets a path above it."""
        ours = set(self.variants[self.baseline] or {})
        above = {path[: match.start()] for match in re.finditer(r"\.", path)}
        return path in self._set_paths or bool(above & ours)


def experiments() -> dict[str, Path]:
    """Name → file, by chapter; `g2p` and `text` come first in each."""
    return {
        f"{chapter}/{path.stem}": path
        for chapter in CHAPTERS
        for path in sorted(
            (FOLDER / "experiments" / chapter).glob("*.yaml"),
            key=lambda path: (path.stem not in ("g2p", "text"), path.stem),
        )
        if path.stem != "variants"
    }


def find(word: str) -> dict[str, Path]:
    """Name → file of an experiment, of all experiments of a chapter, or of a user's own file."""
    known = experiments()
    if word in known:
        return {word: known[word]}
    if word in CHAPTERS:
        return {name: path for name, path in known.items() if name.startswith(f"{word}/")}
    if word.endswith((".yaml", ".yml")):
        return {_name(Path(word)): Path(word)}
    word = word[:100]
    if word in RENAMED:
        raise ConfigError([f"{word} is gone: run {RENAMED[word]}"])
    if inside := [name for name in known if name.endswith(f"/{word}")]:
        hint = f"Did you mean one of {listed(inside)}?" if inside[1:] else nearest(word, inside)
    else:
        hint = nearest(word, [*CHAPTERS, *known])
        hint = hint if len(hint) < 200 else "`python -m ablations list` names them all."
    raise ConfigError([f"no chapter or experiment '{word}'. {hint}"])


def chosen(words: Collection[str], profile: str) -> tuple[list[str], list[str]]:
    """The experiments that these words name (default: all), and those that the profile leaves out
    of a chapter."""
    asked: dict[str, None] = {}
    left_out: dict[str, None] = {}
    for word in words or CHAPTERS:
        for name, path in find(word).items():
            is_in = word not in CHAPTERS or read_experiment(path).is_for(profile)
            (asked if is_in else left_out)[name if word in CHAPTERS else word] = None
    return list(asked), [name for name in left_out if name not in asked]


def read_experiment(path: Path) -> Experiment:
    return _experiment(_name(path), *yaml_text(path), read_chapter(path.parent))


def _name(path: Path) -> str:
    """`norm/g2p` for our own experiments; the stem of a user's file."""
    if path.is_relative_to(FOLDER / "experiments"):
        return "/".join(path.with_suffix("").parts[-2:])
    return re.sub(r"[^\w.-]", "_", path.stem)[:100]


@lru_cache(maxsize=512)
def _experiment(name: str, text: str, file: str, chapter: Chapter | None) -> Experiment:
    source = parsed(text, file)
    if gone := [key for key in RETIRED if key in source.values]:
        raise ConfigError([f"{source.place(key)}: {key} is gone: {RETIRED[key]}" for key in gone])
    try:
        values, chapter = _with_variants(source.values, chapter)
        read = validate(Experiment, values, "")
        return replace(read, name=name, chapter=chapter, source=source)
    except ConfigError as error:
        raise located(error, [("", source)]) from None


def _with_variants(
    written: Mapping[str, Any], chapter: Chapter | None
) -> tuple[dict[str, Any], Chapter | None]:
    """An experiment's keys with its variants filled in; and the chapter, if it declares them."""
    values = {"from_" if key == "from" else key: value for key, value in written.items()}
    if isinstance(own := values.get("variants"), Mapping) or chapter is None:
        if chapter is not None and chapter.baseline in (own or ()):
            values.setdefault("baseline", chapter.baseline)
        return values, None
    labels = list(chapter.variants) if own is None else own
    if not isinstance(labels, list) or not labels:
        raise ConfigError([f"variants: expected names, or {{label: {{path: value}}}}, got {own!r}"])
    problems = [
        f"variants: no '{label}' in {chapter.source.name}. {nearest_label(label, chapter.variants)}"
        for label in map(str, labels)
        if label not in chapter.variants
    ]
    if problems:
        raise ConfigError(problems)
    used = {label: chapter.variants[label] for label in chapter.variants if label in labels}
    changes = [
        f"{name}: {each.changes}" for name, each in used.items() if each.changes != "nothing"
    ]
    values = {"baseline": chapter.baseline, "changes": "; ".join(changes) or "nothing", **values}
    return {**values, "variants": {label: each.set for label, each in used.items()}}, chapter
