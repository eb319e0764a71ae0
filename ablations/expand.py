"""Turns an experiment into trials, one for each variant, level of the factors and seed.

Later layers of settings replace earlier ones: base, profile, experiment, command line, factors,
variant, tuned settings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omegaconf import OmegaConf

from ablations.config import (
    FOLDER,
    interpolated,
    lay,
    located,
    override,
    read_yaml,
    resolve_trial,
)
from ablations.facts import cost_of, decisive_parts, model_facts, source_code, training_code
from ablations.measurement import Place, where_timed
from ablations.profile import Profile
from ablations.spec import Experiment
from ablations.store.identity import canonical_json, identity, value_at
from ablations.store.identity import settings as settings_of
from ablations.store.stamp import Stamp
from ablations.store.words import place_of
from ablations.tasks.task import load_task
from model.config import ConfigError, is_number, nearest, validate
from model.strict_yaml import Source

MATCHED = "matched"  # a variant writes d_model: "${matched}"
_WIDEST = 1 << 16
_STEPS = ("train.steps", "train.schedule.warmup")  # shortened to train in equal time
Tree = Mapping[str, Any]
Timings = Mapping[tuple[str, str], Sequence[Place]]
"""(benchmark, id of the baseline's trial) → where both are timed."""


@dataclass(frozen=True)
class Trial:
    """One fully written config with one seed, and the measurements it needs."""

    id: str
    experiment: str
    """The first experiment that needs this trial."""
    variant: str
    factors: Mapping[str, str]
    """Factor → level."""
    seed: int
    config: dict[str, Any]
    sections: Mapping[str, str]
    """Each section of the config as canonical JSON."""
    parts: Mapping[str, str]
    """What decides its numbers besides the seed."""
    trained: bool = True
    """False if its model is only probed and timed."""
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """{path: value} that tuning chose or tries."""
    sources: Sequence[str] = ()
    """Evaluations and probes."""
    timings: Timings = field(default_factory=dict)

    @property
    def place(self) -> str:
        return place_of(self.variant, self.factors)

    @property
    def title(self) -> str:
        tuned = [f"{path.rpartition('.')[2]}={value}" for path, value in self.tuned.items()]
        return " ".join([f"{self.experiment}:{self.place} seed {self.seed}", *tuned])

    @property
    def settings(self) -> str:
        """Twelve hex digits of what decides its numbers besides the seed."""
        return settings_of(self.parts)

    def with_seed(self, seed: int) -> Trial:
        config = {**self.config, "seed": seed}
        return replace(self, id=identity(self.parts, seed), seed=seed, config=config)

    def with_settings(self, settings: Mapping[str, Any], experiment: Experiment) -> Trial:
        """The trial with settings that tuning tries or chose."""
        if not settings:
            return self
        sections = {name: section for name, section in self.config.items() if name != "seed"}
        try:
            config = resolve_trial(override(sections, settings))
        except ConfigError as error:
            raise located(error, [("tune.", experiment.source)]) from None
        return _trial(experiment, self.variant, self.factors, config, settings)

    @property
    def counts(self) -> dict[str, float]:
        """Parameters, and forward FLOPs per token at the task's longest sequences."""
        flops = cost_of(self.sections["model"], self.sections["task"]).flops_per_token
        return {"parameters": self.parameters, "flops_per_token": flops}

    @property
    def code(self) -> Stamp:
        """The source files that decide the numbers of its training."""
        return training_code(*self._sections)

    def source_code(self, source: str) -> Stamp:
        """The source files of one of its evaluations, probes or benchmarks."""
        return source_code(source, *self._sections)

    @property
    def data(self) -> dict[str, Any]:
        """What its record says about the data."""
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
        """About how many bytes a training step keeps for the backward pass."""
        cost = cost_of(self.sections["model"], self.sections["task"])
        return cost.kept_bytes / cost.tokens * self.config["train"]["batch_tokens"]

    @property
    def work(self) -> float:
        """Parameters × training tokens, as a rough size."""
        train = self.config["train"]
        tokens = train["steps"] * train["batch_tokens"]
        return float(self.parameters * tokens) if self.trained else 0.0

    @property
    def _sections(self) -> tuple[str, str, str]:
        return self.sections["model"], self.sections["task"], self.sections["train"]


def _trial(
    experiment: Experiment,
    variant: str,
    factors: Mapping[str, str],
    config: Mapping[str, Any],
    tuned: Mapping[str, Any],
) -> Trial:
    """A trial with seed 0 and nothing to measure."""
    trained = experiment.is_trained
    parts = decisive_parts(config, trained)
    sections = {name: canonical_json(section) for name, section in config.items()}
    config = {**config, "seed": 0}
    name, trial_id = experiment.name, identity(parts, 0)
    return Trial(trial_id, name, variant, factors, 0, config, sections, parts, trained, {**tuned})


def expand(
    experiment: Experiment,
    profile: Profile,
    overrides: Mapping[str, Any],
    seeds: Sequence[int],
    factors: Collection[str] = (),
    tuned: Callable[[Sequence[Trial]], Mapping[str, Mapping[str, Any]]] = lambda variants: {},
) -> list[Trial]:
    """Every variant at every combination of levels with every seed; ConfigError lists all problems.

    `factors` are the paths that the command line crosses; `tuned` gives the settings that tuning
    chose, by place. Only the first seed is timed: speed does not depend on the seed.
    """
    from ablations.benchmarks.session import TimingConfig

    variants = as_written(experiment, profile, overrides, factors)
    chosen = tuned(variants)
    set_for = [each.with_settings(chosen.get(each.place, {}), experiment) for each in variants]
    timing = validate(TimingConfig, profile.timing, "timing")
    where = {
        name: where_timed(name, given or {}, timing.longest, timing.lengths)
        for name, given in experiment.benchmarks.items()
    }
    sources = (*experiment.evaluations, *experiment.probes)
    baselines = {
        canonical_json(each.factors): each.with_seed(seeds[0]).id
        for each in set_for
        if each.variant == experiment.baseline
    }
    trials = []
    for each in set_for:
        baseline = baselines[canonical_json(each.factors)]
        timings = {(name, baseline): at for name, at in where.items()}
        for seed in seeds:
            new = replace(each.with_seed(seed), sources=sources)
            trials.append(replace(new, timings=timings) if seed == seeds[0] else new)
    return trials


def as_written(
    experiment: Experiment,
    profile: Profile,
    overrides: Mapping[str, Any],
    factors: Collection[str] = (),
) -> list[Trial]:
    """Every variant at every combination of levels, untuned, with seed 0, nothing to measure."""
    experiment.check_sources()
    base, tree, typed = _shared(experiment, profile, overrides, factors)
    crossings = _crossings(tree, experiment)
    trials: list[Trial] = []
    problems: dict[str, None] = {}  # in order, each once
    for label, (levels, crossed) in itertools.product(experiment.variants, crossings):
        try:
            varied = _varied(crossed, label, experiment)
            # No more than the profile spends, unless the command line says so.
            caps = {p: most for p, most in profile.most.items() if p not in (*overrides, *factors)}
            varied = _changed(varied, caps, min)
            if (step_time := experiment.step_times.get(label, 1)) != 1:
                varied = _changed(varied, dict.fromkeys(_STEPS, step_time), _fit)
            trials.append(_trial(experiment, label, levels, resolve_trial(varied), {}))
        except ConfigError as error:
            origins = [experiment.written_in(label)]
            origins += [(f"factors.{name}.{levels[name]}.", experiment.source) for name in levels]
            origins += [("", typed), ("settings.", experiment.source)]
            origins += [(f"{experiment.task}.", profile.settings), ("", base)]
            problems |= dict.fromkeys(located(error, origins).problems)
    if problems:
        raise ConfigError(list(problems))
    return trials


def size(experiment: Experiment, seeds: Sequence[int]) -> int:
    """How many trials an experiment has, without making one."""
    return len(experiment.variants) * math.prod(map(len, experiment.factors.values())) * len(seeds)


def _shared(
    experiment: Experiment,
    profile: Profile,
    overrides: Mapping[str, Any],
    factors: Collection[str],
) -> tuple[Source, Tree, Source]:
    """The base; the base with the layers that all variants share; and the command line."""
    known = {file.stem: file for file in (FOLDER / "base").glob("*.yaml")}
    source, task = experiment.source, experiment.task
    if task not in known:
        raise ConfigError([f"{source.place('task')}: no task '{task}'. {nearest(task, known)}"])
    for path in filter(experiment.varies, overrides):  # a variant would replace it again
        raise ConfigError([f"{path}: this experiment varies it, so it cannot be set"])
    base = read_yaml(known[task])
    typed = Source("command line", {}, dict.fromkeys([*overrides, *factors], 0))
    tree: Tree = base.values
    for layer, prefix, settings in (
        (profile.settings, f"{task}.", profile.of(task, {*experiment.settings, *overrides})),
        (source, "settings.", profile.multiplied(experiment.settings)),
        (typed, "", overrides),
    ):
        by_depth = sorted(settings.items(), key=lambda item: item[0].count("."))
        tree = _laid(tree, dict(by_depth), prefix, layer)
    return base, tree, typed


def _laid(
    tree: Tree, settings: Mapping[str, Any], prefix: str, source: Source, known: Tree | None = None
) -> Tree:
    """The tree with these settings; their references are looked up in `known`, or in the tree."""
    for path, value in settings.items():
        try:
            tree = lay(tree, path, interpolated(value, tree if known is None else known, path))
        except ConfigError as error:
            raise located(error, [(prefix, source)]) from None
    return tree


def _crossings(tree: Tree, experiment: Experiment) -> list[tuple[dict[str, str], Tree]]:
    """Every combination of levels, and the tree with their settings."""
    found: list[tuple[dict[str, str], Tree]] = [({}, tree)]
    for factor, options in experiment.factors.items():
        found = [
            ({**levels, factor: level}, _laid(under, settings or {}, prefix, experiment.source))
            for levels, under in found
            for level, settings in options.items()
            for prefix in [f"factors.{factor}.{level}."]
        ]
    return found


def _varied(tree: Tree, label: str, experiment: Experiment) -> Tree:
    """The tree with a variant's settings; `${matched}` becomes the width of the baseline's size."""

    def laid(label: str, known: Tree) -> Tree:
        written = experiment.variants[label] or {}
        return _laid(tree, written, *experiment.written_in(label), known)

    def at_width(width: int) -> Tree:
        known[MATCHED] = width
        return laid(label, known)

    if f"${{{MATCHED}}}" not in repr(experiment.variants[label]):
        return laid(label, tree)
    known = OmegaConf.create(dict(tree))
    return at_width(matched_width(at_width, laid(experiment.baseline, tree)))


def matched_width(variant: Callable[[int], Tree], baseline: Tree) -> int:
    """The even width at which a variant's parameter count is nearest to the baseline's.

    Parameters grow about as the square of the width, so interpolating square roots takes few steps.
    """
    target = _parameters(baseline)
    low, high = 1, 2  # half widths
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


def _parameters(tree: Tree) -> int:
    config = resolve_trial(tree)
    return model_facts(canonical_json(config["model"]), canonical_json(config["task"])).parameters


def _changed(
    tree: Tree, by: Mapping[str, float], change: Callable[[float, float], float]
) -> dict[str, Any]:
    """The tree with change(value, number) at each path → number of `by` that it has."""
    held = {path: value_at(tree, path) for path in by}
    return override(tree, {p: change(v, by[p]) for p, v in held.items() if is_number(v)})


def _fit(steps: float, step_time: float) -> int:
    """The steps that fit into the baseline's time."""
    return max(1, round(steps / step_time))
