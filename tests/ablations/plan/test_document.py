"""plan.json: what was asked stands side by side, and others can read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import SETTINGS
from small_plans import BOTH, POST, planned

from ablations.plan.document import document, merge_into
from ablations.plan.question import catalogue
from ablations.plan.source import parse_overrides
from ablations.plan.wanted import draws_of, is_trained, make_plan
from ablations.store.results import Results
from ablations.store.schema import RecordError, seal
from ablations.store.seeds import DECIDING, moved

Ask = Callable[..., str]


def test_every_entry_of_the_catalogue_is_strict_json_that_stands_alone() -> None:
    plan = make_plan(list(catalogue()), "smoke", {"train.steps": 7}, [0, 1])
    planned = document(plan)
    assert json.loads(json.dumps(planned, allow_nan=False)) == planned
    for (name, entry), table in zip(planned.items(), plan.tables.values(), strict=True):
        assert entry["control"] in {cell["label"] for cell in entry["cells"]}
        assert {cell["trial"] for cell in entry["cells"]} <= set(plan.wanted)
        asked = table.ablation
        first = DECIDING[0] if table.arms == "pacing" else asked.seeds_from
        expected = {0, 1} if is_trained(asked) else {*moved(draws_of(asked), first)}
        assert {cell["seed"] for cell in entry["cells"]} == set(entry["seeds"]) == expected
        assert entry["question"].rstrip(")").endswith("?"), name
        words = {"unit", "better", "label", "repeats"}
        assert set(entry["metric"]) - {"beside"} == {"name", "split", *words}
        assert all(set(metric) - {"beside"} == words for metric in entry["metrics"].values())
        if "padded_time" in entry["metrics"]:
            assert entry["metrics"]["padded_time"]["beside"] == {"to": "own"}
        for cell in entry["cells"]:
            assert ("throughput" in cell["measures"]) <= (cell["seed"] == min(expected))


def test_the_overrides_of_a_plan_can_be_given_again(ask: Ask) -> None:
    words = ["train.clip=null", "model.tied=output", "train.optimiser={name: adam, rate: 1e-3}"]
    words.append("model.d_model=16,32")
    given = parse_overrides(words)
    plan = make_plan([ask()], "smoke", given[0], [0], factors=given[1])
    (entry,) = document(plan).values()
    assert parse_overrides(entry["overrides"]) == given


def test_a_plan_joins_the_plans_before_it(ask: Ask, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask("one")))
    merge_into(results, planned(ask("two", variants=POST)))
    merge_into(results, planned(ask("one"), seeds=[7]))
    plan = results.read_plan()
    assert set(plan["ablations"]) == {"one", "two"}
    assert plan["ablations"]["one"]["seeds"] == [0, 7]


DEPTHS = {"depth": {"one": {"model.depth": 1}, "two": {"model.depth": 2}}}


@pytest.mark.parametrize("runs", [[[0], [1]], [[2], [0, 1]], [[1, 0], [2, 0]], [[0, 1, 2], [1]]])
def test_seeds_that_are_asked_later_join_those_before(
    ask: Ask, tmp_path: Path, runs: list[list[int]]
) -> None:
    results, file = Results(tmp_path / "out"), ask(across=DEPTHS)
    for seeds in runs:
        merge_into(results, planned(file, seeds=seeds))
    seeds = sorted({seed for run in runs for seed in run})
    assert results.read_plan()["ablations"] == document(planned(file, seeds=seeds))


def test_of_seeds_that_come_together_those_are_timed_that_their_runs_time(
    ask: Ask, tmp_path: Path
) -> None:
    results, file = Results(tmp_path / "out"), ask(measures=BOTH)
    runs = [planned(file, seeds=seeds) for seeds in ([3, 4], [5, 6])]
    for run in runs:
        merge_into(results, run)
    wanted = {trial: bool(want.timings) for run in runs for trial, want in run.wanted.items()}
    cells = results.read_plan()["ablations"]["small"]["cells"]
    assert {cell["trial"]: "throughput" in cell["measures"] for cell in cells} == wanted
    assert sum(wanted.values()) == 2 * len(POST)  # the first seed of each run, of each variant


@pytest.mark.parametrize(
    "other",
    [
        {"variants": {"with": {}, "without": {"model.position": "learned"}}},
        {"control": "without"},
        {"metric": "wer"},
        {"settings": {**SETTINGS, "train.steps": 5}},
        {"settings": {**SETTINGS, "task.words": 201}},
    ],
    ids=str,
)
def test_a_table_of_other_settings_stands_beside_the_first_and_that_is_said(
    ask: Ask, tmp_path: Path, other: dict[str, Any]
) -> None:
    results = Results(tmp_path / "out")
    first = planned(ask(), seeds=[0])
    assert merge_into(results, first) == []
    changed = planned(ask(**other), seeds=[1])
    (note,) = merge_into(results, changed)
    before, after = document(first)["small"], document(changed)["small"]
    kept = f"small @{before['fingerprint'][:6]}"
    assert kept in note
    assert results.read_plan()["ablations"] == {kept: before, "small": after}
    assert merge_into(results, changed) == []


def test_a_variant_that_is_added_joins_the_table_and_one_that_is_gone_is_kept(
    ask: Ask, tmp_path: Path
) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask(), seeds=[0]))
    assert merge_into(results, planned(ask(question="Another?"), seeds=[0])) == []
    more = {"with": {}, "without": {"model.position": "none"}, **POST}
    assert merge_into(results, planned(ask(variants=more), seeds=[0])) == []
    whole = document(planned(ask(variants=more), seeds=[0]))["small"]
    for _ in range(2):
        merge_into(results, planned(ask(variants=POST), seeds=[0]))
        kept = f"small @{whole['fingerprint'][:6]}"
        less = document(planned(ask(variants=POST), seeds=[0]))["small"]
        assert results.read_plan()["ablations"] == {kept: whole, "small": less}


def test_a_table_that_was_kept_is_found_again_with_all_its_seeds(ask: Ask, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    other = {"settings": {**SETTINGS, "model.d_model": 8}}
    first, second = planned(ask(), seeds=[0, 1, 2]), planned(ask(**other), seeds=[0])
    for plan in (first, second, planned(ask(), seeds=[0]), second):
        merge_into(results, plan)
    tables = results.read_plan()["ablations"]
    kept = f"small @{document(first)['small']['fingerprint'][:6]}"
    assert tables == {"small": document(second)["small"], kept: document(first)["small"]}


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
    assert list(results.read_plan()["ablations"]) == names
    assert set(results.names().values()) == {"small"}


def test_another_profile_in_the_same_folder_is_named_by_it(ask: Ask, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    settings = {**SETTINGS, "task.words": 300}
    for profile in ("smoke", "quick", "smoke"):
        merge_into(results, make_plan([ask(settings=settings)], profile, {}, [0]))
    assert list(results.read_plan()["ablations"]) == ["small", "small [profile=quick]"]


def test_a_plan_that_says_nothing_new_is_not_written(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask(), seeds=[4, 2]))
    with monkeypatch.context() as patch:
        patch.setattr(results, "write_plan", None)
        merge_into(results, planned(ask(), seeds=[4, 2]))
    merge_into(results, planned(ask(), seeds=[7]))
    monkeypatch.setattr(results, "write_plan", None)
    for seeds in ([4, 2], [7], [2]):
        merge_into(results, planned(ask(), seeds=seeds))


@pytest.mark.parametrize(
    "text",
    ["", "3", '{"schema": 1, "ablations": {}}', '{"schema": 2, "abla', '{"schema": 2}',
     '{"schema": 2, "sha256": "' + "0" * 64 + '",\n"ablations": {}}', "[" * 100_000],
    ids=lambda text: text[:50] or "empty",
)  # fmt: skip
def test_a_plan_that_cannot_be_read_is_named_with_the_fix_and_never_written_over(
    ask: Ask, tmp_path: Path, text: str
) -> None:
    results = Results(tmp_path / "out")
    results.root.mkdir()
    results.plan_file.write_text(text)
    with pytest.raises(RecordError) as error:
        merge_into(results, planned(ask()))
    line = str(error.value)
    assert line.startswith(f"{results.plan_file}: ")
    assert line.endswith("; move it away and run again: no record is lost")
    assert "\n" not in line
    assert results.plan_file.read_text() == text


@pytest.mark.parametrize("cells", [[3], [{}], [{"label": "with"}], 3], ids=repr)
def test_a_plan_whose_cells_are_none_is_one_line(ask: Ask, tmp_path: Path, cells: Any) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask()))
    plan = results.read_plan()
    plan["ablations"]["small"]["cells"] = cells
    results.plan_file.write_bytes(seal(plan))
    with pytest.raises(RecordError, match=r"ablation 'small'.*; move it away"):
        merge_into(results, planned(ask(), seeds=[1]))
