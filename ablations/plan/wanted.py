"""What would run: every trial that the asked questions need, each once."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablations.measure import Measure, Place, discover, is_timing, quantities_of
from ablations.measure.timing import TimingConfig
from ablations.plan.code import code, measure_code
from ablations.plan.facts import cost_facts, model_facts
from ablations.plan.merge import Cell, PlannedArm, arms_of, filled, size
from ablations.plan.points import places
from ablations.plan.profile import Profile, read_profile
from ablations.plan.question import Ablation, catalogue, crossed, find, ledger, read_ablation
from ablations.plan.tuning import Choice, choices, regime, trials_of, untried
from ablations.store.identity import DECIDING, freeze
from ablations.store.results import Results
from ablations.store.stamp import Stamp
from ablations.store.words import listed, quoted
from ablations.tasks import TASK
from ablations.tasks.cache import load_task
from model.config import ConfigError, nearest, validate

LARGE = 20_000  # trials; whoever wants more says so
AXES = ("position", "norm", "heads", "scale", "smoothing", "recurrent")


@dataclass
class Want:
    """A trial and the measures it needs."""

    trial: str
    config: dict[str, Any]
    title: str
    frozen: Mapping[str, str]  # the config's sections, each as one text
    trained: bool = True  # or only counted, probed and timed
    measures: list[str] = field(default_factory=list)  # taken from the trained model
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
    ablation: Ablation
    cells: list[Cell]
    arms: str = "fixed"
    """Settings as they stand (`fixed`), tuned for each arm, or still to be chosen (`tuning`)."""
    choices: list[Choice] = field(default_factory=list)
    is_alone: bool = True
    """Whether no tuned table stands beside it, so that it tells of every claim."""
    tried: Sequence[PlannedArm] = ()
    """The arms that settings are to be chosen for."""
    left_out: Sequence[Cell] = ()
    """What the question has besides, and is not asked for now."""

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
    partly_tuned: list[str] = field(default_factory=list)
    """Questions whose settings were chosen before their grids had grown."""


@dataclass(frozen=True)
class Scope:
    """Which arms of a trained question are asked for."""

    arms: str | None = None
    """`all`, or those that are `deciding`; None: as the profile has it."""
    claims: Collection[str] = ()
    """Only what these need, where there are any."""

    def narrowed(self, tables: Sequence[PlannedTable], profile: Profile) -> list[PlannedTable]:
        """The tables without arms, or treatments of them, that decide nothing."""
        found = []
        for table in tables:
            arms = None if table.is_alone else table.arms
            asked: list[Cell] = []
            left_out: list[Cell] = []
            for cell in table.cells:
                is_asked = self._is_asked(cell, table.ablation, profile, arms)
                (asked if is_asked else left_out).append(cell)
            found += [replace(table, cells=asked, left_out=left_out)] if asked else []
        return found or list(tables)

    def _is_asked(self, cell: Cell, ablation: Ablation, profile: Profile, arms: str | None) -> bool:
        ours = {claim.id for claim, _ in ablation.predictions} & set(self.claims)
        if not ours and ((self.arms or profile.arms) == "all" or not ablation.claims):
            return True
        return ablation.decides(cell.label, cell.across, ours, arms)


def make_plan(
    words: Sequence[str],
    profile_name: str,
    overrides: Mapping[str, Any],
    seeds: Sequence[int] | None,
    large: bool = False,
    factors: Mapping[str, Mapping[str, Any]] | None = None,
    results: Results | None = None,
    scope: Scope | None = None,
    tuning: bool = False,
) -> Plan:
    """ConfigError lists every problem of every ablation before anything runs.

    What `results` has tuned comes before what is committed. With `tuning` the plan is of the trials
    that choose among settings, and of nothing else.
    """
    named = [find(word) for word in words]
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
    read = {name: read_ablation(path) for name, path in named}
    read = {name: (crossed(asked, crossings), source) for name, (asked, source) in read.items()}
    if not large:
        sizes = {name: size(ablation, seeds) for name, (ablation, _) in read.items()}
        if (total := sum(sizes.values())) > LARGE:  # a million cells alone take hours to make
            largest = max(sizes, key=lambda name: sizes[name])
            told = f"{total:,} trials, {sizes[largest]:,} of them for '{largest}': more than "
            fix = "name fewer ablations, levels or seeds, or add --large"
            raise ConfigError([f"{told}{LARGE:,}; {fix}"])
    plan = Plan(profile, dict(overrides), crossings, {}, {})
    scope = scope or Scope()
    problems: dict[str, None] = {}
    for name, (ablation, source) in read.items():
        try:
            trained = is_trained(ablation)
            arms = arms_of(ablation, source, profile, overrides, crossings, trained)
            if tuning:
                tables = _tuning_tables(name, ablation, arms, scope, profile)
            else:
                draws = seeds if trained else draws_of(ablation)
                own = scope if trained else replace(scope, arms=scope.arms or profile.untrained)
                tables = _tables(plan, name, ablation, arms, draws, results, own)
                tables = own.narrowed(tables, profile)
            timing = validate(TimingConfig, profile.timing, "timing")
            for table in tables:
                metrics = metrics_of(table.ablation, table.cells)
                if (asked := table.ablation.metric) not in metrics:
                    raise ConfigError([f"metric: no '{asked}'. {nearest(asked, metrics)}"])
                for measure in filter(is_timing, table.ablation.measures):
                    places(measure, table.ablation, timing)
        except ConfigError as error:
            problems |= dict.fromkeys(f"{name}: {problem}" for problem in error.problems)
            continue
        for table in tables:
            plan.tables[table.word] = table
            _want(plan, table)
        plan.notes += _same_as_control(tables)
    if problems:
        raise ConfigError(list(problems))
    if plan.partly_tuned:
        told = listed(plan.partly_tuned)
        plan.notes.append(f"tuned before their grids had all their values: {told} (--tune)")
    return plan


def _same_as_control(tables: Sequence[PlannedTable]) -> list[str]:
    """A note for each variant that has its control's settings in other words."""
    notes: dict[str, None] = {}
    for table in tables:
        control = table.ablation.control
        controls = {cell.settings for cell in table.cells if cell.label == control}
        same = {cell.label: None for cell in table.cells if cell.settings in controls}
        if table.arms == "fixed":
            notes |= {
                f"{table.question}: {quoted(label)} changes nothing: it is its control, "
                f"{quoted(control)}, in other words": None
                for label in same
                if label != control
            }
    return list(notes)


def _tables(
    plan: Plan,
    name: str,
    ablation: Ablation,
    arms: Sequence[PlannedArm],
    seeds: Sequence[int],
    results: Results | None,
    scope: Scope,
) -> list[PlannedTable]:
    """A question with its settings as they stand and, where they are known, with tuned ones."""
    fixed = PlannedTable(name, ablation, filled(arms, lambda arm: arm.cells(seeds)))
    if not ablation.tune:
        return [fixed]
    if set_here := [path for path in ablation.tune if path in plan.overrides]:
        plan.notes.append(f"{name}: {', '.join(set_here)} is set, so its arms are not tuned")
        return [fixed]
    known = choices(name, plan.profile.name, results)
    keys = [freeze([arm.label, arm.across, regime(arm, ablation)]) for arm in arms]
    is_about = any(each.arms == "tuned" for _, each_of in ablation.predictions for each in each_of)
    lacking = [
        arm.label
        for arm, key in zip(arms, keys, strict=True)
        if key not in known
        and (not is_about or ablation.decides(arm.label, arm.across, scope.claims, "tuned"))
    ]
    if lacking:
        told = listed(dict.fromkeys(lacking))
        plan.notes.append(f"{name}: not tuned at these settings ({told}); --tune does that")
        return [fixed]
    pairs = [(arm, known[key]) for arm, key in zip(arms, keys, strict=True) if key in known]
    if any(untried(choice, arm, ablation.tune) for arm, choice in pairs):
        plan.partly_tuned.append(name)
    return [
        PlannedTable(name, ablation, fixed.cells, is_alone=False),
        PlannedTable(
            name,
            ablation,
            [cell for arm, choice in pairs for cell in arm.cells(seeds, "report", choice.chosen)],
            "tuned",
            [choice for _, choice in pairs],
            is_alone=False,
        ),
    ]


def _tuning_tables(
    name: str, ablation: Ablation, arms: Sequence[PlannedArm], scope: Scope, profile: Profile
) -> list[PlannedTable]:
    """The trials that choose among the settings of a question's grid, where it has one."""
    if not ablation.tune:
        return []
    cells = filled(arms, lambda arm: trials_of(arm, ablation.tune))
    (table,) = scope.narrowed([PlannedTable(name, ablation, cells, "tuning")], profile)
    kept = {freeze([cell.label, cell.across]) for cell in table.cells}
    tried = [arm for arm in arms if freeze([arm.label, arm.across]) in kept]
    return [replace(table, tried=tried)]


def measures_of(table: PlannedTable, cell: Cell) -> list[str]:
    """Speed depends on neither the seed nor a rate: the first seed is timed, as it stands.

    A trial that only chooses among settings is trained, and that is all.
    """
    if cell.role == "tune":
        return []
    is_timed = table.arms == "fixed" and cell.seed == table.cells[0].seed
    return [name for name in table.ablation.measures if is_timed or not is_timing(name)]


def is_trained(ablation: Ablation) -> bool:
    """Whether its models are trained: one that only counts, probes or times them needs no
    training."""
    parts = [discover().part(name, "measures") for name in ablation.measures]
    return not parts or any(issubclass(part, Measure) for part in parts)


def draws_of(ablation: Ablation) -> Sequence[int]:
    """The seeds of a question that trains nothing, at every profile: all where one of its numbers
    depends on the first weights, else one."""
    read = quantities_of(ablation.measures).values()
    return DECIDING if any(each.repeats == "seeds" for each in read) else DECIDING[:1]


def metrics_of(ablation: Ablation, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """All that is read for a question: the task's scores, and what its measures read besides."""

    def told(quantity: Any) -> dict[str, Any]:
        found = {key: getattr(quantity, key) for key in ("unit", "better", "label")}
        repeats = getattr(quantity, "repeats", "seeds")
        return {**found, "repeats": repeats, "matters": getattr(quantity, "matters", None)}

    read: dict[str, dict[str, Any]] = {}
    if is_trained(ablation):
        scores = TASK.part(cells[0].config["task"]["name"]).metrics
        read |= {name: told(score) for name, score in scores.items()}
    for measure in map(discover().part, ablation.measures):
        beside = {"beside": elsewhere} if (elsewhere := getattr(measure, "beside", {})) else {}
        read |= {name: {**told(each), **beside} for name, each in measure.quantities.items()}
    return read


def _want(plan: Plan, table: PlannedTable) -> None:
    timing = validate(TimingConfig, plan.profile.timing, "timing")
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
                held = want.timings.setdefault(pair, [])
                held += [at for at in places(measure, table.ablation, timing) if at not in held]
            elif measure not in want.measures:
                want.measures.append(measure)


def everything(profile: str, arms: str | None = None) -> list[str]:
    """All questions of a profile, in the order in which they run; where only deciding arms are
    asked for, those that have a claim.

    Untrained questions run first. The others follow the order of the ledger, the six axes before
    the rest; what else is timed comes between these, since timing needs the machine to itself.
    """
    is_deciding = (arms or read_profile(profile).arms) == "deciding"
    order = {claim: index for index, claim in enumerate(ledger())}
    found = {name: read_ablation(path)[0] for name, path in catalogue().items()}

    def place(name: str) -> tuple[int, float]:
        ids = [claim.id for claim, _ in found[name].predictions]
        is_of_axes = any(each.partition(".")[0] in AXES for each in ids)
        if is_trained(found[name]):
            turn = 1 if is_of_axes else 3
        else:
            is_timed = any(map(is_timing, found[name].measures))
            turn = 0 if is_of_axes or not is_timed else 2
        return turn, min((order[each] for each in ids), default=math.inf)

    asked = [n for n, a in found.items() if a.is_for(profile) and (a.claims or not is_deciding)]
    return sorted(asked, key=place)
