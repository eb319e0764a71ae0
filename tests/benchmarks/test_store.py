"""How long a finished sweep takes to be recognised: plan, identities, code, and every record.

Imports are done before; everything that a first call works out is forgotten before each round.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ablations.plan.document import merge_into
from ablations.plan.wanted import Plan, Want, make_plan
from ablations.store.record import Reading, Record
from ablations.store.results import Results
from ablations.store.schema import seal, vouched
from ablations.sweep.jobs import Setting, TrialPiece
from ablations.sweep.launch import Event, Job
from ablations.sweep.runner import run
from ablations.sweep.worker import run_trial

VARIANTS = ("pre", "post", "sandwich", "parallel")
QUESTION = {
    "question": "Where does the norm stand?",
    "task": "g2p",
    "fixed": "all else",
    "moves": "nothing",
    "metric": "per",
    "measures": ["quality", "throughput"],
    "control": VARIANTS[0],
    "variants": {name: {"model.residual": name} for name in VARIANTS},
}


class Idle:
    """A launcher that must not be asked for anything."""

    capacity = 1

    def submit(self, job: Job) -> None:
        raise AssertionError(f"{job.id} was to be run")

    def events(self) -> Iterator[Event]:
        return iter(())

    def cancel(self, job_id: str | None = None) -> None: ...

    def close(self) -> None: ...


def planned(folder: Path, trials: int) -> Plan:
    file = folder / "norms.yaml"
    file.write_text(json.dumps(QUESTION))
    return make_plan([str(file)], "smoke", {}, list(range(trials // len(VARIANTS))))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """One smoke trial, trained and measured, with times as a session leaves them."""
    folder = tmp_path_factory.mktemp("real")
    plan, results = planned(folder, len(VARIANTS)), Results(folder / "out")
    merge_into(results, plan)
    job = TrialPiece(next(iter(plan.wanted.values())), Setting(plan, results, "cpu", [])).job()
    assert job is not None
    record = Record.from_dict(run_trial(job.payload, lambda *_: None))
    assert len(record.readings) > 200
    return record


def stored(record: Record, want: Want, plan: Plan) -> bytes:
    """The same record under another trial's name, without putting its readings together anew."""
    record.trial, record.config, record.env["code"] = want.trial, want.config, want.code
    record.env["sessions"] = {
        str(index): {"measure": measure, "against": against, "code": plan.wanted[against].code}
        for index, (measure, against) in enumerate(want.timings)
    }
    plain = record.to_dict()
    taken = [*want.measures, *(measure for measure, _ in want.timings)]
    plain["measures"] = {name: want.measure_code(name) for name in taken}
    head = seal({**plain, "readings": []}).rpartition(b"\n\n")[0].partition(b"\n")[2]
    samples = [1 / 3] * 8
    times = [
        vars(
            Reading(
                "step_time",
                "s",
                at=dict(at),
                samples=samples,
                reference=samples,
                against=against,
                measure=measure,
            )
        )
        for (measure, against), places in want.timings.items()
        for at in places
    ]
    lines = [json.dumps({k: v for k, v in reading.items() if v}).encode() for reading in times]
    rest = b"\n".join([head, b",\n".join([*lines, _lines(record)]), b"]}", b""])
    return vouched(record.schema, rest)


def _lines(record: Record, known: dict[int, bytes] = {}) -> bytes:  # noqa: B006 (made once)
    if id(record) not in known:
        whole = seal(record.to_dict())
        known[id(record)] = whole.partition(b'"readings": [\n')[2].rpartition(b"\n]}")[0]
    return known[id(record)]


def forget() -> None:
    """Whatever was worked out: data, shapes, fingerprints of code."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("ablations", "model"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@pytest.mark.parametrize("trials", [1_000, 20_000])
def test_a_finished_sweep_is_recognised(
    benchmark: Any, real: Record, trials: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results(tmp_path / "out")
    results.trials.mkdir(parents=True)
    plan = planned(tmp_path, trials)
    for want in plan.wanted.values():
        results.path(want.trial).write_bytes(stored(real, want, plan))
    size = results.path(want.trial).stat().st_size
    assert results.read(want.trial) is not None
    run(planned(tmp_path, trials), results, Idle(), "cpu")  # writes the plan
    spent = []

    def recognise() -> None:
        begun = time.process_time()
        assert run(planned(tmp_path, trials), results, Idle(), "cpu").total() == 0
        spent.append(time.process_time() - begun)

    benchmark.pedantic(recognise, setup=forget, rounds=3 if trials < 10_000 else 1)
    wanted = list(planned(tmp_path, trials).wanted)[:1000]
    begun = time.process_time()
    for trial in wanted:
        results.read(trial)
    each = (time.process_time() - begun) / 1000
    benchmark.extra_info.update(record_bytes=size, cpu_seconds=min(spent), head_seconds=each)
    with capsys.disabled():
        print(f"\n{trials:,} records of {len(real.readings)} readings, {size / 1000:.0f} kB each")
        if benchmark.stats:
            print(f"  recognised in {benchmark.stats.stats.min:.2f} s ({min(spent):.2f} s of CPU);")
        print(f"  {each * 1e6:.0f} µs of CPU a record")
    shutil.rmtree(results.root)
