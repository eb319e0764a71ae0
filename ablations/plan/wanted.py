"""What would run: every trial that the asked questions need, each once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ablations.plan.code import code, measure_code
from ablations.plan.facts import cost_facts, model_facts
from ablations.plan.merge import Cell, PlannedArm, arms_of, filled, size
from ablations.plan.own_files import doubtful
from ablations.plan.pacing import Pace, paced, paces, question_of_pace, settings_of
from ablations.plan.points import places
from ablations.plan.profile import Profile, read_profile
from ablations.plan.question import Ablation, crossed, find, read_ablation
from ablations.plan.tuning import Choice, Grid, choices, regime, trials_of
from ablations.store.frozen import freeze
from ablations.store.results import Results
from ablations.store.seeds import DECIDING, moved
from ablations.store.stamp import Stamp
from ablations.store.words import listed, quoted
from ablations.tasks.cache import load_task
from model.config import ConfigError, nearest, validate

if TYPE_CHECKING:
    from ablations.measure import Place
    from ablations.measure.timing import TimingConfig

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
        return work(self.parameters, self.config["train"]) if self.trained else 0.0


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
    """Settings as they stand, tuned for each arm, still to be chosen (`tuning`), or waiting for the
    times of their steps (`pacing`)."""
    choices: list[Choice] = field(default_factory=list)
    is_alone: bool = True
    """Whether no tuned table stands beside it, so that it tells of every claim."""
    paces: list[Pace] = field(default_factory=list)
    """How long a step of each arm takes, where they get equal time."""
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

    @property
    def is_paced(self) -> bool:
        """Whether the steps of every arm are known."""
        return all(table.arms != "pacing" for table in self.tables.values())


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
                is_asked = self.asks(profile, table.ablation, cell.label, cell.across, arms)
                (asked if is_asked else left_out).append(cell)
            found += [replace(table, cells=asked, left_out=left_out)] if asked else []
        return found or list(tables)

    def asks(
        self,
        profile: Profile,
        ablation: Ablation,
        label: str,
        across: Mapping[str, str],
        arms: str | None,
    ) -> bool:
        """Whether an arm, treated so, is asked for."""
        ours = {claim.id for claim, _ in ablation.predictions} & set(self.claims)
        if not ours and ((self.arms or profile.arms) == "all" or not ablation.claims):
            return True
        return ablation.decides(label, across, ours, arms)


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
    scope: Scope | None = None,
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
            trained = is_trained(ablation)
            asked_for = scope or Scope()
            arms = arms_of(ablation, source, profile, overrides, crossings, trained)
            known_paces: dict[str, Pace] = {}
            arms_before = arms if ablation.equal == "time" else []
            if ablation.equal == "time":
                known_paces = paces(results, name)
                with_time = paced(arms, known_paces)
            else:
                with_time = arms
            if with_time is None:
                timed = question_of_pace(ablation)
                untrained = [replace(arm, trained=False) for arm in arms]
                cells = filled(untrained, lambda arm: arm.cells(DECIDING[:1]))
                tables = [PlannedTable(name, timed, cells, "pacing")]
                plan.notes.append(f"{name}: its steps are timed first, then there is more to run")
            elif grids is None:
                arms = with_time
                known = choices(name, profile.name, results)
                draws = spent if trained else Spent(draws_of(ablation))
                asked_for = asked_for if trained else Scope(asked_for.arms or profile.untrained)
                found = _tables(plan, name, ablation, arms, draws, known, asked_for)
                tables = asked_for.narrowed(found, profile)
            elif name in grids:
                arms = with_time
                tried = filled(arms, lambda arm, grid=grids[name]: trials_of(arm, grid))  # type: ignore[misc]
                table = PlannedTable(name, ablation, tried, "tuning")
                (table,) = asked_for.narrowed([table], profile)
                kept = {freeze([cell.label, cell.across]) for cell in table.cells}
                arms = [arm for arm in arms if freeze([arm.label, arm.across]) in kept]
                tables = [replace(table, tried=arms)]
            else:
                tables = []
            own = {freeze([arm.label, arm.across, settings_of(arm)]) for arm in arms_before}
            used = [pace for key, pace in known_paces.items() if key in own]
            tables = [replace(table, paces=used) for table in tables]
            timing = _timing(profile)
            for table in tables:
                _check_metric(table.ablation, table.cells)
                for measure in filter(_is_timing, table.ablation.measures):
                    places(measure, table.ablation, timing)
        except ConfigError as error:
            problems |= dict.fromkeys(f"{name}: {problem}" for problem in error.problems)
            continue
        for table in tables:
            plan.tables[table.word] = table
            _want(plan, table)
        plan.notes += _doubts(tables)
    if problems:
        raise ConfigError(list(problems))
    return plan


def _doubts(tables: Sequence[PlannedTable]) -> list[str]:
    """What is probably not meant: one file in two places, a variant that is its control."""
    notes: dict[str, None] = {}
    for table in tables:
        if table.cells:
            notes |= dict.fromkeys(doubtful(table.cells[0].config["task"]))
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
    spent: Spent,
    known: Mapping[str, Choice],
    scope: Scope,
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
    word = PlannedTable(name, ablation, [], "tuned").word
    cells: list[Cell] = []
    for arm, choice in pairs:
        seeds = spent.of(word, arm.label, first)
        cells += arm.cells(seeds, "report", choice.chosen)
        if choice.runner_up is not None:
            cells += arm.cells(seeds, "runner-up", choice.runner_up)
    return [
        PlannedTable(name, ablation, fixed.cells, is_alone=False),
        PlannedTable(name, ablation, cells, "tuned", [c for _, c in pairs], is_alone=False),
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
    if cell.role == "tune":
        return []
    is_timed = table.arms in ("fixed", "pacing") and cell.seed == table.cells[0].seed
    return [name for name in table.ablation.measures if is_timed or not _is_timing(name)]


def is_trained(ablation: Ablation) -> bool:
    """Whether its models are trained: one that only counts, probes or times them needs no
    training."""
    from ablations.measure import Measure, discover

    parts = [discover().part(name, "measures") for name in ablation.measures]
    return not parts or any(issubclass(part, Measure) for part in parts)


def draws_of(ablation: Ablation) -> Sequence[int]:
    """The seeds of a question that trains nothing, at every profile: all where one of its numbers
    depends on the first weights, else one."""
    from ablations.measure import quantities_of

    read = quantities_of(ablation.measures).values()
    return DECIDING if any(each.repeats == "seeds" for each in read) else DECIDING[:1]


def metrics_of(ablation: Ablation, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """All that is read for a question: the task's scores, and what its measures read besides."""
    from ablations.measure import discover
    from ablations.tasks import TASK

    scores = TASK.part(cells[0].config["task"]["name"]).metrics
    told = {name: {**vars(each), "repeats": "seeds"} for name, each in scores.items()}
    read: dict[str, dict[str, Any]] = {}
    for measure in map(discover().part, ablation.measures):
        beside = {"beside": elsewhere} if (elsewhere := getattr(measure, "beside", {})) else {}
        read |= {name: {**vars(each), **beside} for name, each in measure.quantities.items()}
    return {**(told if is_trained(ablation) else {}), **read}


def _check_metric(ablation: Ablation, cells: Sequence[Cell]) -> None:
    metrics = metrics_of(ablation, cells)
    if ablation.metric not in metrics:
        raise ConfigError([f"metric: no '{ablation.metric}'. {nearest(ablation.metric, metrics)}"])


def _timing(profile: Profile) -> TimingConfig:
    from ablations.measure.timing import TimingConfig

    config: TimingConfig = validate(TimingConfig, profile.timing, "timing")
    return config


def _is_timing(measure: str) -> bool:
    from ablations.measure import is_timing

    return is_timing(measure)


def _want(plan: Plan, table: PlannedTable) -> None:
    timing = _timing(plan.profile)
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
            if _is_timing(measure):
                pair = (measure, controls[cell.seed, freeze(cell.across)])
                held = want.timings.setdefault(pair, [])
                held += [at for at in places(measure, table.ablation, timing) if at not in held]
            elif measure not in want.measures:
                want.measures.append(measure)
