"""What would run: every trial that the asked questions need, each once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablations.expand import (
    Ablation,
    Cell,
    Profile,
    code,
    count,
    expand,
    find,
    freeze,
    load_task,
    parameters,
    read_ablation,
    read_profile,
    size,
)
from ablations.record import SCHEMA, TRAINED, Head, NewerRecordError, Record, RecordError, Results
from model.config import ConfigError, nearest, validate

LARGE = 20_000  # trials; whoever wants more says so


@dataclass
class Want:
    """One trial and all that is wanted of it."""

    trial: str
    config: dict[str, Any]
    title: str
    frozen: Mapping[str, str]  # the config's sections, each as one text
    measures: list[str] = field(default_factory=list)  # taken from the trained model
    timings: list[tuple[str, str]] = field(default_factory=list)  # (measure, reference trial)

    @property
    def counts(self) -> dict[str, float]:
        return count(self.frozen["model"], self.frozen["task"])

    @property
    def code(self) -> str:
        return code(*(self.frozen[part] for part in ("model", "task", "train")))

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
    seeds: list[int]
    ablations: dict[str, tuple[Ablation, list[Cell]]]
    wanted: dict[str, Want]

    def document(self) -> dict[str, Any]:
        """What plan.json says of these ablations; enough to read the results without the YAML."""
        return {name: self._entry(*both) for name, both in self.ablations.items()}

    def _entry(self, ablation: Ablation, cells: Sequence[Cell]) -> dict[str, Any]:
        metric = load_task(freeze(cells[0].config["task"])).metrics[ablation.metric]
        return {
            "question": ablation.question,
            "task": ablation.task,
            "control": ablation.control,
            "fixed": ablation.fixed,
            "moves": ablation.moves,
            "claims": ablation.claims,
            "overrides": [f"{path}={json.dumps(value)}" for path, value in self.overrides.items()],
            "metric": {"name": ablation.metric, "split": "test", **vars(metric)},
            "fingerprint": _fingerprint(cells),
            "seeds": self.seeds,
            "cells": [
                {
                    "label": cell.label,
                    "seed": cell.seed,
                    "across": cell.across,
                    "trial": cell.trial,
                    "measures": _measures_of(ablation, cell, self.seeds),
                    "code": self.wanted[cell.trial].code,
                    "work": self.wanted[cell.trial].work,
                }
                for cell in cells
            ],
        }


def make_plan(
    words: Sequence[str],
    profile_name: str,
    overrides: Mapping[str, Any],
    seeds: list[int] | None,
    large: bool = False,
) -> Plan:
    """ConfigError lists every problem of every ablation before anything runs."""
    named = [find(word) for word in words]
    profile = read_profile(profile_name)
    paths: dict[str, Any] = {}
    for name, path in named:
        if paths.setdefault(name, path) != path:
            raise ConfigError([f"{paths[name]} and {path} have one name: rename one"])
    chosen = profile.seeds if seeds is None else seeds
    read = {name: read_ablation(path) for name, path in named}
    if not large:
        _refuse_large({name: size(ablation, chosen) for name, (ablation, _) in read.items()})
    plan = Plan(profile, dict(overrides), chosen, {}, {})
    problems: dict[str, None] = {}
    for name, (ablation, source) in read.items():
        try:
            cells = expand(ablation, source, profile, overrides, chosen)
            _check_measures(ablation, cells)
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


def _fingerprint(cells: Sequence[Cell]) -> str:
    """One word for all that decides the numbers of an ablation's table but the seeds."""
    settings = {(cell.label, freeze(cell.across), cell.settings) for cell in cells}
    return hashlib.sha256(freeze(sorted(settings)).encode()).hexdigest()[:12]


def _measures_of(ablation: Ablation, cell: Cell, seeds: Sequence[int]) -> list[str]:
    """Speed does not depend on the seed, so the first one is timed for all."""
    from ablations.measure import is_timing

    return [name for name in ablation.measures if cell.seed == seeds[0] or not is_timing(name)]


def _check_measures(ablation: Ablation, cells: Sequence[Cell]) -> None:
    from ablations.measure import discover

    for name in ablation.measures:
        discover().part(name, "measures")
    metrics = load_task(freeze(cells[0].config["task"])).metrics
    if ablation.metric not in metrics:
        raise ConfigError([f"metric: no '{ablation.metric}'. {nearest(ablation.metric, metrics)}"])


def _check_timing(profile: Profile) -> None:
    from ablations.timing import TimingConfig

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
        want = plan.wanted.setdefault(cell.trial, Want(cell.trial, cell.config, title, cell.frozen))
        for measure in _measures_of(ablation, cell, plan.seeds):
            if is_timing(measure):
                pair = (measure, controls[cell.seed, freeze(cell.across)])
                want.timings += [pair] if pair not in want.timings else []
            elif measure not in want.measures:
                want.measures.append(measure)


def merge_into(results: Results, plan: Plan) -> None:
    """Write the plan beside what was planned here earlier.

    Ablations of other names stay. So do the cells of other seeds of an ablation that is otherwise
    the same; where anything else differs it is planned anew, for one table must not mix settings.
    """
    earlier = results.read_plan() if results.plan_file.exists() else {"ablations": {}}
    document = json.loads(json.dumps(plan.document()))  # as it will be read
    try:
        before = dict(earlier["ablations"].items())
        now = {name: _unite(before.get(name, {}), entry) for name, entry in document.items()}
    except (AttributeError, KeyError, TypeError):
        raise results.misshapen() from None
    head = {"schema": SCHEMA, "profile": plan.profile.name}
    merged = {**head, "ablations": {**before, **now}}
    if merged != earlier:
        results.write_plan(merged)


def _unite(earlier: Mapping[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """An entry of plan.json with the cells of both, if they differ in their seeds alone."""

    def rest(entry: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key not in ("seeds", "cells")}

    def place(cell: Mapping[str, Any]) -> tuple[str, str]:
        return cell["label"], freeze(cell["across"])

    if rest(earlier) != rest(now):
        return now
    twins = {place(cell): cell for cell in now["cells"]}  # which another seed alone sets apart
    order = {each: index for index, each in enumerate(twins)}
    cells = {(*place(cell), cell["seed"]): cell for cell in now["cells"]}
    for cell in earlier["cells"]:
        # Its code and size are those of its twin: a record made by code of then is stale now.
        twin = twins[place(cell)]
        kept = {**cell, "code": twin["code"], "work": twin["work"]}
        cells.setdefault((*place(cell), cell["seed"]), kept)
    if len(cells) == len(now["cells"]):
        return now
    united = sorted(cells.values(), key=lambda cell: (order[place(cell)], cell["seed"]))
    return {**now, "seeds": sorted({cell["seed"] for cell in united}), "cells": united}


@dataclass
class Missing:
    """What a results folder still lacks of a plan."""

    train: list[Want] = field(default_factory=list)
    measure: list[tuple[Want, Record]] = field(default_factory=list)
    untimed: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Trial → timings, of those that are trained."""
    stale: list[Want] = field(default_factory=list)
    failed: list[Want] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)

    @property
    def work(self) -> list[Want]:
        """What a worker has to train, or only to measure."""
        return [*self.train, *(want for want, _ in self.measure)]

    @property
    def timings(self) -> dict[str, list[tuple[str, str]]]:
        """Trial → what is to be timed, once the work is done."""
        return self.untimed | {want.trial: want.timings for want in self.work}


def missing(
    plan: Plan, results: Results, rerun: str | None, dry: bool = False, check: bool = True
) -> Missing:
    """Compare the plan with the records; an unusable record is set aside and run again.

    Unless this is only a look (`dry`) or not to be checked, OSError where something is lacking and
    cannot be kept.
    """
    found = Missing()
    for want in plan.wanted.values():
        try:
            _compare(want, results, rerun, found)
        except NewerRecordError:
            raise
        except RecordError as error:
            where = "" if dry else f"; kept as {results.set_aside(want.trial).name}"
            found.set_aside.append(f"{error}{where}")
            found.train.append(want)
    if check and not dry and (found.train or found.measure or found.untimed):
        results.check_writable()
    return found


def _compare(want: Want, results: Results, rerun: str | None, found: Missing) -> None:
    head = results.head(want.trial)
    if head is None:
        found.train.append(want)
        return
    is_stale = head.env.get("code") != want.code
    is_failed = head.status not in TRAINED
    lacks = not is_failed and bool(set(want.measures) - set(head.measures))
    record = None
    if lacks and _has_weights(head, results):
        record = results.read(want.trial)  # before it is counted: it may be unusable
    found.stale += [want] if is_stale else []
    found.failed += [want] if is_failed else []
    is_cut = is_failed and bool(head.env.get("again"))  # a sweep ended before its next try
    if is_cut or (rerun == "stale" and is_stale) or (rerun == "failed" and is_failed):
        found.train.append(want)
    elif record is not None:
        found.measure.append((want, record))
    elif lacks:
        found.train.append(want)
    elif pairs := untimed(want, head):
        found.untimed[want.trial] = pairs


def _has_weights(head: Head, results: Results) -> bool:
    """Whether the weights behind a record are there: a retraining that was cut leaves others."""
    from ablations.weights import stamp_for, stamp_of

    return stamp_of(results.checkpoint(head.trial)) == stamp_for(head)


def untimed(want: Want, record: Record | Head | None) -> list[tuple[str, str]]:
    """The timings that a trial's record still lacks."""
    if record is None or record.status not in TRAINED or not want.timings:
        return []
    from ablations.measure import discover

    return [
        (measure, reference)
        for measure, reference in want.timings
        if (discover().part(measure).metric, reference) not in record.timed
    ]
