"""A small question, of which a trial trains in no time; a plan without one; a pickle that tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ablations.store.identity import decisive, identity
from ablations.store.record import Record
from ablations.store.results import Results

SETTINGS = {
    "task.words": 200,
    "task.valid_words": 40,
    "task.test_words": 40,
    "model.d_model": 16,
    "model.depth": 1,
    "train.steps": 4,
    "train.batch_tokens": 256,
    "train.micro_batches": 1,
    "train.schedule": {"name": "linear", "warmup": 2},
    "train.evaluations": 2,
}


def question(sources: Sequence[str] = ("quality",), **changes: Any) -> dict[str, Any]:
    """An experiment's YAML; its sources are listed by their kinds."""
    return {
        "question": "Does the model need positions?",
        "task": "g2p",
        "held_constant": "all else",
        "changes": "nothing",
        "metric": "per",
        **_by_kind(sources),
        "baseline": "with",
        "variants": {"with": {}, "without": {"model.position": "none"}},
        "settings": SETTINGS,
        **changes,
    }


def _by_kind(sources: Sequence[str]) -> dict[str, Any]:
    if not sources or tuple(sources) == ("quality",):
        return {"evaluations": [*sources]}
    from ablations.measurement import Benchmark, Probe, discover

    found: dict[str, Any] = {"evaluations": [], "probes": [], "benchmarks": {}}
    for name in sources:
        kind = discover().components.get(name, object)
        if issubclass(kind, Benchmark):
            found["benchmarks"][name] = {}
        else:
            found["probes" if issubclass(kind, Probe) else "evaluations"].append(name)
    return found


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


DATA: dict[str, Any] = {"sha256": "0", "files": []}


def config(label: str = "with", seed: int = 0) -> dict[str, Any]:
    """Settings that say which cell they are of, and no more."""
    return {"task": {"name": "g2p"}, "model": {"variant": label}, "train": {}, "seed": seed}


def trial_of(config: Mapping[str, Any]) -> str:
    """The id of a trained trial with these settings and `DATA`."""
    return identity(decisive(config, DATA["sha256"], DATA["files"]), config["seed"])


def plan_document(
    tables: Mapping[str, Sequence[Mapping[str, Any]]], **entry: Any
) -> dict[str, Any]:
    """A plan of the shape that plan.json has, with these cells; what they leave out is plain."""
    return {
        "profile": "smoke",
        "experiments": {
            name: {
                "name": name,
                "question": "Does it matter?",
                "task": "g2p",
                "baseline": "with",
                "held_constant": "all else",
                "changes": "nothing",
                "claims": [],
                "tuning": [],
                "grid": {},
                "overrides": [],
                "profile": "smoke",
                "metric": {"name": "per", "split": "valid", "unit": "edits/phone",
                           "better": "lower", "title": "phone error rate", "repeats": "seeds",
                           "matters": None},
                "metrics": {},
                "seed_batches": [sorted({cell.get("seed", 0) for cell in cells})],
                "trials": [_cell(cell) for cell in cells],
                **entry,
            }
            for name, cells in tables.items()
        },
    }  # fmt: skip


def _cell(given: Mapping[str, Any]) -> dict[str, Any]:
    cell = {"variant": "with", "seed": 0, "factors": {}, "tuned": {},
            "sources": [], "work": 1.0}  # fmt: skip
    cell |= given
    known = Record("0", "ok", config(cell["variant"], cell["seed"]), data=DATA)
    return {"settings": known.settings, **cell}


def held(results: Results, trial: str) -> Record:
    """A record that must be there."""
    record = results.read(trial)
    assert record is not None
    return record


def facts(results: Results) -> dict[str, Any]:
    """Ids, statuses, attempts, numbers: what must not depend on how or where a sweep ran."""
    found = {}
    for path in results.trials.glob("*.json"):
        record = held(results, path.stem)
        numbers = [(r.metric, r.split, r.coordinates, r.value) for r in record.measurements]
        found[record.id] = record.status, record.attempts, sorted(record.sources), numbers
    return found
