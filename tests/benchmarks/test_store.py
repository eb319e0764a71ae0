"""How long a finished sweep takes to be recognised: plan, identities, code, and every record.

Imports are done before; everything that a first call works out is forgotten before each round.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from small import question

from ablations.expand import Trial
from ablations.jobs import RunConfig, TrainingJob
from ablations.launch import Launcher
from ablations.plan import Plan, make_plan
from ablations.plan_document import merge_into
from ablations.runner import run
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.schema import encode
from ablations.worker import run_trials

VARIANTS = ("pre", "post", "sandwich", "parallel")
QUESTION = question(baseline=VARIANTS[0], variants={n: {"model.residual": n} for n in VARIANTS})


# A launcher that must not be asked for anything.
IDLE: Any = Mock(Launcher, capacity=1, events=lambda: iter(()))
IDLE.submit.side_effect = AssertionError


def planned(folder: Path, trials: int) -> Plan:
    file = folder / "norms.yaml"
    file.write_text(json.dumps(QUESTION))
    return make_plan([str(file)], "smoke", {}, list(range(trials // len(VARIANTS))))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """One smoke trial, trained and measured."""
    folder = tmp_path_factory.mktemp("real")
    plan, results = planned(folder, len(VARIANTS)), Results(folder / "out")
    merge_into(results, plan)
    trial = next(iter(plan.trials.values()))
    job = TrainingJob([trial], RunConfig(plan, results, "cpu", [])).job()
    assert job is not None
    record = Record.from_dict(run_trials(job.payload, lambda *_: None)[trial.id])
    assert len(record.measurements) > 20
    return record


def stored(record: Record, trial: Trial) -> bytes:
    """The same record as another trial's."""
    env = {**record.env, "code": trial.code}
    taken = {name: trial.source_code(name) for name in trial.sources}
    other = replace(record, id=trial.id, config=trial.config, env=env, sources=taken)
    return encode(other.to_dict())


def forget() -> None:
    """Whatever was worked out: data, shapes, fingerprints of code."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("ablations", "model"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def test_a_finished_sweep_is_recognised(
    benchmark: Any, real: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = 1_000
    results = Results(tmp_path / "out")
    results.trials.mkdir(parents=True)
    plan = planned(tmp_path, trials)
    for trial in plan.trials.values():
        results.path(trial.id).write_bytes(stored(real, trial))
    size = results.path(trial.id).stat().st_size
    run(RunConfig(planned(tmp_path, trials), results, "cpu"), IDLE)  # writes the plan
    spent = []

    def recognise() -> None:
        begun = time.process_time()
        assert run(RunConfig(planned(tmp_path, trials), results, "cpu"), IDLE).total() == 0
        spent.append(time.process_time() - begun)

    benchmark.pedantic(recognise, setup=forget, rounds=3)
    begun = time.process_time()
    for name in plan.trials:
        assert results.read(name) is not None
    each = (time.process_time() - begun) / trials
    benchmark.extra_info.update(record_bytes=size, cpu_seconds=min(spent), read_seconds=each)
    with capsys.disabled():
        print(f"\n{trials:,} records of {len(real.measurements)} measurements, {size / 1e3:.0f} kB")
        if benchmark.stats:
            print(f"  recognised in {benchmark.stats.stats.min:.2f} s ({min(spent):.2f} s of CPU);")
        print(f"  {each * 1e6:.0f} µs of CPU to read a record")
