"""A sweep whose trials are trained on two devices each leaves what one on one device does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcess
from small import held, question

from ablations.jobs import RunConfig, TrainingJob
from ablations.launch import Job
from ablations.launch.local import LocalLauncher
from ablations.plan import Plan, make_plan
from ablations.runner import run
from ablations.store.record import Record
from ablations.store.results import Results

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    file = tmp_path_factory.mktemp("question") / "small.yaml"
    file.write_text(json.dumps(question(variants={"with": {}})))
    settings = {"train.steps": 30, "train.micro_batches": 3, "train.batch_tokens": 120}
    return make_plan([str(file)], "smoke", settings, [0])


@pytest.fixture(scope="module")
def folders(
    tmp_path_factory: pytest.TempPathFactory, plan: Plan, server: None
) -> dict[int, Results]:
    """What is left of the same plan on one device and on two."""
    found = {devices: Results(tmp_path_factory.mktemp(f"on{devices}")) for devices in (1, 2)}
    run(RunConfig(plan, found[1], "cpu"), InProcess())
    with LocalLauncher(1) as launcher:
        run(RunConfig(plan, found[2], "cpu", devices=2), launcher)
    return found


def losses(record: Record) -> dict[str, float | None]:
    return {
        f"{r.split} {r.coordinates}": r.value for r in record.measurements if r.metric == "loss"
    }


def test_two_devices_leave_the_records_of_one(
    plan: Plan, folders: dict[int, Results], here: Any
) -> None:
    (trial,) = plan.trials
    one, two = (held(folders[devices], trial) for devices in (1, 2))
    assert one.status in ("ok", "stuck")
    assert (two.status, two.reason) == (one.status, one.reason)
    assert two.config == one.config
    assert two.sources == one.sources
    assert [r.metric for r in two.measurements] == [r.metric for r in one.measurements]
    assert losses(two) == pytest.approx(losses(one), rel=1e-4)
    assert len(losses(one)) > 30
    assert folders[2].weights(trial).exists()
    assert not folders[2].unfinished(trial).exists()
    assert [(r.env["devices"], r.env["threads"]) for r in (one, two)] == [(1, 1), (2, 1)]
    assert run(RunConfig(plan, folders[2], "cpu"), here) == {}, "it is not trained again on one"


def job_of(plan: Plan, results: Results, device: str) -> Job:
    share = 0.0 if device == "cpu" else 1.0
    setting = RunConfig(plan, results, device, [], devices=2, accelerators=share)
    job = TrainingJob([next(iter(plan.trials.values()))], setting).job()
    assert job is not None
    return job


def test_a_training_asks_for_a_core_and_an_accelerator_for_each_device(
    plan: Plan, tmp_path: Path
) -> None:
    results = Results(tmp_path / "out")
    on_cpu, elsewhere = (job_of(plan, results, device) for device in ("cpu", "cuda"))
    assert (on_cpu.threads, on_cpu.accelerators) == (2, 0.0)
    assert (elsewhere.threads, elsewhere.accelerators) == (2, 2.0)
    assert on_cpu.payload["devices"] == elsewhere.payload["devices"] == 2
    setting = RunConfig(plan, results, "cuda", [], accelerators=1.0, workers=4)
    shares = [setting.share(devices) for devices in (1, 3)]
    assert shares == [0.25, 3.0], "several are a trial's own, whatever shares a single one"


def test_what_is_only_measured_is_measured_on_one_device(
    plan: Plan, folders: dict[int, Results], tmp_path: Path
) -> None:
    results = Results(tmp_path / "out")
    shutil.copytree(folders[2].root, results.root)
    record = held(results, next(iter(plan.trials)))
    record.sources.clear()
    results.write(record)
    job = job_of(plan, results, "cpu")
    (asked,) = job.payload["trials"]
    assert asked["record"] is not None
    assert (job.threads, job.payload["devices"]) == (1, 1)
