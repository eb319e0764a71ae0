"""From an experiment to its trials: base ← profile ← experiment ← command line ← factors ← variant
← tuned settings, with each seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ablations.config import (
    FOLDER,
    copied,
    interpolated,
    lay,
    located,
    override,
    parsed,
    plain,
    resolve_trial,
    tree_of,
    yaml_text,
)
from ablations.facts import cost_facts, decisive_parts, model_facts, source_code, training_code
from ablations.measurement import Place, where_timed
from ablations.profile import Profile
from ablations.spec import Experiment
from ablations.store.identity import canonical_json, identity
from ablations.store.identity import settings as settings_of
from ablations.store.stamp import Stamp
from ablations.tasks.task import load_task
from model.config import ConfigError, is_number, nearest, validate
from model.strict_yaml import Source

MATCHED = "matched"  # as it is referred to: d_model: "${matched}"
_WIDEST = 1 << 16
Timings = Mapping[tuple[str, str], Sequence[Place]]
"""(benchmark, id of the baseline's trial) → where both are timed."""


@dataclass(frozen=True)
class Trial:
    """One fully written config with one seed, and the measurements it needs."""

    id: str
    experiment: str
    """The first that needs it."""
    variant: str
    factors: Mapping[str, str]
    """Factor → level."""
    seed: int
    config: dict[str, Any]
    sections: Mapping[str, str]
    """Each section of the config as canonical JSON."""
    settings: str
    """Twelve hex digits of what decides its numbers besides the seed."""
    trained: bool = True
    """Whether it is trained, or only counted, probed and timed."""
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """{path: value} that tuning has set, or tries."""
    sources: Sequence[str] = ()
    """Evaluations and probes."""
    timings: Timings = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The variant and its levels, as one types them: `post:6`."""
        return ":".join((self.variant, *self.factors.values()))

    @property
    def title(self) -> str:
        words = [f"{self.experiment}:{self.place} seed {self.seed}"]
        return " ".join(
            [*words, *(f"{path.rpartition('.')[2]}={v}" for path, v in self.tuned.items())]
        )

    def with_seed(self, seed: int) -> Trial:
        config = {**self.config, "seed": seed}
        trial_id = identity(decisive_parts(config, self.trained), seed)
        return replace(self, id=trial_id, seed=seed, config=config)

    def with_settings(self, settings: Mapping[str, Any], experiment: Experiment) -> Trial:
        """With settings that tuning of this experiment tries or has chosen."""
        if not settings:
            return self
        sections = {name: section for name, section in self.config.items() if name != "seed"}
        try:
            config = resolve_trial(override(sections, settings))
        except ConfigError as error:
            raise located(error, [("tune.", experiment.source)]) from None
        return _filled(replace(self, tuned=dict(settings)), config)

    @property
    def counts(self) -> dict[str, float]:
        """Parameters, and forward FLOPs per token at the task's longest sequences."""
        flops = cost_facts(self.sections["model"], self.sections["task"]).flops_per_token
        return {"parameters": self.parameters, "flops_per_token": flops}

    @property
    def code(self) -> Stamp:
        """The source files that decide the numbers of its training."""
        return training_code(*self._sections)

    def source_code(self, source: str) -> Stamp:
        """The source files that yield its measurements from an evaluation, probe or benchmark."""
        return source_code(source, *self._sections)

    @property
    def data(self) -> dict[str, Any]:
        """What a record says of its data."""
        return load_task(self.sections["task"]).described

    @property
    def files(self) -> tuple[str, ...]:
        """The user's own files that its task is read from."""
        task = load_task(self.sections["task"])
        return tuple(path for name in task.files if (path := self.config["task"].get(name)))

    @property
    def parameters(self) -> int:
        return model_facts(self.sections["model"], self.sections["task"]).parameters

    @property
    def kept_bytes(self) -> float:
        """What a step of it keeps for the backward pass, about."""
        kept = cost_facts(self.sections["model"], self.sections["task"]).kept_bytes
        return kept * self.config["train"]["batch_tokens"]

    @property
    def work(self) -> float:
        """Its relative size, without counting its arithmetic."""
        train = self.config["train"]
        tokens = train["steps"] * train["batch_tokens"]
        return float(self.parameters * tokens) if self.trained else 0.0

    @property
    def _sections(self) -> tuple[str, str, str]:
        return self.sections["model"], self.sections["task"], self.sections["train"]


def _filled(trial: Trial, config: Mapping[str, Any]) -> Trial:
    """The trial with these sections, and what follows from them."""
    parts = decisive_parts(config, trial.trained)
    return replace(
        trial,
        id=identity(parts, trial.seed),
        config={**config, "seed": trial.seed},
        sections={name: canonical_json(section) for name, section in config.items()},
        settings=settings_of(parts),
    )


def expand(
    experiment: Experiment,
    profile: Profile,
    overrides: Mapping[str, Any],
    seeds: Sequence[int],
    factors: Collection[str] = (),
    tuned: Callable[[Sequence[Trial]], Mapping[str, Mapping[str, Any]]] = lambda variants: {},
) -> list[Trial]:
    """Every variant at every crossing of levels with every seed; ConfigError lists every problem.

    `factors` are the paths that the command line has crossed; `tuned` gives the settings that
    tuning has chosen for these variants, by place.
    """
    variants = as_written(experiment, profile, overrides, factors)
    return _with_seeds(variants, experiment, profile, seeds, tuned(variants))


def as_written(
    experiment: Experiment,
    profile: Profile,
    overrides: Mapping[str, Any],
    factors: Collection[str] = (),
) -> list[Trial]:
    """Every variant at every crossing of levels, untuned, with seed 0 and nothing to measure."""
    experiment.check_sources()
    base, tree, typed = _shared(experiment, profile, overrides, factors)
    crossings = [(levels, _crossed(tree, levels, experiment)) for levels in _levels(experiment)]
    trials: list[Trial] = []
    problems: dict[str, None] = {}  # in order, each once
    for label, (levels, crossed) in itertools.product(experiment.variants, crossings):
        named = {name: level for name, level, _ in levels}
        new = Trial("", experiment.name, label, named, 0, {}, {}, "", experiment.is_trained)
        try:
            varied = _varied(crossed, label, experiment)
            _cap(varied, profile.most, {*overrides, *factors})
            _give_equal_time(varied, experiment.step_times.get(label, 1))
            trials.append(_filled(new, resolve_trial(plain(varied))))
        except ConfigError as error:
            origins = [experiment.written_in(label)]
            origins += [(f"factors.{name}.{named[name]}.", experiment.source) for name in named]
            origins += [("", typed), ("settings.", experiment.source)]
            origins += [(f"{experiment.task}.", profile.settings), ("", base)]
            problems |= dict.fromkeys(located(error, origins).problems)
    if problems:
        raise ConfigError(list(problems))
    return trials


def _with_seeds(
    variants: Iterable[Trial],
    experiment: Experiment,
    profile: Profile,
    seeds: Sequence[int],
    tuned: Mapping[str, Mapping[str, Any]],
) -> list[Trial]:
    """Each variant with its tuned settings and every seed, and what it is evaluated and timed by.

    Speed does not depend on the seed: the first is timed, beside the baseline at the same levels.
    """
    from ablations.benchmarks.session import TimingConfig

    timing = validate(TimingConfig, profile.timing, "timing")
    where = {
        name: where_timed(name, given or {}, timing.longest, timing.lengths)
        for name, given in experiment.benchmarks.items()
    }
    sources = (*experiment.evaluations, *experiment.probes)
    set_for = [each.with_settings(tuned.get(each.place, {}), experiment) for each in variants]
    first = {
        canonical_json(each.factors): each.with_seed(seeds[0]).id
        for each in set_for
        if each.variant == experiment.baseline
    }
    trials = []
    for each in set_for:
        baseline = first[canonical_json(each.factors)]
        timings = {(name, baseline): at for name, at in where.items()}
        for seed in seeds:
            new = replace(each.with_seed(seed), sources=sources)
            trials.append(replace(new, timings=timings) if seed == seeds[0] else new)
    return trials


def size(experiment: Experiment, seeds: Sequence[int]) -> int:
    """How many trials an experiment has, without making one."""
    return len(experiment.variants) * math.prod(map(len, experiment.factors.values())) * len(seeds)


def _shared(
    experiment: Experiment,
    profile: Profile,
    overrides: Mapping[str, Any],
    factors: Collection[str],
) -> tuple[Source, DictConfig, Source]:
    """The base, the layers that all variants share, and the command line."""
    known = {file.stem: file for file in (FOLDER / "base").glob("*.yaml")}
    source, task = experiment.source, experiment.task
    if task not in known:
        raise ConfigError([f"{source.place('task')}: no task '{task}'. {nearest(task, known)}"])
    for path in filter(experiment.varies, overrides):  # which a variant would replace again
        raise ConfigError([f"{path}: this experiment varies it, so it cannot be set"])
    text = yaml_text(known[task])
    base, tree = parsed(*text), copied(tree_of(*text))
    typed = Source("command line", {}, dict.fromkeys([*overrides, *factors], 0))
    for layer, prefix, settings in (
        (profile.settings, f"{task}.", profile.of(task, {*experiment.settings, *overrides})),
        (source, "settings.", profile.multiplied(experiment.settings)),
        (typed, "", overrides),
    ):
        by_depth = sorted(settings.items(), key=lambda item: item[0].count("."))
        _lay_all(tree, dict(by_depth), prefix, layer)
    return base, tree, typed


def _levels(experiment: Experiment) -> Iterable[tuple[tuple[str, str, Mapping[str, Any]], ...]]:
    """Every crossing of levels: (factor, level, {path: value})."""
    return itertools.product(
        *(
            [(factor, level, settings or {}) for level, settings in options.items()]
            for factor, options in experiment.factors.items()
        )
    )


def _crossed(
    tree: DictConfig,
    levels: Sequence[tuple[str, str, Mapping[str, Any]]],
    experiment: Experiment,
) -> DictConfig:
    tree = copied(tree) if levels else tree
    for factor, level, settings in levels:
        _lay_all(tree, settings, f"factors.{factor}.{level}.", experiment.source)
    return tree


def _lay_all(
    tree: DictConfig,
    settings: Mapping[str, Any],
    prefix: str,
    source: Source,
    known: DictConfig | None = None,
) -> None:
    """Lay settings over the tree; they refer to what is `known`, else to the tree itself."""
    for path, value in settings.items():
        try:
            lay(tree, path, interpolated(value, tree if known is None else known, path))
        except ConfigError as error:
            raise located(error, [(prefix, source)]) from None


def _varied(tree: DictConfig, label: str, experiment: Experiment) -> DictConfig:
    """The tree with a variant's settings, at the baseline's size where it asks for that."""

    def laid(label: str, known: DictConfig) -> DictConfig:
        """References are to what is known before the variant."""
        varied = copied(tree)
        _lay_all(varied, experiment.variants[label] or {}, *experiment.written_in(label), known)
        return varied

    def at_width(width: int) -> DictConfig:
        matched[MATCHED] = width
        return laid(label, matched)

    if f"${{{MATCHED}}}" not in repr(experiment.variants[label]):
        return laid(label, tree)
    matched = copied(tree)
    return at_width(matched_width(at_width, laid(experiment.baseline, tree)))


def matched_width(variant: Callable[[int], DictConfig], baseline: DictConfig) -> int:
    """The even number that brings a variant's parameters nearest to the baseline's.

    Parameters grow about as the square of the width, so a line through square roots finds it in a
    few steps; ConfigError where one of them is no model.
    """
    target = _parameters(baseline)
    low, high = 1, 2  # halves
    under, over = _parameters(variant(2 * low)), _parameters(variant(2 * high))
    while high < _WIDEST and over < target:
        low, high, under = high, 4 * high, over
        over = _parameters(variant(2 * high))
    while high - low > 1:
        roots = [math.sqrt(size) for size in (under, target, over)]
        share = (roots[1] - roots[0]) / (roots[2] - roots[0]) if over > under else 0.5
        middle = min(max(round(low + share * (high - low)), low + 1), high - 1)
        size = _parameters(variant(2 * middle))
        if size < target:
            low, under = middle, size
        else:
            high, over = middle, size
    return 2 * (low if abs(under - target) <= abs(over - target) else high)


def _parameters(tree: DictConfig) -> int:
    config = resolve_trial(plain(tree))
    return model_facts(canonical_json(config["model"]), canonical_json(config["task"])).parameters


def _cap(tree: DictConfig, most: Mapping[str, float], typed: Collection[str]) -> None:
    """Set no more than a profile spends, unless the command line says so."""
    for path, cap in most.items():
        value = OmegaConf.select(tree, path)
        if path not in typed and is_number(value) and value > cap:
            lay(tree, path, cap)


def _give_equal_time(tree: DictConfig, step_time: float) -> None:
    """Set as many steps, and as long a warm-up, as fit into the baseline's time."""
    for path in ("train.steps", "train.schedule.warmup"):
        value = OmegaConf.select(tree, path)  # not every schedule warms up
        if is_number(value) and step_time != 1:
            lay(tree, path, max(1, round(value / step_time)))
