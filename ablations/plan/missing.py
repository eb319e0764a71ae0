"""What a results folder still lacks of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from ablations.plan.wanted import Plan, Want
from ablations.store.record import TRAINED, Head, NewerRecordError, Record, RecordError
from ablations.store.results import Results


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
    from ablations.train.weights import stamp_for, stamp_of

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
