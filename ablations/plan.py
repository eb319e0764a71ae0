"""A plan: the named experiments, and every trial that they need, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from ablations.config import located
from ablations.expand import Trial, expand, size
from ablations.measurement import discover, metrics_by_name
from ablations.profile import Profile, read_profile
from ablations.spec import Experiment, find, read_experiment
from ablations.store.identity import DECIDING
from ablations.store.results import Results
from ablations.store.words import listed, quoted
from ablations.tasks import TASK
from ablations.tuning import Choice, choices, grid_of, untried
from model.config import ConfigError, nearest

LARGE = 20_000  # trials; more need --large
T = TypeVar("T")


@dataclass(frozen=True)
class Expanded:
    """An experiment with its trials, and what tuning chose for them if it was tuned."""

    experiment: Experiment
    trials: list[Trial]
    choices: list[Choice] = field(default_factory=list)


@dataclass
class Plan:
    """The named experiments with their trials, and every trial once."""

    profile: Profile
    overrides: Mapping[str, Any]
    factors: Mapping[str, Mapping[str, Any]]
    """Path → level → value: the factors of the command line."""
    experiments: dict[str, Expanded] = field(default_factory=dict)
    trials: dict[str, Trial] = field(default_factory=dict)
    """Id → trial, with the measurements that all experiments need."""
    untuned: list[str] = field(default_factory=list)
    """Experiments with variants that have not been tuned at these settings."""
    notes: list[str] = field(default_factory=list)
    """Messages for the user."""

    def add(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            held = self.trials.setdefault(trial.id, trial)
            sources = dict.fromkeys([*held.sources, *trial.sources])
            timings = dict(held.timings)
            for pair, where in trial.timings.items():
                known = timings.get(pair, ())
                timings[pair] = [*known, *(at for at in where if at not in known)]
            self.trials[trial.id] = replace(held, sources=tuple(sources), timings=timings)


def make_plan(
    words: Sequence[str],
    profile_name: str,
    overrides: Mapping[str, Any],
    seeds: Sequence[int] | None,
    large: bool = False,
    factors: Mapping[str, Mapping[str, Any]] | None = None,
    results: Results | None = None,
) -> Plan:
    """Expand the named experiments; ConfigError lists every problem of all of them.

    Settings tuned in `results` come before committed ones.
    """
    plan = Plan(read_profile(profile_name), dict(overrides), dict(factors or {}))
    seeds = DECIDING[: plan.profile.seeds] if seeds is None else seeds
    asked = read_experiments(words, plan)
    if not large:
        check_size({experiment.name: size(experiment, seeds) for experiment in asked})

    def expanded(experiment: Experiment) -> Expanded:
        own = seeds if experiment.is_trained else seeds_of(experiment)
        chosen: list[Choice] = []

        def tuned(variants: Sequence[Trial]) -> dict[str, dict[str, Any]]:
            chosen.extend(_choices(experiment, variants, plan, results))
            return {choice.place: choice.chosen for choice in chosen}

        trials = expand(experiment, plan.profile, plan.overrides, own, plan.factors, tuned)
        metrics = metrics_of(experiment, trials)
        if experiment.metric not in metrics:
            problem = f"metric: no '{experiment.metric}'. {nearest(experiment.metric, metrics)}"
            raise located(ConfigError([problem]), [("", experiment.source)])
        return Expanded(experiment, trials, chosen)

    for each in without_problems(asked, expanded):
        plan.experiments[each.experiment.name] = each
        plan.add(each.trials)
        plan.notes += _same_as_baseline(each)
    if plan.untuned:
        one = "NAME" if plan.untuned[1:] else plan.untuned[0].partition(" ")[0]
        fix = f"`ablations tune {one}` does that"
        plan.notes.append(f"not tuned at these settings: {', '.join(plan.untuned)}; {fix}")
    return plan


def read_experiments(words: Sequence[str], plan: Plan) -> list[Experiment]:
    """The named experiments, crossed with the factors of the command line."""
    paths: dict[str, Any] = {}
    for word in words:
        for name, path in find(word).items():
            if paths.setdefault(name, path) != path:
                raise ConfigError([f"{paths[name]} and {path} have one name: rename one"])
    swallowed = [p for p in plan.overrides for above in plan.factors if p.startswith(f"{above}.")]
    if swallowed:
        raise ConfigError([f"{p}: a crossed factor above it replaces it" for p in swallowed])
    return [crossed(read_experiment(path), plan.factors) for path in paths.values()]


def crossed(experiment: Experiment, given: Mapping[str, Mapping[str, Any]]) -> Experiment:
    """The same experiment at every level of some more settings: path → level → value."""
    factors = dict(experiment.factors)
    for path, levels in sorted(given.items(), key=lambda item: item[0].count(".")):
        if experiment.varies(path) or path in experiment.tune:
            does = "varies" if experiment.varies(path) else "tunes"
            raise ConfigError([f"{path}: this experiment {does} it, so it cannot be a factor, too"])
        name = path.rpartition(".")[2]
        factors[path if name in factors else name] = {
            level: {path: value} for level, value in levels.items()
        }
    return replace(experiment, factors=factors)


def check_size(sizes: Mapping[str, int]) -> None:
    """ConfigError where there are too many trials: a million take hours to expand."""
    if (total := sum(sizes.values())) > LARGE:
        largest = max(sizes, key=lambda name: sizes[name])
        count = f"{total:,} trials, {sizes[largest]:,} of them for '{largest}'"
        fix = "name fewer experiments, levels or seeds, or add --large"
        raise ConfigError([f"{count}: more than {LARGE:,}; {fix}"])


def without_problems(experiments: Iterable[Experiment], act: Callable[[Experiment], T]) -> list[T]:
    """Call `act` on each; ConfigError lists each problem once, with its experiments."""
    found: list[T] = []
    problems: dict[str, list[str]] = {}
    for experiment in experiments:
        try:
            found.append(act(experiment))
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(experiment.name)
    if problems:
        raise ConfigError(
            [
                f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {problem}"
                for problem, names in problems.items()
            ]
        )
    return found


def _choices(
    experiment: Experiment, variants: Sequence[Trial], plan: Plan, results: Results | None
) -> list[Choice]:
    """The tuned settings of each variant; none if a claim compares a variant that was not tuned."""
    name, grid = experiment.name, experiment.tune
    if not grid:
        return []
    if set_here := [path for path in grid if path in plan.overrides]:
        plan.notes.append(f"{name}: {', '.join(set_here)} is set, so its variants are not tuned")
        return []
    for each in variants:
        grid_of(each, grid)  # ConfigError if it has none of these settings
    known = choices(experiment, variants, plan.profile.name, results)
    missing = [each for each in variants if each.place not in known]
    if missing:
        without = listed(dict.fromkeys(each.variant for each in missing))
        plan.untuned.append(f"{name} ({without})" if known else name)
    if not known or any(experiment.compares(each.variant, each.factors) for each in missing):
        return []
    if any(untried(known[each.place], each, grid) for each in variants if each.place in known):
        fix = f"`ablations tune {name}` does that"
        plan.notes.append(f"{name}: tuned before its grid had all its values; {fix}")
    return list(known.values())


def _same_as_baseline(expanded: Expanded) -> list[str]:
    """A note for each variant whose settings equal the baseline's."""
    if expanded.choices:
        return []
    name, baseline = expanded.experiment.name, expanded.experiment.baseline
    settings = {each.settings for each in expanded.trials if each.variant == baseline}
    same = dict.fromkeys(each.variant for each in expanded.trials if each.settings in settings)
    return [
        f"{name}: {quoted(variant)} has the same settings as its baseline, {quoted(baseline)}"
        for variant in same
        if variant != baseline
    ]


def seeds_of(experiment: Experiment) -> Sequence[int]:
    """Seeds of an untrained experiment: all if a metric depends on initial weights, else one."""
    read = metrics_by_name(experiment.sources).values()
    return DECIDING if any(each.repeats == "seeds" for each in read) else DECIDING[:1]


def metrics_of(experiment: Experiment, trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """Name → metric of the experiment's task and sources, as plain dictionaries."""
    task = TASK.component(trials[0].config["task"]["name"])
    scores = task.metrics if experiment.is_trained else {}
    read = {name: asdict(score) for name, score in scores.items()}
    for source in map(discover().component, experiment.sources):
        elsewhere = {"beside": beside} if (beside := getattr(source, "beside", {})) else {}
        read |= {name: {**asdict(each), **elsewhere} for name, each in source.metrics.items()}
    return read
