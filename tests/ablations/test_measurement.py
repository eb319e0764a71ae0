"""What is read off a trial: quality from its weights, time beside a reference, later if need be."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from small import held
from torch import nn

import ablations.benchmarks.throughput
import ablations.measurement
import ablations.worker
from ablations.jobs import RunConfig
from ablations.measurement import (
    MEASUREMENT,
    PACKAGES,
    Benchmark,
    Measured,
    Metric,
    Place,
    Probe,
    discover,
    metrics_by_name,
)
from ablations.plan import make_plan
from ablations.runner import run
from ablations.store.record import Measurement
from ablations.store.results import Results
from ablations.tasks.g2p import G2P
from ablations.tasks.translation import Translation
from ablations.train.loop import validate
from model.build import build

Ask = Callable[..., str]
CPU = torch.device("cpu")
torch.set_num_threads(1)  # a forked probe has none of the threads that were started before


@pytest.fixture(scope="module")
def task() -> G2P:
    return G2P(G2P.Config(words=200, valid_words=40, test_words=40))


@pytest.fixture(scope="module")
def model(task: G2P) -> nn.Module:
    written = {"name": "transformer", "kind": "encoder_decoder", "d_model": 16, "depth": 1}
    return build(written, task.source_size, task.target_size, seed=0)


def test_every_file_of_the_packages_is_found() -> None:
    folders = [Path(importlib.import_module(name).__path__[0]) for name in PACKAGES]
    files = {f"{path.parent.name}.{path.stem}" for f in folders for path in f.glob("[!_]*.py")}
    modules = {
        part.__module__.removeprefix("ablations.") for part in discover().components.values()
    }
    assert files - modules == {f"benchmarks.{name}" for name in ("session", "child")}


def test_quality_is_of_both_splits_beside_the_trivial_answer(model: nn.Module, task: G2P) -> None:
    measurements = discover().build("quality").measure(model, task, CPU, 17).measurements
    named = {(r.metric, r.split) for r in measurements}
    assert {*product(("per", "wer", "trivial_per"), ("valid", "test"))} <= named
    for measurement in measurements:
        metric = measurement.metric.removeprefix("trivial_")
        assert measurement.unit == ("nats/token" if metric == "loss" else task.metrics[metric].unit)
        assert measurement.coordinates == ({"step": 17} if metric == measurement.metric else {})
    assert (measurements[0].metric, measurements[0].value) == (
        "loss",
        validate(model, task, CPU, "test"),
    )


RECURRENT = {"model": {"name": "recurrent", "d_model": 16, "depth": 1}, "seed": 0}


def test_a_timed_step_is_a_whole_step_at_the_shape_that_was_asked(
    task: G2P, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    real = ablations.benchmarks.throughput.update

    def watched(model: nn.Module, parts: Any, tokens: int, *rest: Any) -> Any:
        before = [parameter.detach().clone() for parameter in model.parameters()]
        told = real(model, parts, tokens, *rest)
        (batch,) = parts
        moved = [not torch.equal(*both) for both in zip(before, model.parameters(), strict=True)]
        seen.append((tuple(batch.source.shape), tuple(batch.labels.shape), tokens, all(moved)))
        return told

    monkeypatch.setattr(ablations.benchmarks.throughput, "update", watched)
    config = {**RECURRENT, "train": {"optimizer": {"name": "adam"}}}
    at: Place = {"length": 7, "batch": 3, "pass": "training"}
    discover().build("throughput").prepare(config, task, CPU, at)()
    ((source, labels, tokens, moved),) = seen
    assert (source, labels, tokens) == ((3, 7), (3, 7), 21)
    assert moved


def test_a_timed_forward_pass_is_one_without_dropout_and_without_gradients(
    task: G2P, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    real = ablations.measurement.build

    def watched(*given: Any) -> nn.Module:
        model = real(*given)
        model.register_forward_hook(
            lambda module, _, logits: seen.append(
                (module.training, logits.shape, logits.requires_grad)
            )
        )
        return model

    monkeypatch.setattr(ablations.measurement, "build", watched)
    at: Place = {"length": 7, "batch": 3, "pass": "forward"}
    discover().build("throughput").prepare({**RECURRENT, "train": {}}, task, CPU, at)()
    assert seen == [(False, (3, 7, task.target_size), False)]


def test_what_copying_the_question_scores_is_beside_what_the_model_does() -> None:
    task = Translation(Translation.Config(sentences=100, valid_sentences=60, test_sentences=60))
    written = {"name": "transformer", "kind": "encoder_decoder", "d_model": 16, "depth": 1}
    model = build(written, task.source_size, task.target_size, seed=0)
    measurements = discover().build("quality").measure(model, task, CPU, 1).measurements
    found = {(r.metric, r.split): (r.value, r.unit) for r in measurements}
    for split in ("valid", "test"):
        copied = task.copied(split)
        assert copied["bleu"] > 10
        for metric, value in copied.items():
            assert found[f"copied_{metric}", split] == (value, task.metrics[metric].unit)


# A session.


def test_the_twin_is_a_call_of_its_own_and_its_slowness_is_seen(
    ask: Ask, here: Any, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it the reference again, the noise floor would be zero and every difference resolved."""
    now = 0.0
    prepared: list[int] = []

    class Planted(Benchmark):
        metrics: ClassVar = {"planted_time": Metric("s", "lower", "time", "processes")}
        places: ClassVar = {"length": [5], "batch": [2]}

        def prepare(self, *_: Any, **__: Any) -> Callable[[], None]:
            """Each call takes longer than the one that was prepared before it."""
            prepared.append(len(prepared) + 1)
            seconds = prepared[-1] / 128

            def call() -> None:
                nonlocal now
                now += seconds

            return call

    monkeypatch.setitem(MEASUREMENT.components, "planted", Planted)
    monkeypatch.setattr("ablations.benchmarks.session.time.perf_counter", lambda: now)
    monkeypatch.setattr("ablations.benchmarks.session.in_child", lambda work, _: (work(_), None))
    plan = make_plan([ask(sources=["planted"], metric="planted_time")], "smoke", {}, [0])
    run(RunConfig(plan, results, "cpu"), here)
    assert prepared == list(range(1, 13)), "reference, twin and two candidates in each process"
    timed = held(results, next(iter(plan.trials))).measurements
    first = next(each for each in timed if each.samples)
    times = (first.baseline_samples, first.baseline_again, first.samples)
    assert [set(each or ()) for each in times] == [{1 / 128}, {2 / 128}, {3 / 128}]


# Later.


def test_a_measure_asked_for_later_is_taken_without_training(
    ask: Ask, here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, whole = Results(tmp_path / "later"), Results(tmp_path / "at once")
    before = make_plan([ask(sources=[])], "smoke", {}, [0])
    after = make_plan([ask(sources=["quality"])], "smoke", {}, [0])
    run(RunConfig(before, results, "cpu"), here)
    run(RunConfig(after, whole, "cpu"), here)
    weights = {path: path.read_bytes() for path in results.checkpoints.iterdir()}
    trained = {trial: results.read(trial) for trial in before.trials}

    def forbidden(*_: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(ablations.worker, "train", forbidden)
    assert run(RunConfig(after, results, "cpu"), here) == {"stuck": 2}
    assert {path: path.read_bytes() for path in results.checkpoints.iterdir()} == weights
    for trial, old in trained.items():
        new, straight = results.read(trial), whole.read(trial)
        assert (list(old.sources), list(new.sources)) == ([], ["quality"])
        assert new.measurements[: len(old.measurements)] == old.measurements
        assert (new.measurements, new.examples) == (straight.measurements, straight.examples)
        assert set(new.env.pop("later")) == {"quality"}
        assert (new.status, new.config, new.env) == (old.status, old.config, old.env)
    for path in results.checkpoints.iterdir():
        path.unlink()  # a probe does without weights
    probed = make_plan([ask(sources=["quality", "padding_seen"])], "smoke", {}, [0])
    run(RunConfig(probed, results, "cpu"), here)
    records = [results.read(trial) for trial in probed.trials]
    assert [r and list(r.sources) for r in records] == [["quality", "padding_seen"]] * 2


def test_a_measure_that_other_code_has_taken_is_taken_again_in_place_of_what_it_read(
    ask: Ask, here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 44."""
    results = Results(tmp_path / "out")
    plan = make_plan([ask()], "smoke", {}, [0])
    run(RunConfig(plan, results, "cpu"), here)
    trained = {trial: results.read(trial) for trial in plan.trials}
    for record in trained.values():
        other = replace(record, measurements=[*record.measurements], sources={})
        wrong = [Measurement("per", "edits/phone", 99.0, split="test")]
        other.take("quality", {"ablations/evaluations/quality.py": "before"}, wrong)
        results.write(other)
    monkeypatch.setattr(ablations.worker, "train", None)  # which would be called in vain
    run(RunConfig(plan, results, "cpu"), here)
    for trial, record in trained.items():
        again = results.read(trial)
        assert again.env.pop("later")["quality"]["torch"] == torch.__version__
        assert again == record
    assert len(record.per_example["per"]) == len(record.per_example["wer"]) == 40


def test_a_question_that_only_times_trains_nothing_and_shares_no_record_with_one_that_trains(
    ask: Ask, here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(tmp_path / "out")
    monkeypatch.setattr(ablations.worker, "train", None)
    file = ask(sources=["throughput"], metric="step_time")
    timed = make_plan([file], "smoke", {}, [0])
    trained = make_plan([ask("trained")], "smoke", {}, [0])
    assert not set(timed.trials) & set(trained.trials)
    longer = make_plan([file], "smoke", {"train.steps": 9}, [0])
    assert set(longer.trials) == set(timed.trials), "how it would be trained does not matter"
    assert run(RunConfig(timed, results, "cpu"), here) == {"ok": 2, "timed": 1}
    for trial in timed.trials:
        record = results.read(trial)
        assert (record.trained, record.status) == (False, "ok")
        assert list(record.sources) == ["throughput"]
        assert record.parameters
    assert list(results.checkpoints.iterdir()) == []
    assert run(RunConfig(timed, results, "cpu"), here) == {}


def test_what_needs_no_training_is_read_off_a_diverged_trial_too(
    ask: Ask, here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Planted(Probe):
        metrics: ClassVar = {"planted": Metric("1", "lower", "planted")}

        def measure(self, config: dict[str, Any], *_: Any) -> Measured:
            return Measured([Measurement("planted", "1", config["seed"])])

    monkeypatch.setitem(MEASUREMENT.components, "planted", Planted)
    results = Results(tmp_path / "out")
    plan = make_plan(
        [ask(sources=["quality", "planted"])], "smoke", {"train.optimizer.lr": 1e6}, [7]
    )
    assert run(RunConfig(plan, results, "cpu"), here) == {"diverged": 2}
    for trial in plan.trials:
        record = results.read(trial)
        (planted,) = (r for r in record.measurements if r.metric == "planted")
        assert (planted.value, planted.source) == (7, "planted")
        assert list(record.sources) == ["quality", "planted"]
        others = {
            measurement.split
            for measurement in record.measurements
            if measurement.metric != "planted"
        }
        assert others == {"train", "valid"}, "of a diverged model nothing more is asked"
        assert not record.examples


def test_no_two_measures_read_one_quantity() -> None:
    names = [metric for part in discover().components.values() for metric in part.metrics]
    assert len(names) == len(set(names))
    assert set(metrics_by_name(list(discover().components))) == set(names)
