"""Finds what a results folder lacks of a plan. Changes nothing in the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ablations.expand import Timings, Trial
from ablations.measurement import needs_weights
from ablations.plan import Plan
from ablations.store.identity import canonical_json
from ablations.store.record import TRAINED, Record, is_stale
from ablations.store.results import Results
from ablations.store.schema import NewerRecordError, RecordError


@dataclass
class Missing:
    """The work that is left, and the records that need attention."""

    train: list[Trial] = field(default_factory=list)
    measure: list[tuple[Trial, Record]] = field(default_factory=list)
    """Trained, but a source is missing or its code has changed."""
    untimed: dict[str, Timings] = field(default_factory=dict)
    """Trained trial → timings."""
    stale: list[Trial] = field(default_factory=list)
    failed: list[Trial] = field(default_factory=list)
    unusable: dict[str, RecordError] = field(default_factory=dict)
    """Trial → what is wrong with its record; it is run again."""

    @property
    def work(self) -> list[Trial]:
        """The trials that a worker has to train or measure."""
        return [*self.train, *(trial for trial, _ in self.measure)]

    @property
    def timings(self) -> dict[str, Timings]:
        """Trial → timings that will be missing once the work is done."""
        return self.untimed | {trial.id: trial.timings for trial in self.work}


def missing(plan: Plan, results: Results, rerun: str | None) -> Missing:
    """Compare the plan with the records; only those of newer code are an error."""
    found = Missing()
    for trial in plan.trials.values():
        try:
            _compare(trial, plan.trials, results, rerun, found)
        except NewerRecordError:
            raise
        except RecordError as error:
            found.unusable[trial.id] = error
            found.train.append(trial)
    return found


def _compare(
    trial: Trial, trials: Mapping[str, Trial], results: Results, rerun: str | None, found: Missing
) -> None:
    record = results.read(trial.id)
    if record is None:
        found.train.append(trial)
        return
    is_failed = record.status not in TRAINED
    sources = [] if is_failed else missing_sources(trial, record)
    is_lacking = any(name not in record.sources for name in sources)
    can_measure = bool(sources) and (not needs_weights(sources) or _has_weights(record, results))
    is_old = is_stale(record, ()) or (bool(sources) and not is_lacking and not can_measure)
    found.stale += [trial] if is_old else []
    found.failed += [trial] if is_failed else []
    is_cut = is_failed and bool(record.env.get("again"))  # a run ended before its next try
    if is_cut or (rerun == "stale" and is_old) or (rerun == "failed" and is_failed):
        found.train.append(trial)
    elif can_measure:
        found.measure.append((trial, record))
    elif is_lacking:
        found.train.append(trial)
    elif pairs := untimed(trial, record, trials):
        found.untimed[trial.id] = pairs


def missing_sources(trial: Trial, record: Record) -> list[str]:
    """Sources that a record lacks, or whose code has changed.

    If the training code changed, the record is stale: its weights are not evaluated with new code.
    """
    if is_stale(record, ()):
        return []
    return [name for name in trial.sources if not _is_taken(record, name)]


def _is_taken(record: Record, source: str) -> bool:
    return source in record.sources and not is_stale(record, [source])


def _has_weights(record: Record, results: Results) -> bool:
    """Whether the weights behind a record are there: a retraining that was cut leaves others."""
    from ablations.train.checkpoint import stamp_for, stamp_of

    return stamp_of(results.weights(record.id)) == stamp_for(record)


def untimed(trial: Trial, record: Record | None, trials: Mapping[str, Trial]) -> Timings:
    """The timings that a record lacks, or that were taken with other code of either model."""
    if record is None or record.status not in TRAINED or is_stale(record, ()):
        return {}
    found = {}
    for (benchmark, baseline), where in trial.timings.items():
        is_valid = _is_taken(record, benchmark)
        is_valid = is_valid and is_timed_with(record, benchmark, baseline, trials.get(baseline))
        held = record.timed(benchmark, baseline) if is_valid else ()
        if lacking := [at for at in where if canonical_json(at) not in held]:
            found[benchmark, baseline] = lacking
    return found


def is_timed_with(record: Record, benchmark: str, baseline: str, trial: Trial | None) -> bool:
    """Whether the last session with this baseline timed its present code; `trial` is the
    baseline's, None if it is not planned."""
    sessions = record.env.get("sessions", {}).values()
    held = [s for s in sessions if (s.get("source"), s.get("baseline")) == (benchmark, baseline)]
    if trial is None or not held:
        return trial is None
    timed = held[-1].get("code") or {}
    return all(timed.get(file) == digest for file, digest in trial.code.items())
