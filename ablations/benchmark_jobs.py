"""The benchmark jobs of a run: one timing session for each baseline, alone on the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ablations.expand import Timings
from ablations.jobs import TIMING, Ended, Holds, RunConfig
from ablations.launch import Job, Outcome
from ablations.missing import is_timed_with, untimed
from ablations.store.identity import canonical_json
from ablations.store.record import Measurement, Record

if TYPE_CHECKING:
    from ablations.measurement import Place


class BenchmarkJob:
    """One timing session: a baseline and the trials that have not been timed with it.

    It leases the trials and the whole machine.
    """

    def __init__(
        self, measure: str, baseline: str, trials: Iterable[str], config: RunConfig
    ) -> None:
        self.id = self.settings = f"{measure}:{baseline}"
        self._measure, self._baseline = measure, config.plan.trials[baseline]
        self.trials, self._config = list(trials), config
        self.trained = self._baseline.trained
        self.title = f"{measure} of {len(self.trials)} with {self._baseline.title}"
        self.leases = (self.id, TIMING, *self.trials)

    def job(self) -> Job | None:
        config, wanted = self._config, self._config.plan.trials
        untimed_at = {name: self._untimed(name, config.results.read(name)) for name in self.trials}
        candidates = {name: wanted[name].config for name in self.trials if untimed_at[name]}
        if not candidates:
            return None
        # Every trial is timed at all places that any of them lacks, so that they can be compared.
        places = {canonical_json(at): dict(at) for each in untimed_at.values() for at in each}
        timed = [wanted[name] for name in (self._baseline.id, *candidates)]
        payload = {
            **config.payload,
            "measure": self._measure,
            "code": self._baseline.source_code(self._measure),
            "models": {file: digest for each in timed for file, digest in each.code.items()},
            "baseline": self._baseline.id,
            "baseline_config": self._baseline.config,
            "candidates": candidates,
            "untrained": [each.id for each in timed if not each.trained],
            "places": list(places.values()),
            "timing": config.plan.profile.timing,
        }
        return Job(
            self.id,
            "ablations.worker:run_benchmark",
            payload,
            seconds=config.limit,
            accelerators=config.accelerators,
            alone=True,
            reads=self._baseline.files,
        )

    def save(self, outcome: Outcome, holds: Holds, again: bool = False) -> list[Ended]:
        """Write the times, or the reason for a failure, into the record of each leased trial."""
        status, reason = outcome.status, outcome.reason or ""
        for name in self.trials:
            record = self._config.results.read(name)
            if record is None or not self._untimed(name, record) or not holds(name):
                continue
            own, why = outcome.status, outcome.reason or ""
            try:
                if outcome.value is not None:
                    record, own = self._timed(record, outcome.value), "done"
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                own, why = status, reason = "error", f"no measurements: {error!r}"
            if own != "done":
                record.failures[self._measure] = f"{own} ({why})"
            self._config.results.write(record)
        if status == "done":
            found = [m for each in outcome.value["measurements"].values() for m in each]
            missed = [measurement.get("reason") for measurement in found]
            status = "timed"
            if None not in missed:
                why = next(iter(missed), "no candidate")
                status, reason = "error", f"nothing could be timed: {why}"
        return [Ended(self.id, self.title, status, outcome.seconds, reason)]

    def _untimed(self, trial: str, record: Record | None) -> Sequence[Place]:
        """The places at which a trial has not been timed with the baseline."""
        wanted = self._config.plan.trials
        pair = self._measure, self._baseline.id
        return untimed(wanted[trial], record, wanted).get(pair, ())

    def _timed(self, record: Record, taken: dict[str, Any]) -> Record:
        """The record with the new times of its trial."""
        against = self._baseline.id
        measurements = [
            Measurement(**measurement) for measurement in taken["measurements"][record.id]
        ]
        for measurement in measurements:
            process = "" if measurement.session is None else f".{measurement.session}"
            measurement.session, measurement.baseline = f"{taken['session']}{process}", against
        made_by = self._config.plan.trials[record.id].source_code(self._measure)
        if record.sources.get(self._measure) == made_by:
            taken_now = {canonical_json(measurement.coordinates) for measurement in measurements}
            # Keep times with other baselines; and at other places, if the baseline's code is equal.
            is_current = is_timed_with(record, self._measure, against, self._baseline)
            measurements += [
                each
                for each in record.measurements
                if each.source == self._measure
                and (
                    each.baseline != against
                    or (is_current and canonical_json(each.coordinates) not in taken_now)
                )
            ]
        session = taken["env"] | {"source": self._measure, "baseline": against}
        sessions = {**record.env.get("sessions", {}), taken["session"]: session}
        timed = replace(record, env={**record.env, "sessions": sessions})
        timed.take(self._measure, made_by, measurements)
        return Record.from_dict(timed.to_dict())


def benchmarks(lacks: Mapping[str, Timings], config: RunConfig) -> list[BenchmarkJob]:
    """A job for each benchmark and baseline with which some trials have not been timed."""
    groups: dict[tuple[str, str], list[str]] = {}
    for trial, pairs in lacks.items():
        for pair in pairs:
            groups.setdefault(pair, []).append(trial)
    return [BenchmarkJob(*pair, trials, config) for pair, trials in groups.items()]
