"""What would run: every trial that the asked questions need, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablations.plan.code import code, measure_code
from ablations.plan.counts import count, parameters
from ablations.plan.merge import Cell, expand, size
from ablations.plan.profile import Profile, read_profile
from ablations.plan.question import Ablation, crossed, find, read_ablation
from ablations.store.frozen import freeze
from ablations.store.stamp import Stamp
from ablations.tasks.cache import load_task
from model.config import ConfigError, nearest, validate

LARGE = 20_000  # trials; whoever wants more says so


@dataclass
class Want:
    """One trial and all that is wanted of it."""

    trial: str
    config: dict[str, Any]
    title: str
    frozen: Mapping[str, str]  # the config's sections, each as one text
    trained: bool = True  # or only counted, probed and timed
    measures: list[str] = field(default_factory=list)  # taken from the trained model
    timings: list[tuple[str, str]] = field(default_factory=list)  # (measure, reference trial)

    @property
    def counts(self) -> dict[str, float]:
        return count(self.frozen["model"], self.frozen["task"])

    @property
    def code(self) -> Stamp:
        """The source files that decide the numbers of its training."""
        return code(*self._sections)

    def measure_code(self, measure: str) -> Stamp:
        """The source files that take a measure of it."""
        return measure_code(measure, *self._sections)

    @property
    def data(self) -> dict[str, Any]:
        """What a record tells of its data."""
        return load_task(self.frozen["task"]).described

    @property
    def _sections(self) -> tuple[str, str, str]:
        return self.frozen["model"], self.frozen["task"], self.frozen["train"]

    @property
    def parameters(self) -> int:
        return parameters(self.frozen["model"], self.frozen["task"])

    @property
    def work(self) -> float:
        return work(self.parameters, self.config["train"])


def work(parameters: int, train: Mapping[str, Any]) -> float:
    """The relative size of a trial, without counting its arithmetic."""
    return float(parameters * train["steps"] * train["batch_tokens"])


@dataclass
class Plan:
    """The asked questions, expanded."""

    profile: Profile
    overrides: dict[str, Any]
    factors: dict[str, dict[str, Any]]
    """Path → level → value: what the command line crosses every question with."""
    seeds: list[int]
    ablations: dict[str, tuple[Ablation, list[Cell]]]
    wanted: dict[str, Want]


def make_plan(
    words: Sequence[str],
    profile_name: str,
    overrides: Mapping[str, Any],
    seeds: list[int] | None,
    large: bool = False,
    factors: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """ConfigError lists every problem of every ablation before anything runs."""
    named = [find(word) for word in words]
    profile = read_profile(profile_name)
    paths: dict[str, Any] = {}
    for name, path in named:
        if paths.setdefault(name, path) != path:
            raise ConfigError([f"{paths[name]} and {path} have one name: rename one"])
    chosen = profile.seeds if seeds is None else seeds
    crossings = {path: dict(levels) for path, levels in (factors or {}).items()}
    swallowed = [p for p in overrides for above in crossings if p.startswith(f"{above}.")]
    if swallowed:
        raise ConfigError([f"{p}: every level replaces what is above it" for p in swallowed])
    read = {name: read_ablation(path) for name, path in named}
    read = {name: (crossed(asked, crossings), source) for name, (asked, source) in read.items()}
    if not large:
        _refuse_large({name: size(ablation, chosen) for name, (ablation, _) in read.items()})
    plan = Plan(profile, dict(overrides), crossings, chosen, {}, {})
    problems: dict[str, None] = {}
    for name, (ablation, source) in read.items():
        try:
            trained = _is_trained(ablation)
            cells = expand(ablation, source, profile, overrides, chosen, crossings, trained)
            _check_metric(ablation, cells)
            _check_timing(profile)
        except ConfigError as error:
            problems |= dict.fromkeys(f"{name}: {problem}" for problem in error.problems)
            continue
        plan.ablations[name] = ablation, cells
        _want(plan, name, ablation, cells)
    if problems:
        raise ConfigError(list(problems))
    return plan


def _refuse_large(sizes: Mapping[str, int]) -> None:
    """Before a million cells are made: that alone takes hours."""
    total = sum(sizes.values())
    if total > LARGE:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ConfigError(
            [
                f"{total:,} trials, {sizes[largest]:,} of them for '{largest}': "
                f"more than {LARGE:,}; name fewer ablations, levels or seeds, or add --large"
            ]
        )


def measures_of(ablation: Ablation, cell: Cell, seeds: Sequence[int]) -> list[str]:
    """Speed does not depend on the seed, so the first one is timed for all."""
    from ablations.measure import is_timing

    return [name for name in ablation.measures if cell.seed == seeds[0] or not is_timing(name)]


def _is_trained(ablation: Ablation) -> bool:
    """Whether its models are trained: a question that only times them needs no training."""
    from ablations.measure import discover, is_timing

    for name in ablation.measures:
        discover().part(name, "measures")
    return not ablation.measures or not all(map(is_timing, ablation.measures))


def _check_metric(ablation: Ablation, cells: Sequence[Cell]) -> None:
    metrics = load_task(freeze(cells[0].config["task"])).metrics
    if ablation.metric not in metrics:
        raise ConfigError([f"metric: no '{ablation.metric}'. {nearest(ablation.metric, metrics)}"])


def _check_timing(profile: Profile) -> None:
    from ablations.measure.timing import TimingConfig

    validate(TimingConfig, profile.timing, "timing")


def _want(plan: Plan, name: str, ablation: Ablation, cells: Sequence[Cell]) -> None:
    from ablations.measure import is_timing

    controls = {
        (cell.seed, freeze(cell.across)): cell.trial
        for cell in cells
        if cell.label == ablation.control
    }
    for cell in cells:
        title = ":".join((name, cell.label, *cell.across.values())) + f" seed {cell.seed}"
        new = Want(cell.trial, cell.config, title, cell.frozen, cell.trained)
        want = plan.wanted.setdefault(cell.trial, new)
        for measure in measures_of(ablation, cell, plan.seeds):
            if is_timing(measure):
                pair = (measure, controls[cell.seed, freeze(cell.across)])
                want.timings += [pair] if pair not in want.timings else []
            elif measure not in want.measures:
                want.measures.append(measure)
