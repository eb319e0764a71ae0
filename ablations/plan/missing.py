"""What a results folder still lacks of a plan. Asking changes nothing in the folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ablations.plan.wanted import Plan, Want
from ablations.store.identity import canonical_json
from ablations.store.record import TRAINED, Record
from ablations.store.results import Results
from ablations.store.schema import NewerRecordError, RecordError

if TYPE_CHECKING:
    from ablations.measurement import Place


Timings = dict[tuple[str, str], "list[Place]"]
"""(measure, reference trial) → where."""


@dataclass
class Missing:
    """What is to be done, and what is found on the way."""

    train: list[Want] = field(default_factory=list)
    measure: list[tuple[Want, Record]] = field(default_factory=list)
    """Trained already; measures that are lacking, or that other code has taken."""
    untimed: dict[str, Timings] = field(default_factory=dict)
    """Trial → timings, of those that are trained."""
    stale: list[Want] = field(default_factory=list)
    failed: list[Want] = field(default_factory=list)
    unusable: dict[str, RecordError] = field(default_factory=dict)
    """Trial → what is wrong with its record; it is run again."""

    @property
    def work(self) -> list[Want]:
        """What a worker has to train, or only to measure."""
        return [*self.train, *(want for want, _ in self.measure)]

    @property
    def timings(self) -> dict[str, Timings]:
        """Trial → what is to be timed, once the work is done."""
        return self.untimed | {want.id: want.timings for want in self.work}

    @property
    def is_nothing(self) -> bool:
        return not (self.train or self.measure or self.untimed)


def missing(plan: Plan, results: Results, rerun: str | None) -> Missing:
    """Compare the plan with the records; only those of newer code are an error."""
    found = Missing()
    for want in plan.wanted.values():
        try:
            _compare(want, plan.wanted, results, rerun, found)
        except NewerRecordError:
            raise
        except RecordError as error:
            found.unusable[want.id] = error
            found.train.append(want)
    return found


def _compare(
    want: Want, wanted: Mapping[str, Want], results: Results, rerun: str | None, found: Missing
) -> None:
    head = results.read(want.id)
    if head is None:
        found.train.append(want)
        return
    is_failed = head.status not in TRAINED
    is_stale = head.env.get("code") != want.code
    owed = [] if is_failed else owed_measures(want, head)
    is_lacking = any(name not in head.sources for name in owed)
    can_measure = bool(owed) and (not needs_weights(owed) or _has_weights(head, results))
    record = results.read(want.id) if can_measure else None  # it may be unusable
    found.stale += [want] if is_stale or (owed and not is_lacking and not can_measure) else []
    found.failed += [want] if is_failed else []
    is_cut = is_failed and bool(head.env.get("again"))  # a sweep ended before its next try
    if is_cut or (rerun == "stale" and want in found.stale) or (rerun == "failed" and is_failed):
        found.train.append(want)
    elif record is not None:
        found.measure.append((want, record))
    elif is_lacking:
        found.train.append(want)
    elif pairs := untimed(want, head, wanted):
        found.untimed[want.id] = pairs


def owed_measures(want: Want, head: Record) -> list[str]:
    """Measures that a trial's record lacks, or that other code has taken than would take them now.

    A trial that other code has trained is stale as a whole, and nothing more is taken of it: its
    weights with the model of now would be a third thing.
    """
    if head.env.get("code") != want.code:
        return []
    return [name for name in want.sources if head.sources.get(name) != want.measure_code(name)]


def needs_weights(measures: Iterable[str]) -> bool:
    """Whether one of these is taken from a trained model."""
    from ablations.measurement import is_probe

    return not all(map(is_probe, measures))


def _has_weights(head: Record, results: Results) -> bool:
    """Whether the weights behind a record are there: a retraining that was cut leaves others."""
    from ablations.train.checkpoint import stamp_for, stamp_of

    return stamp_of(results.weights(head.id)) == stamp_for(head)


def untimed(want: Want, record: Record | None, wanted: Mapping[str, Want]) -> Timings:
    """The timings that a trial's record lacks, or that other code has taken.

    A ratio is of two models: it is out of date too where the reference's code has changed.
    """
    if record is None or record.status not in TRAINED or record.env.get("code") != want.code:
        return {}
    found = {}
    for (measure, reference), places in want.timings.items():
        is_valid = record.sources.get(measure) == want.measure_code(measure) and is_beside(
            record, measure, wanted.get(reference), reference
        )
        held = {at for *pair, at in record.timed if pair == [measure, reference]}
        if lacking := [at for at in places if not is_valid or canonical_json(at) not in held]:
            found[measure, reference] = lacking
    return found


def is_beside(record: Record, measure: str, reference: Want | None, trial: str) -> bool:
    """Whether the last session beside a reference has timed it as it is now."""
    sessions = record.env.get("sessions", {}).values()
    held = [s for s in sessions if (s.get("source"), s.get("baseline")) == (measure, trial)]
    if reference is None or not held:
        return reference is None
    timed = held[-1].get("code") or {}
    return all(timed.get(file) == digest for file, digest in reference.code.items())
