"""plan.json: what was asked stands side by side, and others can read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from small import SETTINGS
from small_plans import BOTH, POST, planned

from ablations.config import parse_overrides
from ablations.plan import make_plan, seeds_of
from ablations.plan_document import document, merge_into
from ablations.spec import experiments
from ablations.store.results import Results
from ablations.store.schema import RecordError

Ask = Callable[..., str]


def test_every_experiment_is_strict_json_that_stands_alone() -> None:
    plan = make_plan(list(experiments()), "smoke", {"train.steps": 7}, [0, 1])
    planned = document(plan)
    assert json.loads(json.dumps(planned, allow_nan=False)) == planned
    for (name, entry), expanded in zip(planned.items(), plan.experiments.values(), strict=True):
        assert entry["baseline"] in {cell["variant"] for cell in entry["trials"]}
        assert {cell["id"] for cell in entry["trials"]} <= set(plan.trials)
        asked = expanded.experiment
        expected = {0, 1} if asked.is_trained else {*seeds_of(asked)}
        assert {cell["seed"] for cell in entry["trials"]} == expected
        assert entry["seed_batches"] == [sorted(expected)]
        assert entry["question"].endswith("?"), name
        words = {"unit", "better", "title", "repeats", "matters"}
        assert set(entry["metric"]) - {"beside"} == {"name", "split", *words}
        assert all(set(metric) - {"beside"} == words for metric in entry["metrics"].values())
        if "padded_time" in entry["metrics"]:
            assert entry["metrics"]["padded_time"]["beside"] == {"to": "own"}
        for cell in entry["trials"]:
            assert ("throughput" in cell["sources"]) <= (cell["seed"] == min(expected))


def test_the_overrides_of_a_plan_can_be_given_again(ask: Ask) -> None:
    words = ["train.clip=null", "model.tied=output", "train.optimizer={name: adam, lr: 1e-3}"]
    words.append("model.d_model=16,32")
    given = parse_overrides(words)
    plan = make_plan([ask()], "smoke", given[0], [0], factors=given[1])
    (entry,) = document(plan).values()
    assert parse_overrides(entry["overrides"]) == given


def test_what_is_written_is_what_a_folder_takes_and_reads_back(ask: Ask, tmp_path: Path) -> None:
    keys = "name question task baseline held_constant changes claims tuning grid overrides profile "
    keys += "metric metrics seed_batches trials"
    results, plan = Results(tmp_path / "out"), planned(ask(sources=BOTH), seeds=[4, 2])
    merge_into(results, plan)
    read = results.read_plan()
    assert read == {"profile": "smoke", "experiments": document(plan)}
    assert set(read["experiments"]["small"]) == set(keys.split())


def test_more_seeds_after_a_whole_run_are_a_batch_and_a_changed_question_begins_anew(
    ask: Ask, tmp_path: Path
) -> None:
    results = Results(tmp_path / "out")
    first = [300, 301, 302]
    for seeds, batches in [
        (first, [first]),
        ([304, 303], [first, [303, 304]]),
        ([300], [first, [303, 304]]),
        ([305, 306], [first, [303, 304, 305, 306]]),
    ]:
        merge_into(results, planned(ask(), seeds=seeds))
        (entry,) = results.read_plan()["experiments"].values()
        assert entry["seed_batches"] == batches
    merge_into(results, planned(ask(settings={**SETTINGS, "train.steps": 5}), seeds=[300, 301]))
    (entry,) = results.read_plan()["experiments"].values()
    assert entry["seed_batches"] == [[300, 301]]


DEPTHS = {"depth": {"one": {"model.depth": 1}, "two": {"model.depth": 2}}}


def test_seeds_that_are_asked_later_join_those_before(ask: Ask, tmp_path: Path) -> None:
    file = ask(factors=DEPTHS)
    for number, runs in enumerate([[[0], [1]], [[2], [0, 1]], [[1, 0], [2, 0]], [[0, 1, 2], [1]]]):
        results = Results(tmp_path / str(number))
        for seeds in runs:
            merge_into(results, planned(file, seeds=seeds))
        seeds = sorted({seed for run in runs for seed in run})
        cells = document(planned(file, seeds=seeds))["small"]["trials"]
        read = results.read_plan()["experiments"]["small"]
        assert read["trials"] == cells, runs
        (batch,) = read["seed_batches"]  # so few give no verdict alone
        assert sorted(batch) == seeds


def test_a_table_of_other_settings_takes_the_place_of_the_first_and_that_is_said(
    ask: Ask, tmp_path: Path
) -> None:
    first = planned(ask(), seeds=[0])
    for number, (option, value) in enumerate((("train.steps", 5), ("task.words", 201))):
        results = Results(tmp_path / str(number))
        assert merge_into(results, first) == []
        changed = planned(ask(settings={**SETTINGS, option: value}), seeds=[1])
        (note,) = merge_into(results, changed)
        assert note == "small: settings have changed; 2 earlier trials left it"
        assert results.read_plan()["experiments"] == document(changed)
        assert merge_into(results, changed) == []


def test_a_variant_that_is_added_joins_the_table_and_one_of_other_settings_leaves_it(
    ask: Ask, tmp_path: Path
) -> None:
    results = Results(tmp_path / "out")

    def places() -> list[tuple[str, int]]:
        cells = results.read_plan()["experiments"]["small"]["trials"]
        return sorted((cell["variant"], cell["seed"]) for cell in cells)

    merge_into(results, planned(ask(), seeds=[0, 1]))
    assert merge_into(results, planned(ask(question="Another?"), seeds=[0])) == []
    more = {"with": {}, "without": {"model.position": "none"}, **POST}
    assert merge_into(results, planned(ask(variants=more), seeds=[0])) == []
    kept = [("post", 0), ("with", 0), ("with", 1), ("without", 0)]
    assert places() == [*kept, ("without", 1)]
    other = {**more, "without": {"model.position": "learned"}}
    merge_into(results, planned(ask(variants=other), seeds=[0]))
    assert places() == kept


def test_the_same_question_with_other_overrides_stands_beside_it_under_their_name(
    ask: Ask, tmp_path: Path
) -> None:
    """Fault 52 where nothing is run."""
    results = Results(tmp_path / "out")
    plain, heads = planned(ask()), planned(ask(), **{"model.n_heads": 1})
    wide = make_plan([ask()], "smoke", {}, [0], factors={"model.d_model": {"8": 8, "16": 16}})
    for plan in (plain, heads, wide, plain):
        assert merge_into(results, plan) == []
    names = ["small", "small [model.n_heads=1]", "small [model.d_model=8,16]"]
    assert list(results.read_plan()["experiments"]) == names


def test_a_plan_that_cannot_be_read_is_named_with_the_fix_and_never_written_over(
    ask: Ask, tmp_path: Path
) -> None:
    results, plan = Results(tmp_path / "out"), planned(ask())
    merge_into(results, plan)
    damaged = results.plan_file.read_bytes().replace(b"smoke", b"smoky", 1)  # its digest is another
    old = b'{"schema": 1, "experiments": {}}'
    for data in (b"", b"3", b"\xff", old, b'{"schema": 2, "abla', b"[" * 100_000, damaged):
        results.plan_file.write_bytes(data)
        with pytest.raises(RecordError) as error:
            merge_into(results, plan)
        line = str(error.value)
        assert line.startswith(f"{results.plan_file}: ")
        assert line.endswith("; move it away and run again: no record is lost")
        assert "\n" not in line
        assert results.plan_file.read_bytes() == data
