"""What would run: every trial that the asked questions need, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablations.plan.code import code, measure_code
from ablations.plan.counts import count, parameters
from ablations.plan.merge import Cell, PlannedArm, arms_of, filled, size
from ablations.plan.profile import Profile, read_profile
from ablations.plan.question import Ablation, crossed, find, read_ablation
from ablations.plan.tuning import Choice, Grid, choices, regime, trials_of
from ablations.store.frozen import freeze
from ablations.store.results import Results
from ablations.store.seeds import moved
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


@dataclass(frozen=True)
class PlannedTable:
    """A question with one treatment of its arms, expanded."""

    question: str
    ablation: Ablation
    cells: list[Cell]
    arms: str = "fixed"
    """Settings as they stand, tuned for each arm, or still to be chosen (`tuning`)."""
    choices: list[Choice] = field(default_factory=list)
    is_alone: bool = True
    """Whether no tuned table stands beside it, so that it tells of every claim."""
    tried: Sequence[PlannedArm] = ()
    """The arms that settings are to be chosen for."""

    @property
    def word(self) -> str:
        return self.question if self.arms == "fixed" else f"{self.question} [{self.arms}]"


@dataclass
class Plan:
    """The asked questions, expanded."""

    profile: Profile
    overrides: dict[str, Any]
    factors: dict[str, dict[str, Any]]
    """Path → level → value: what the command line crosses every question with."""
    tables: dict[str, PlannedTable]
    """By its word."""
    wanted: dict[str, Want]
    notes: list[str] = field(default_factory=list)
    """What people should know before it runs."""


@dataclass(frozen=True)
class Spent:
    """Which seeds each arm of each table takes."""

    seeds: Sequence[int]
    more: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)
    """(table, label) → the seeds of arms that take others."""

    def of(self, table: str, label: str, first: int) -> Sequence[int]:
        """As a question numbers them whose deciding seeds begin with `first`."""
        return moved(self.more.get((table, label), self.seeds), first)


def make_plan(
    words: Sequence[str],
    profile_name: str,
    overrides: Mapping[str, Any],
    seeds: Sequence[int] | Spent | None,
    large: bool = False,
    factors: Mapping[str, Mapping[str, Any]] | None = None,
    results: Results | None = None,
    grids: Mapping[str, Grid] | None = None,
) -> Plan:
    """ConfigError lists every problem of every ablation before anything runs.

    What `results` has tuned comes before what is committed. With `grids` (question → its grid) the
    plan is of the trials that choose among settings, and of nothing else.
    """
    named = [find(word) for word in words]
    profile = read_profile(profile_name)
    paths: dict[str, Any] = {}
    for name, path in named:
        if paths.setdefault(name, path) != path:
            raise ConfigError([f"{paths[name]} and {path} have one name: rename one"])
    spent = seeds if isinstance(seeds, Spent) else Spent(profile.seeds if seeds is None else seeds)
    crossings = {path: dict(levels) for path, levels in (factors or {}).items()}
    swallowed = [p for p in overrides for above in crossings if p.startswith(f"{above}.")]
    if swallowed:
        raise ConfigError([f"{p}: every level replaces what is above it" for p in swallowed])
    read = {name: read_ablation(path) for name, path in named}
    read = {name: (crossed(asked, crossings), source) for name, (asked, source) in read.items()}
    if not large:
        _refuse_large({name: size(ablation, spent.seeds) for name, (ablation, _) in read.items()})
    plan = Plan(profile, dict(overrides), crossings, {}, {})
    problems: dict[str, None] = {}
    for name, (ablation, source) in read.items():
        try:
            trained = _is_trained(ablation)
            arms = arms_of(ablation, source, profile, overrides, crossings, trained)
            if grids is None:
                known = choices(name, profile.name, results)
                tables = _tables(plan, name, ablation, arms, spent, known)
            elif name in grids:
                tried = filled(arms, lambda arm, grid=grids[name]: trials_of(arm, grid))  # type: ignore[misc]
                tables = [PlannedTable(name, ablation, tried, "tuning", tried=arms)]
            else:
                tables = []
            for table in tables:
                _check_metric(ablation, table.cells)
            _check_timing(profile)
        except ConfigError as error:
            problems |= dict.fromkeys(f"{name}: {problem}" for problem in error.problems)
            continue
        for table in tables:
            plan.tables[table.word] = table
            _want(plan, table)
    if problems:
        raise ConfigError(list(problems))
    return plan


def _tables(
    plan: Plan,
    name: str,
    ablation: Ablation,
    arms: Sequence[PlannedArm],
    spent: Spent,
    known: Mapping[str, Choice],
) -> list[PlannedTable]:
    """A question with its settings as they stand and, where they are known, with tuned ones."""
    first = ablation.seeds_from
    fixed = PlannedTable(
        name, ablation, filled(arms, lambda arm: arm.cells(spent.of(name, arm.label, first)))
    )
    if not ablation.tune:
        return [fixed]
    if set_here := [path for path in ablation.tune if path in plan.overrides]:
        plan.notes.append(f"{name}: {', '.join(set_here)} is set, so its arms are not tuned")
        return [fixed]
    keys = [freeze([arm.label, arm.across, regime(arm, ablation)]) for arm in arms]
    if lacking := [arm.label for arm, key in zip(arms, keys, strict=True) if key not in known]:
        told = ", ".join(dict.fromkeys(lacking))
        plan.notes.append(f"{name}: not tuned at these settings ({told}); --tune does that")
        return [fixed]
    chosen = [known[key] for key in keys]
    word = PlannedTable(name, ablation, [], "tuned").word
    cells: list[Cell] = []
    for arm, choice in zip(arms, chosen, strict=True):
        seeds = spent.of(word, arm.label, first)
        cells += arm.cells(seeds, "report", choice.chosen)
        if choice.runner_up is not None:
            cells += arm.cells(seeds, "runner-up", choice.runner_up)
    return [
        PlannedTable(name, ablation, fixed.cells, is_alone=False),
        PlannedTable(name, ablation, cells, "tuned", chosen, is_alone=False),
    ]


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


def measures_of(table: PlannedTable, cell: Cell) -> list[str]:
    """Speed depends on neither the seed nor a rate: the first seed is timed, as it stands.

    A trial that only chooses among settings is trained, and that is all.
    """
    from ablations.measure import is_timing

    if cell.role == "tune":
        return []
    is_timed = table.arms == "fixed" and cell.seed == table.cells[0].seed
    return [name for name in table.ablation.measures if is_timed or not is_timing(name)]


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


def _want(plan: Plan, table: PlannedTable) -> None:
    from ablations.measure import is_timing

    controls = {
        (cell.seed, freeze(cell.across)): cell.trial
        for cell in table.cells
        if cell.label == table.ablation.control and cell.role == "report"
    }
    for cell in table.cells:
        title = ":".join((table.word, cell.label, *cell.across.values())) + f" seed {cell.seed}"
        title += "".join(f" {path.rpartition('.')[2]}={v}" for path, v in cell.tuned.items())
        new = Want(cell.trial, cell.config, title, cell.frozen, cell.trained)
        want = plan.wanted.setdefault(cell.trial, new)
        for measure in measures_of(table, cell):
            if is_timing(measure):
                pair = (measure, controls[cell.seed, freeze(cell.across)])
                want.timings += [pair] if pair not in want.timings else []
            elif measure not in want.measures:
                want.measures.append(measure)
