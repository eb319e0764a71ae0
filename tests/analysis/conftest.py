"""Results folders made up through the real record, so that the analysis meets what it will meet."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablations.store.identity import decisive, identity
from ablations.store.predictions import prediction_of
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.store.schema import FAILED

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself

import labs
from small import plan_document

from analysis.contrasts import Evidence, gather

ENV = {
    "commit": "0f3c2d1",
    "dirty": False,
    "code": {},
    "torch": "2.13.0",
    "device": "cpu",
    "threads": 1,
    "started": "2026-01-02T03:04:05Z",
    "seconds": 41.2,
    "API_KEY": "hunter2",
}
LONG = "post-norm, as the paper of 2017 had it and few have it since"
PER = {"name": "per", "split": "valid", "better": "lower", "title": "phone error rate"}


def predicted(word: str, *of: str, **fields: Any) -> dict[str, Any]:
    """A prediction as a plan tells it."""
    known = {"metric": "per", "split": "valid"}
    return prediction_of({"kind": word, "variants": of, **known, **fields}).to_dict()


def claim(name: str, *predicts: dict[str, Any]) -> dict[str, Any]:
    words = {"id": name, "statement": "It matters.", "source": "V17"}
    return {**words, "predicts": list(predicts), "require": []}


class Folder:
    """A results folder under construction: ablations are planned, trials are recorded."""

    def __init__(self, root: Path) -> None:
        self.results = Results(root)
        self.configs: dict[str, dict[str, Any]] = {}  # label → model and train, where they matter
        self.data = "0"  # the digest of what it was trained on
        self.plan: dict[str, Any] = {"profile": "smoke", "experiments": {}}

    def claimed(self, name: str, word: str, *of: str, **fields: Any) -> dict[str, Any]:
        """A claim of one prediction, whose words are its name."""
        return {**claim(name, predicted(word, *of, **fields)), "statement": name, "source": name}

    @property
    def root(self) -> Path:
        return self.results.root

    def ablation(
        self,
        name: str,
        /,
        labels: Sequence[str],
        trained: bool = True,
        *,
        seeds: Sequence[int] = (0, 1, 2),
        crossings: Sequence[dict[str, str]] = ({},),
        metric: dict[str, Any] = PER,
        metrics: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Plan label × seed × crossing; the first label is the control unless told otherwise."""
        cells = [
            {
                **{"variant": label, "seed": seed, "factors": factors, "sources": ["quality"]},
                "id": self.trial(label, seed, factors, trained),
                "settings": self.described(label, seed, factors, trained).settings,
                "work": float(trained),
            }
            for factors in crossings
            for label in labels
            for seed in seeds
        ]
        entry = {
            **{"question": f"Does {name} matter?", "baseline": labels[0]},
            "held_constant": "width, depth, steps, data",
            "claims": [claim(f"{name}.matters", predicted("worse", labels[-1], than=labels[0]))],
            "metric": {"unit": "fraction", **metric},
            "metrics": {
                metric: {k: v for k, v in told.items() if k not in ("name", "split")}
                for metric, told in (metrics or {}).items()
            },
            **changes,
        }
        self.plan["experiments"] |= plan_document({name: cells}, **entry)["experiments"]
        self.results.write_plan(self.plan)

    def trial(
        self, label: str, seed: int, factors: dict[str, str] | None = None, trained: bool = True
    ) -> str:
        """Equal settings are one trial, whichever ablation asks."""
        return self.described(label, seed, factors, trained).id

    def described(
        self, label: str, seed: int, factors: dict[str, str] | None = None, trained: bool = True
    ) -> Record:
        """A record that says what it is, and nothing else."""
        held = self.configs.get(label, {"model": {"variant": label}, "train": {}})
        config = {"task": {"name": "g2p", "factors": factors or {}}, **held, "seed": seed}
        trial = identity(decisive(config, self.data, [], trained), seed)
        data = {"sha256": self.data, "files": []}
        return Record(trial, "ok", config, trained=trained, data=data)

    def record(
        self,
        label: str,
        seed: int,
        score: float | None = None,
        *,
        status: str = "ok",
        factors: dict[str, str] | None = None,
        measurements: Sequence[Measurement] = (),
        metric: str = "per",
        unit: str = "fraction",
        **fields: Any,
    ) -> None:
        """Write one record, with a learning curve that ends in the score."""
        curve = [] if score is None else [2.0 * score, 1.2 * score, score]
        quality = [
            Measurement(metric, unit, value, "valid", {"step": 100 * (step + 1)})
            for step, value in enumerate(curve)
        ]
        given: dict[str, Any] = {"parameters": 241066, "flops_per_token": 1.4e6, "env": ENV}
        given["reason"] = "bad luck" if status in FAILED else None
        given["sources"] = {"quality": {}}
        all_ = [*quality, *measurements]
        known = self.described(label, seed, factors, fields.pop("trained", True))
        self.results.write(replace(known, status=status, measurements=all_, **{**given, **fields}))

    def timing(
        self,
        ratio: float,
        noise: float = 0.01,
        blocks: int = 4,
        session: str = "s1",
        twin_noise: float = 0.01,
        baseline: str | None = None,
        processes: int = 3,
        metric: str = "step_time",
        seconds: float = 0.03,
        **at: float | str,
    ) -> list[Measurement]:
        """Times beside the control's in the same blocks, the machine slow in some of them."""
        draw = random.Random(f"{ratio}{session}{at}")
        place = at or {"length": 16, "batch": 64}
        measurements = []
        for process in range(processes):
            busy = [seconds * (1 + draw.random()) for _ in range(blocks)]
            own = [time * ratio * (1 + draw.gauss(0, noise)) for time in busy]
            twin = [time * (1 + draw.gauss(0, twin_noise)) for time in busy]
            place_of = {"session": f"{session}.{process}", "baseline": baseline}
            times = {"samples": own, "baseline_samples": busy, "baseline_again": twin}
            measurements.append(Measurement(metric, "s", coordinates=place, **place_of, **times))
        return measurements


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "run")


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """One sweep with all that a page, a table or a figure shows; nobody changes its records."""
    folder = build_sweep(tmp_path_factory.mktemp("sweep") / "run")
    labs.build(folder)
    return gather(folder.root)


@pytest.fixture(scope="session")
def every(evidence: Evidence) -> list[Any]:
    """Every panel of the sweep."""
    from analysis import plots

    return plots.panels(evidence)


@pytest.fixture(scope="session")
def shown(evidence: Evidence) -> Path:
    """Its page, among all that it links to; of each kind one figure is drawn, and the others are
    copies."""
    from analysis import plots, report

    drawn: dict[str, list[Path]] = {}

    def save_all(panels: Sequence[Any], folder: Path, jobs: int = 1) -> None:
        for panel in panels:
            first = drawn.setdefault(panel.kind, []) or plots.save(panel, folder)
            drawn[panel.kind] = first
            for path in first:
                copy = folder / f"{panel.name}{path.suffix}"
                if copy != path:
                    shutil.copy(path, copy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "save_all", save_all)
        *_, page = report.write(evidence)
    assert page == evidence.loaded.root / "report" / "index.html"
    return page


def build_sweep(root: Path) -> Folder:
    """A sweep as they really end: most of it well, some of it badly, some of it not yet."""
    folder = Folder(root)
    draw = random.Random(1)
    seeds = [0, 1, 2, 3, 4]
    luck = {seed: draw.gauss(0, 0.01) for seed in seeds}

    def score(mean: float, seed: int, noise: float = 0.004) -> float:
        return mean + luck[seed] + draw.gauss(0, noise)

    labels = ["sinusoidal", "none", "learned", "rotary", "alibi", "<img src=x onerror=alert(1)>"]
    folder.ablation(
        "position",
        labels,
        question="Does the model need to be told where a token stands?",
        changes="learned positions add max_len × d_model parameters",
        overrides=["model.n_heads=8"],
        seeds=seeds,
        claims=[
            {
                **claim("position.needed", predicted("worse", "none", than="sinusoidal", by=0.1)),
                "statement": "Without positions an encoder-decoder loses most of its quality",
                "source": "CS224N, UMass, MIT, STAT453",
            }
        ],
    )
    speed = {"sinusoidal": 1.0, "none": 0.97, "learned": 1.002, "rotary": 1.12, "alibi": 1.31}
    means = {"sinusoidal": 0.25, "none": 0.45, "learned": 0.251, "rotary": 0.235, "alibi": 0.262}
    for label in labels[:-1]:
        for seed in seeds:
            timed = folder.timing(speed[label]) if seed == 0 else []
            memory = Measurement(
                "peak_memory", "B", 2.0e8 * speed[label], coordinates={"length": 16, "batch": 64}
            )
            if label == "alibi" and seed == 4:
                folder.record(label, seed, status="diverged", reason="loss is NaN at step 120")
            else:
                measurements = [*timed, memory] if timed else []
                folder.record(label, seed, score(means[label], seed), measurements=measurements)
    for seed in seeds[:2]:
        folder.record(labels[-1], seed, score(0.3, seed))
    folder.results.path(folder.trial(labels[-1], 2)).write_text('{"schema": 1, "tri')

    folder.ablation(
        "norm",
        ["sinusoidal", LONG, "no norm", "sandwich"],
        question="Does it matter where the norm stands?",
        seeds=seeds,
    )
    for seed in seeds:
        diverged = {"status": "diverged", "reason": "loss 9.3 is above the untrained 6.1"}
        folder.record(LONG, seed, score(0.262, seed))
        folder.record("no norm", seed, **diverged)
        folder.record("sandwich", seed, score(0.2503, seed, 0.012))

    folder.ablation(
        "heads",
        ["8 heads", "1 head"],
        question="Are several heads better than one?",
        task="text",
        seeds=seeds,
        crossings=[{"data": "3k"}, {"data": "30k"}],
        metric={"name": "loss", "split": "valid", "better": "lower", "title": "loss"},
        metrics=labs.METRICS,
    )
    for seed in seeds:
        for size, gain in (("3k", 0.02), ("30k", 0.11)):
            plain = {"factors": {"data": size}, "metric": "loss", "unit": "nats/token"}
            base = 1.9 + draw.gauss(0, 0.02)
            folder.record("8 heads", seed, base, measurements=labs.probed(seed), **plain)
            looked = {"measurements": labs.probed(seed, 1.5)}
            folder.record("1 head", seed, base + gain + draw.gauss(0, 0.012), **looked, **plain)

    folder.ablation("scale", ["scaled", "raw"], question="Do scores need scaling?")
    return folder
