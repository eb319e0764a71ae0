"""Plans and records made up in memory, with a planted truth, as frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from small import plan_document

from ablations.store.predictions import prediction_of
from ablations.store.record import Measurement, Record
from analysis.claims import verdicts
from analysis.load import Loaded, crossing, tabulate

STEPS = 300
METRICS: dict[str, dict[str, Any]] = {
    "per": {"unit": "edits/phone", "better": "lower", "title": "errors", "repeats": "seeds"},
    "accuracy": {"unit": "1", "better": "higher", "title": "right", "repeats": "seeds"},
    "work": {"unit": "FLOP", "better": "lower", "title": "work", "repeats": "nothing"},
    "step_time": {"unit": "s", "better": "lower", "title": "time", "repeats": "processes"},
}


def says(word: str, *of: str, **fields: Any) -> dict[str, Any]:
    """A prediction as a plan holds it: of `b`, against the control `a`."""
    other = {"than": "a"} if word in ("better", "worse", "equal", "fails", "grows") else {}
    plain = {"kind": word, "variants": list(of or ("b",)), "metric": "per", **other, **fields}
    return prediction_of(plain).to_dict()


def at_end(metric: str, value: float, step: int = STEPS, **at: Any) -> Measurement:
    return Measurement(metric, "u", value, "test", {"step": step, **at})


class Planted:
    """A plan of questions with the records of their trials."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.records: dict[str, Record] = {}

    def question(
        self,
        *predicts: dict[str, Any],
        name: str = "q",
        labels: Sequence[str] = ("a", "b"),
        batches: Sequence[Sequence[int]] = ((300, 301, 302, 303, 304),),
        crossings: Sequence[dict[str, str]] = ({},),
        metric: str = "per",
        require: Sequence[dict[str, Any]] = (),
        **changes: Any,
    ) -> None:
        """One question that registers one claim; its first label is the control."""
        claim = {"id": f"{name}.claim", "statement": "It is.", "source": "them"}
        cells = [
            {
                **{"variant": label, "seed": seed, "factors": factors},
                "id": self._trial(name, label, seed, factors),
                "settings": self._record(name, label, seed, factors).settings,
            }
            for factors in crossings
            for label in labels
            for batch in batches
            for seed in batch
        ]
        entry = {
            **{"baseline": labels[0], "profile": "quick", "metrics": METRICS},
            "metric": {"name": metric, "split": "test", **METRICS[metric]},
            "claims": [{**claim, "predicts": list(predicts), "require": list(require)}],
            "seed_batches": [list(batch) for batch in batches],
            **changes,
        }
        self.entries |= plan_document({name: cells}, **entry)["experiments"]

    def record(
        self,
        label: str,
        seed: int,
        score: float | None = None,
        *measurements: Measurement,
        name: str = "q",
        factors: dict[str, str] | None = None,
        status: str = "ok",
        per_example: dict[str, list[float | None]] | None = None,
        seconds: float | None = None,
    ) -> None:
        """One trial; a score is that of the question's metric after the last step."""
        record = self._record(name, label, seed, factors or {})
        record.status = status
        record.reason = None if status == "ok" else "bad luck"
        record.per_example = per_example or {}
        record.env = {} if seconds is None else {"seconds": seconds}
        metric = self.entries[name]["metric"]["name"]
        record.measurements = [*([] if score is None else [at_end(metric, score)]), *measurements]
        self.records[record.id] = record

    def loaded(self) -> Loaded:
        plan = {"profile": "quick", "experiments": self.entries}
        return tabulate(Path("nowhere"), plan, self.records)

    def _trial(self, name: str, label: str, seed: int, factors: dict[str, str]) -> str:
        return f"{name}-{label}-{crossing(factors)}-{seed}"

    def _record(self, name: str, label: str, seed: int, factors: dict[str, str]) -> Record:
        config = {
            "task": {"name": "g2p"},
            "model": {"variant": label, "factors": factors},
            "train": {"steps": STEPS},
            "seed": seed,
        }
        trial = self._trial(name, label, seed, factors)
        return Record(trial, "ok", config, parameters=1000, data={"sha256": "0", "files": []})


def only(planted: Planted) -> SimpleNamespace:
    """The verdict of the one claim."""
    (found,) = verdicts(planted.loaded())
    findings = [SimpleNamespace(**each) for each in found.pop("findings")]
    return SimpleNamespace(**found, findings=findings)


def timed(
    ratio: float,
    spread: float = 0.01,
    twin: float = 0.01,
    processes: int = 3,
    session: str = "s1",
    **at: Any,
) -> list[Measurement]:
    """Times of 1 s beside a reference of 1 s, `ratio` as long, and a copy of the reference."""
    shifts = [(-1) ** process * process for process in range(processes)]
    return [
        Measurement(
            **{"metric": "step_time", "unit": "s", "coordinates": at or {"length": 8}},
            session=f"{session}.{process}",
            samples=[ratio * (1 + spread * shift)],
            baseline_samples=[1.0],
            baseline_again=[1 + twin * shift],
        )
        for process, shift in enumerate(shifts)
    ]
