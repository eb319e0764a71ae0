"""How long the analysis of a large sweep takes: loading, statistics and verdicts.

Records are generated at the size of real ones: a learning curve, scores, times of some trials.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from small import DATA, config, plan_document, trial_of

from ablations.store.predictions import prediction_of
from ablations.store.record import Reading, Record
from ablations.store.results import Results
from ablations.store.schema import seal
from ablations.store.stamp import ROOT, digest_of
from analysis.claims import SUPPORTED, verdicts
from analysis.evidence import gather
from analysis.load import load

LABELS = ("control", "none", "learned", "rotary", "alibi")
SEEDS = tuple(range(300, 305))
STEPS = range(20, 620, 20)
METRIC = {"better": "lower", "label": "errors", "unit": "edits"}
MEASURES = ["quality", "throughput"]
PREDICTED = [
    prediction_of({"word": "worse", "of": [of], "metric": "per", "than": LABELS[0]}).to_dict()
    for of in LABELS[1:3]
]
QUALITY = ("per", "wer", "per_any", "wer_any", "per_first", "wer_first")
CODE = ("model/norm.py", "model/attention.py", "model/block.py", "ablations/train/loop.py")


def curve(draw: random.Random, score: float) -> list[Reading]:
    """What a training leaves: loss, gradient and rate by step, and scores of two splits."""
    by_step = [
        Reading(metric, unit, score + draw.random() / step, split, {"step": step})
        for step in STEPS
        for metric, unit, split in (
            ("loss", "nats/token", "train"),
            ("gradient_norm", "1", None),
            ("rate", "1", None),
        )
    ]
    losses = [
        Reading("loss", "nats/token", score + 1 / step, "valid", {"step": step}, measure="quality")
        for step in list(STEPS)[::6]
    ]
    scored = [
        Reading(name, "edits", score, split, {"step": STEPS[-1]}, measure="quality")
        for name in (*QUALITY, *(f"trivial_{name}" for name in QUALITY))
        for split in ("valid", "test")
    ]
    for reading in scored:
        if reading.metric.startswith("trivial"):
            reading.value = 2.0
    return [*by_step, *losses, *scored]


def timed(draw: random.Random, against: str) -> list[Reading]:
    """Three processes of eight blocks."""
    return [
        Reading(
            "step_time",
            "s",
            at={"length": 16, "batch": 64, "pass": "training"},
            session=f"s.{process}",
            against=against,
            measure="throughput",
            **{
                name: [0.03 * (1 + 0.1 * draw.random()) for _ in range(8)]
                for name in ("samples", "reference", "twin")
            },
        )
        for process in range(3)
    ]


def sweep(root: Path, trials: int) -> Path:
    """So many trials of questions of five arms and five seeds, each with two claims."""
    results = Results(root)
    results.trials.mkdir(parents=True)
    draw = random.Random(0)
    made_by = {file: digest_of(ROOT / file) for file in CODE}
    env = {"code": made_by, "torch": "2", "numerics": "torch 2", "device": "cpu"}
    tables: dict[str, list[dict[str, Any]]] = {}
    for question in range(trials // (len(LABELS) * len(SEEDS))):
        cells = tables.setdefault(f"question {question}", [])
        for (place, label), seed in product(enumerate(LABELS), SEEDS):
            own = config(f"{label} {question}", seed)
            readings = curve(draw, 0.2 + 0.05 * place + 0.01 * draw.gauss(0, 1))
            if seed == SEEDS[0]:
                readings += timed(draw, trial_of(config(f"{LABELS[0]} {question}", seed)))
            record = Record(
                trial_of(own),
                "ok",
                own,
                parameters=241_066,
                flops_per_token=1.4e6,
                env=env,
                data=DATA,
                measures={"quality": made_by, "throughput": made_by},
                readings=readings,
                items={"per": [draw.randrange(3) for _ in range(200)]},
            )
            path = results.path(record.trial)
            path.write_bytes(seal(record.to_dict()))  # unsynced: only read here
            cell = {"label": label, "seed": seed, "trial": record.trial, "measures": MEASURES}
            cells.append({**cell, "settings": record.settings})
    claims = [
        {"id": str(i), "statement": "It does.", "source": "them", "predicts": [each], "require": []}
        for i, each in enumerate(PREDICTED)
    ]
    metrics = {"per": {**METRIC, "repeats": "seeds"}}
    metric = {"name": "per", "split": "test", **METRIC}
    results.write_plan(
        plan_document(tables, control=LABELS[0], claims=claims, metrics=metrics, metric=metric)
    )
    return root


def measured(benchmark: Any, work: Callable[[], Any], rounds: int) -> float:
    """The least CPU time of some rounds: others may be at work on the machine."""
    spent = []

    def timed_work() -> None:
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)

    benchmark.pedantic(timed_work, rounds=rounds)
    benchmark.extra_info["cpu_seconds"] = min(spent)
    return min(spent)


def test_a_thousand_trials_are_judged(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Aim: 10 s for loading, statistics and verdicts."""
    root = sweep(tmp_path / "run", 1000)

    def judge() -> None:
        evidence = gather(root)
        found = verdicts(evidence.loaded)
        assert len(found) == 2 * 40
        assert sum(each.verdict == SUPPORTED for each in found) > 40

    seconds = measured(benchmark, judge, rounds=2)
    with capsys.disabled():
        print(f"\n1,000 trials: loaded, compared and judged in {seconds:.2f} s of CPU")


def test_twenty_thousand_trials_load(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Aim: 30 s."""
    root = sweep(tmp_path / "run", 20_000)
    seconds = measured(benchmark, lambda: load(root), rounds=1)
    size = sum(path.stat().st_size for path in (root / "trials").iterdir())
    with capsys.disabled():
        print(f"\n20,000 trials, {size / 1e6:.0f} MB: loaded in {seconds:.2f} s of CPU")
