"""What would run: every trial that the asked questions need, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablations.benchmarks.timing import TimingConfig
from ablations.config import located
from ablations.facts import cost_facts, model_facts
from ablations.measurement import Place, discover, is_benchmark, metrics_by_name
from ablations.plan.code import code, measure_code
from ablations.plan.merge import Cell, PlannedArm, arms_of, filled, size
from ablations.plan.tuning import Choice, choices, regime, trials_of, untried
from ablations.spec import (
    Experiment,
    Profile,
    crossed,
    find,
    places,
    read_experiment,
    read_profile,
)
from ablations.store.identity import DECIDING, canonical_json
from ablations.store.results import Results
from ablations.store.stamp import Stamp
from ablations.store.words import listed, quoted
from ablations.tasks import TASK
from ablations.tasks.cache import load_task
from model.config import ConfigError, nearest, validate

LARGE = 20_000  # trials; whoever wants more says so


@dataclass
class Want:
    """A trial and the measures it needs."""

    id: str
    config: dict[str, Any]
    title: str
    frozen: Mapping[str, str]  # the config's sections, each as one text
    trained: bool = True  # or only counted, probed and timed
    sources: list[str] = field(default_factory=list)  # taken from the trained model
    timings: dict[tuple[str, str], list[Place]] = field(default_factory=dict)
    """(measure, reference trial) → where."""

    @property
    def counts(self) -> dict[str, float]:
        """Parameters, and forward FLOPs per token at the task's longest sequences."""
        flops = cost_facts(self.frozen["model"], self.frozen["task"]).flops_per_token
        return {"parameters": self.parameters, "flops_per_token": flops}

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
    def files(self) -> tuple[str, ...]:
        """The user's own files that its task is read from."""
        task = load_task(self.frozen["task"])
        return tuple(path for name in task.files if (path := self.config["task"].get(name)))

    @property
    def _sections(self) -> tuple[str, str, str]:
        return self.frozen["model"], self.frozen["task"], self.frozen["train"]

    @property
    def parameters(self) -> int:
        return model_facts(self.frozen["model"], self.frozen["task"]).parameters

    @property
    def kept_bytes(self) -> float:
        """What a step of it keeps for the backward pass, about."""
        kept = cost_facts(self.frozen["model"], self.frozen["task"]).kept_bytes
        return kept * self.config["train"]["batch_tokens"]

    @property
    def work(self) -> float:
        """Its relative size, without counting its arithmetic."""
        train = self.config["train"]
        tokens = train["steps"] * train["batch_tokens"]
        return float(self.parameters * tokens) if self.trained else 0.0


@dataclass(frozen=True)
class PlannedTable:
    """A question with one treatment of its arms, expanded."""

    question: str
    ablation: Experiment
    cells: list[Cell]
    arms: str = "fixed"
    """Settings as they stand (`fixed`), tuned for each arm, or still to be chosen (`tuning`)."""
    choices: list[Choice] = field(default_factory=list)
    tried: Sequence[PlannedArm] = ()
    """The arms that settings are to be chosen for."""

    @property
    def word(self) -> str:
        return f"{self.question} [tuning]" if self.arms == "tuning" else self.question


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
    partly_tuned: list[str] = field(default_factory=list)
    """Questions whose settings were chosen before their grids had grown."""


def make_plan(
    words: Sequence[str],
    profile_name: str,
    overrides: Mapping[str, Any],
    seeds: Sequence[int] | None,
    large: bool = False,
    factors: Mapping[str, Mapping[str, Any]] | None = None,
    results: Results | None = None,
    tuning: bool = False,
) -> Plan:
    """ConfigError lists every problem of every ablation before anything runs.

    What `results` has tuned comes before what is committed. With `tuning` the plan is of the trials
    that choose among settings, and of nothing else.
    """
    named = [item for word in words for item in find(word).items()]
    profile = read_profile(profile_name)
    paths: dict[str, Any] = {}
    for name, path in named:
        if paths.setdefault(name, path) != path:
            raise ConfigError([f"{paths[name]} and {path} have one name: rename one"])
    seeds = DECIDING[: profile.seeds] if seeds is None else seeds
    crossings = {path: dict(levels) for path, levels in (factors or {}).items()}
    swallowed = [p for p in overrides for above in crossings if p.startswith(f"{above}.")]
    if swallowed:
        raise ConfigError([f"{p}: every level replaces what is above it" for p in swallowed])
    read = {name: read_experiment(path) for name, path in named}
    read = {name: (crossed(asked, crossings), source) for name, (asked, source) in read.items()}
    if not large:
        sizes = {name: size(ablation, seeds) for name, (ablation, _) in read.items()}
        if (total := sum(sizes.values())) > LARGE:  # a million cells alone take hours to make
            largest = max(sizes, key=lambda name: sizes[name])
            told = f"{total:,} trials, {sizes[largest]:,} of them for '{largest}': more than "
            fix = "name fewer experiments, levels or seeds, or add --large"
            raise ConfigError([f"{told}{LARGE:,}; {fix}"])
    plan = Plan(profile, dict(overrides), crossings, {}, {})
    problems: dict[str, list[str]] = {}  # each with the experiments that have it
    for name, (ablation, source) in read.items():
        try:
            ablation.check_measures()
            trained = ablation.is_trained
            arms = arms_of(ablation, source, profile, overrides, crossings, trained)
            if tuning:
                tables = _tuning_table(name, ablation, arms)
            else:
                draws = seeds if trained else draws_of(ablation)
                tables = [_table(plan, name, ablation, arms, draws, results)]
            timing = validate(TimingConfig, profile.timing, "timing")
            for table in tables:
                metrics = metrics_of(table.ablation, table.cells)
                if (asked := table.ablation.metric) not in metrics:
                    problem = f"metric: no '{asked}'. {nearest(asked, metrics)}"
                    raise located(ConfigError([problem]), [("", source)])
                for benchmark in table.ablation.benchmarks:
                    places(benchmark, table.ablation, timing)
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(name)
            continue
        for table in tables:
            plan.tables[table.word] = table
            _want(plan, table)
        plan.notes += _same_as_baseline(tables)
    if problems:
        raise ConfigError(
            [
                f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {problem}"
                for problem, names in problems.items()
            ]
        )
    if plan.partly_tuned:
        told = listed(plan.partly_tuned)
        plan.notes.append(f"tuned before their grids had all their values: {told} (--tune)")
    return plan


def _same_as_baseline(tables: Sequence[PlannedTable]) -> list[str]:
    """A note for each variant that has its baseline's settings in other words."""
    notes: dict[str, None] = {}
    for table in tables:
        baseline = table.ablation.baseline
        theirs = {cell.settings for cell in table.cells if cell.variant == baseline}
        same = {cell.variant: None for cell in table.cells if cell.settings in theirs}
        if table.arms == "fixed":
            notes |= {
                f"{table.question}: {quoted(label)} changes nothing: it is its baseline, "
                f"{quoted(baseline)}, in other words": None
                for label in same
                if label != baseline
            }
    return list(notes)


def _table(
    plan: Plan,
    name: str,
    ablation: Experiment,
    arms: Sequence[PlannedArm],
    seeds: Sequence[int],
    results: Results | None,
) -> PlannedTable:
    """An experiment with tuned settings, or with its settings as they stand: where tuning was not
    done, or not for every variant that a claim compares."""
    fixed = PlannedTable(name, ablation, filled(arms, lambda arm: arm.cells(seeds)))
    if not ablation.tune:
        return fixed
    if set_here := [path for path in ablation.tune if path in plan.overrides]:
        plan.notes.append(f"{name}: {', '.join(set_here)} is set, so its variants are not tuned")
        return fixed
    known = choices(name, plan.profile.name, results)
    pairs = [
        (arm, known.get(canonical_json([arm.variant, arm.factors, regime(arm, ablation)])))
        for arm in arms
    ]
    lacking = [arm for arm, choice in pairs if choice is None]
    if lacking:
        told = listed(dict.fromkeys(arm.variant for arm in lacking))
        plan.notes.append(f"{name}: not tuned at these settings ({told}); --tune does that")
    if not any(choice for _, choice in pairs) or any(
        ablation.compares(arm.variant, arm.factors) for arm in lacking
    ):
        return fixed
    if any(choice and untried(choice, arm, ablation.tune) for arm, choice in pairs):
        plan.partly_tuned.append(name)
    cells = [
        cell
        for arm, choice in pairs
        for cell in arm.cells(seeds, "report", choice.chosen if choice else None)
    ]
    return PlannedTable(name, ablation, cells, "tuned", [each for _, each in pairs if each])


def _tuning_table(
    name: str, ablation: Experiment, arms: Sequence[PlannedArm]
) -> list[PlannedTable]:
    """The trials that choose among the settings of an experiment's grid, where it has one."""
    if not ablation.tune:
        return []
    cells = filled(arms, lambda arm: trials_of(arm, ablation.tune))
    return [PlannedTable(name, ablation, cells, "tuning", tried=arms)]


def measures_of(table: PlannedTable, cell: Cell) -> list[str]:
    """Speed does not depend on the seed: the first is timed.

    A trial that only chooses among settings is trained, and that is all.
    """
    if cell.role == "tune":
        return []
    is_timed = cell.seed == table.cells[0].seed
    return [name for name in table.ablation.sources if is_timed or not is_benchmark(name)]


def draws_of(ablation: Experiment) -> Sequence[int]:
    """The seeds of a question that trains nothing, at every profile: all where one of its numbers
    depends on the first weights, else one."""
    read = metrics_by_name(ablation.sources).values()
    return DECIDING if any(each.repeats == "seeds" for each in read) else DECIDING[:1]


def metrics_of(ablation: Experiment, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """All that is read for a question: the task's scores, and what its measures read besides."""

    def told(quantity: Any) -> dict[str, Any]:
        found = {key: getattr(quantity, key) for key in ("unit", "better", "title")}
        repeats = getattr(quantity, "repeats", "seeds")
        return {**found, "repeats": repeats, "matters": getattr(quantity, "matters", None)}

    read: dict[str, dict[str, Any]] = {}
    if ablation.is_trained:
        scores = TASK.component(cells[0].config["task"]["name"]).metrics
        read |= {name: told(score) for name, score in scores.items()}
    for measure in map(discover().component, ablation.sources):
        beside = {"beside": elsewhere} if (elsewhere := getattr(measure, "beside", {})) else {}
        read |= {name: {**told(each), **beside} for name, each in measure.metrics.items()}
    return read


def _want(plan: Plan, table: PlannedTable) -> None:
    timing = validate(TimingConfig, plan.profile.timing, "timing")
    controls = {
        (cell.seed, canonical_json(cell.factors)): cell.id
        for cell in table.cells
        if cell.variant == table.ablation.baseline and cell.role == "report"
    }
    for cell in table.cells:
        title = ":".join((table.word, cell.variant, *cell.factors.values())) + f" seed {cell.seed}"
        title += "".join(f" {path.rpartition('.')[2]}={v}" for path, v in cell.tuned.items())
        new = Want(cell.id, cell.config, title, cell.frozen, cell.trained)
        want = plan.wanted.setdefault(cell.id, new)
        for measure in measures_of(table, cell):
            if is_benchmark(measure):
                pair = (measure, controls[cell.seed, canonical_json(cell.factors)])
                held = want.timings.setdefault(pair, [])
                held += [at for at in places(measure, table.ablation, timing) if at not in held]
            elif measure not in want.sources:
                want.sources.append(measure)
