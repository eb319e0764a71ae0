"""What would run: each trial once, timing where it belongs, and a plan that others can read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import SETTINGS
from torch import nn

from ablations.measure.timing import TimingConfig
from ablations.plan.document import document, merge_into
from ablations.plan.missing import missing, untimed
from ablations.plan.profile import read_profile
from ablations.plan.question import catalogue
from ablations.plan.source import FOLDER, parse_overrides
from ablations.plan.wanted import LARGE, Plan, Want, make_plan
from ablations.store.record import SCHEMA, Reading, Record, RecordError
from ablations.store.results import Results
from ablations.train.weights import save_weights, stamp_for
from model.config import ConfigError, validate

Ask = Callable[..., str]
POST = {"with": {}, "post": {"model.residual": "post"}}
BOTH = ["quality", "throughput"]


def planned(*files: str, seeds: list[int] | None = None, **overrides: Any) -> Plan:
    return make_plan(list(files), "smoke", overrides, seeds or [0])


def record_of(want: Want, **changes: Any) -> Record:
    known: dict[str, Any] = {
        "status": "ok",
        "env": {"code": want.code},
        "measures": list(want.measures),
        **changes,
    }
    return Record(want.trial, config=want.config, **known)


# Who is wanted.


def test_a_control_that_questions_share_is_wanted_once_a_seed(ask: Ask) -> None:
    plan = planned(ask("one"), ask("two", variants=POST), seeds=[0, 1])
    one, two = (cells for _, cells in plan.ablations.values())
    assert [c.trial for c in one if c.label == "with"] == [
        c.trial for c in two if c.label == "with"
    ]
    assert len(plan.wanted) == 2 * 3


def test_the_catalogue_shares_its_controls() -> None:
    plan = make_plan(["position", "norm", "recurrent"], "smoke", {}, [0])
    controls = {
        cell.trial
        for ablation, cells in plan.ablations.values()
        for cell in cells
        if cell.label == ablation.control
    }
    assert len(controls) == 1


def test_measures_of_all_questions_are_wanted_of_a_shared_trial(ask: Ask) -> None:
    plan = planned(ask("one", measures=[]), ask("two", variants=POST, measures=BOTH))
    measured = {cell.label: plan.wanted[cell.trial].measures for _, cells in plan.ablations.values()
                for cell in cells}  # fmt: skip
    assert measured == {"with": ["quality"], "without": [], "post": ["quality"]}


def test_time_is_asked_of_the_first_seed_only_beside_the_control_of_that_seed(ask: Ask) -> None:
    plan = planned(ask(measures=BOTH), seeds=[4, 2])
    (_, cells), *_ = plan.ablations.values()
    (control,) = [cell.trial for cell in cells if (cell.label, cell.seed) == ("with", 4)]
    for cell in cells:
        expected = [("throughput", control)] if cell.seed == 4 else []
        assert plan.wanted[cell.trial].timings == expected


def test_time_is_taken_beside_the_control_of_the_same_crossing(ask: Ask) -> None:
    across = {"depth": {"one": {"model.depth": 1}, "two": {"model.depth": 2}}}
    plan = planned(ask(measures=BOTH, across=across))
    for cell in plan.ablations["small"][1]:
        ((_, reference),) = plan.wanted[cell.trial].timings
        assert plan.wanted[reference].config["model"]["depth"] == cell.config["model"]["depth"]
        assert plan.wanted[reference].config["model"]["position"]["name"] == "sinusoidal"


def test_a_trial_with_two_controls_is_timed_beside_each(ask: Ask) -> None:
    two = {"post": {"model.residual": "post"}, "with": {}}
    plan = planned(
        ask("one", measures=BOTH), ask("two", measures=BOTH, control="post", variants=two)
    )
    (control,) = [c.trial for c in plan.ablations["one"][1] if c.label == "with"]
    (other,) = [c.trial for c in plan.ablations["two"][1] if c.label == "post"]
    assert plan.wanted[control].timings == [("throughput", control), ("throughput", other)]


def test_two_files_of_one_name_are_not_taken_for_one_question(ask: Ask) -> None:
    one, two = ask("here/twin"), ask("there/twin", variants=POST)
    try:
        told = list(planned(one, two).ablations)
    except ConfigError as error:
        told = [*error.problems, "refused"]
    assert len(told) == 2


# What is refused.


@pytest.mark.parametrize(
    ("changes", "wrong", "right"),
    [
        ({"measures": ["qualty"]}, "qualty", "quality"),
        ({"metric": "prr"}, "prr", "per"),
        ({"measures": ["quality", "troughput"]}, "troughput", "throughput"),
    ],
)
def test_an_unknown_measure_or_metric_is_answered_with_the_nearest(
    ask: Ask, changes: dict[str, Any], wrong: str, right: str
) -> None:
    with pytest.raises(ConfigError, match=f"'{wrong}'.*'{right}'"):
        planned(ask(**changes))


def test_the_problems_of_all_questions_are_told_at_once(ask: Ask) -> None:
    wrong = {"with": {}, "wrong": {"model.n_heads": 5}}
    with pytest.raises(ConfigError) as error:
        planned(ask("one", variants=wrong), ask("two"), ask("three", metric="prr"))
    assert [problem.partition(":")[0] for problem in error.value.problems] == ["one", "three"]


def grid(*levels: int) -> dict[str, Any]:
    return {
        f"factor {index}": {f"level {level}": {"train.steps": level} for level in range(count)}
        for index, count in enumerate(levels)
    }


def test_a_grid_of_a_million_is_refused_before_it_is_made(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 30 in small: nothing is expanded."""
    monkeypatch.setattr("ablations.plan.wanted.expand", None)
    with pytest.raises(ConfigError) as error:
        planned(ask("vast", across=grid(100, 100, 50)))
    (line,) = error.value.problems
    assert "1,000,000 trials" in line
    assert "'vast'" in line
    assert "--large" in line


def test_the_size_of_a_plan_is_that_of_all_questions_and_seeds(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expand(*_: Any) -> None:
        raise ConfigError(["made"])

    monkeypatch.setattr("ablations.plan.wanted.expand", expand)
    files = [ask("one", across=grid(30)), ask("two", across=grid(10, 7))]  # 2 × (30 + 70) cells
    fits = list(range(LARGE // 200))
    for seeds, large, is_made in [
        (fits, False, True),
        ([*fits, LARGE], False, False),
        ([*fits, LARGE], True, True),
    ]:
        with pytest.raises(ConfigError) as error:
            make_plan(files, "smoke", {}, seeds, large)
        assert ("made" in str(error.value)) == is_made
        assert ("--large" in str(error.value)) != is_made


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("profiles/*.yaml")))
def test_every_profile_says_how_to_time(name: str) -> None:
    profile = read_profile(name)
    assert validate(TimingConfig, profile.timing, "timing").blocks >= 2
    assert len(set(profile.seeds)) == len(profile.seeds) > 1


# plan.json.


def test_every_entry_of_the_catalogue_is_strict_json_that_stands_alone() -> None:
    plan = make_plan(list(catalogue()), "smoke", {"train.steps": 7}, [0, 1])
    planned = document(plan)
    assert json.loads(json.dumps(planned, allow_nan=False)) == planned
    for name, entry in planned.items():
        assert entry["control"] in {cell["label"] for cell in entry["cells"]}
        assert {cell["trial"] for cell in entry["cells"]} <= set(plan.wanted)
        assert {cell["seed"] for cell in entry["cells"]} == set(entry["seeds"]) == {0, 1}
        assert entry["question"].endswith("?"), name
        assert set(entry["metric"]) == {"name", "split", "unit", "better", "label"}
        for cell in entry["cells"]:
            assert ("throughput" in cell["measures"]) <= (cell["seed"] == 0)


def test_the_overrides_of_a_plan_can_be_given_again(ask: Ask) -> None:
    words = ["train.clip=null", "model.tied=output", "train.optimiser={name: adam, rate: 1e-3}"]
    overrides = parse_overrides(words)
    entry = document(make_plan([ask()], "smoke", overrides, [0]))["small"]
    assert parse_overrides(entry["overrides"]) == overrides


def test_a_plan_joins_the_plans_before_it(ask: Ask, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask("one")))
    merge_into(results, planned(ask("two", variants=POST)))
    merge_into(results, planned(ask("one"), seeds=[7]))
    plan = results.read_plan()
    assert plan["schema"] == SCHEMA
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
        {"variants": {"with": {}}},
        {"variants": POST},
        {"control": "without"},
        {"metric": "wer"},
        {"question": "Another?"},
        {"across": DEPTHS},
        {"settings": {**SETTINGS, "train.steps": 5}},
        {"settings": {**SETTINGS, "task.words": 201}},
    ],
    ids=str,
)
def test_no_table_mixes_the_seeds_of_other_settings(
    ask: Ask, tmp_path: Path, other: dict[str, Any]
) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask(), seeds=[0]))
    changed = planned(ask(**other), seeds=[1])
    merge_into(results, changed)
    assert results.read_plan()["ablations"] == document(changed)


def test_other_overrides_are_other_settings(ask: Ask, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask(), seeds=[0]))
    changed = planned(ask(), seeds=[1], **{"model.n_heads": 1})
    merge_into(results, changed)
    assert results.read_plan()["ablations"] == document(changed)


def edited(results: Results, **changes: Any) -> None:
    """The plan as an earlier version, or somebody's editor, left it; None takes a field away."""
    plan = results.read_plan()
    entry = {**plan["ablations"]["small"], **changes}
    plan["ablations"]["small"] = {key: value for key, value in entry.items() if value is not None}
    results.write_plan(plan)


def test_what_other_code_has_trained_is_stale_beside_a_new_seed(ask: Ask, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask(), seeds=[0]))
    cells = results.read_plan()["ablations"]["small"]["cells"]
    edited(results, cells=[{**cell, "code": "then"} for cell in cells])
    merge_into(results, planned(ask(), seeds=[1]))
    assert results.read_plan()["ablations"] == document(planned(ask(), seeds=[0, 1]))


def test_a_plan_that_does_not_tell_its_settings_is_planned_anew(ask: Ask, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    merge_into(results, planned(ask(), seeds=[0]))
    edited(results, fingerprint=None)
    merge_into(results, planned(ask(), seeds=[1]))
    assert results.read_plan()["ablations"] == document(planned(ask(), seeds=[1]))


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
    ["", "3", '{"schema": 99, "ablations": {}}', '{"schema": 1, "abla', '{"schema": 1}',
     '{"schema": 1, "ablations": []}', '{"schema": 1, "ablations": {"small": 3}}', "[" * 100_000],
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
    edited(results, cells=cells)
    with pytest.raises(RecordError, match="not shaped like a plan; move it away"):
        merge_into(results, planned(ask(), seeds=[1]))


# What a folder lacks.


def lacks(plan: Plan, results: Results, rerun: str | None = None) -> dict[str, list[str]]:
    found = missing(plan, results, rerun)
    return {
        "train": [want.trial for want in found.train],
        "measure": [want.trial for want, _ in found.measure],
        "stale": [want.trial for want in found.stale],
        "failed": [want.trial for want in found.failed],
    }


@pytest.fixture
def plan(ask: Ask) -> Plan:
    return planned(ask())


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "out")


def test_an_empty_folder_lacks_everything(plan: Plan, results: Results) -> None:
    assert lacks(plan, results)["train"] == list(plan.wanted)
    assert [path for path in results.root.rglob("*") if path.is_file()] == []


def test_whether_a_folder_can_be_written_to_is_asked_where_it_is_to_be(
    plan: Plan, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    monkeypatch.setattr(results, "check_writable", lambda: asked.append(None))
    missing(plan, results, None, check=False)
    missing(plan, results, None, dry=True)
    assert not asked
    missing(plan, results, None)
    assert len(asked) == 1


def test_a_whole_record_is_not_made_again(plan: Plan, results: Results) -> None:
    for want in plan.wanted.values():
        results.write(record_of(want))
    for rerun in (None, "stale", "failed"):
        assert not any(lacks(plan, results, rerun).values())


def test_a_record_of_other_code_is_stale_and_made_anew_only_when_asked(
    plan: Plan, results: Results
) -> None:
    old, new = plan.wanted.values()
    results.write(record_of(old, env={"code": "other"}))
    results.write(record_of(new))
    expected = {"train": [], "measure": [], "stale": [old.trial], "failed": []}
    assert lacks(plan, results) == lacks(plan, results, "failed") == expected
    assert lacks(plan, results, "stale") == {**expected, "train": [old.trial]}


@pytest.mark.parametrize("status", ["error", "oom", "timeout", "killed"])
def test_a_failed_trial_is_tried_again_only_when_asked(
    plan: Plan, results: Results, status: str
) -> None:
    bad, good = plan.wanted.values()
    results.write(record_of(bad, status=status, reason="bad luck", measures=[]))
    results.write(record_of(good))
    expected = {"train": [], "measure": [], "stale": [], "failed": [bad.trial]}
    assert lacks(plan, results) == lacks(plan, results, "stale") == expected
    assert lacks(plan, results, "failed") == {**expected, "train": [bad.trial]}


@pytest.mark.parametrize("status", ["diverged", "stuck"])
def test_a_training_that_went_badly_is_a_result_not_a_failure(
    plan: Plan, results: Results, status: str
) -> None:
    for want in plan.wanted.values():
        results.write(record_of(want, status=status))
    assert not any(lacks(plan, results, "failed").values())


def test_a_missing_measure_is_taken_from_the_checkpoint_where_there_is_one(
    plan: Plan, results: Results
) -> None:
    kept, lost = plan.wanted.values()
    for want in (kept, lost):
        results.write(record_of(want, measures=[]))
    held = results.head(kept.trial)
    assert held
    save_weights(nn.Linear(1, 1), results.checkpoint(kept.trial), stamp_for(held))
    found = lacks(plan, results)
    assert (found["measure"], found["train"]) == ([kept.trial], [lost.trial])


def test_a_look_at_what_is_missing_moves_no_file(plan: Plan, results: Results) -> None:
    first, _ = plan.wanted
    results.trials.mkdir(parents=True)
    results.path(first).write_text("{")
    found = missing(plan, results, None, dry=True)
    assert [path.name for path in results.trials.iterdir()] == [f"{first}.json"]
    assert len(found.set_aside) == 1
    assert [want.trial for want in found.train] == list(plan.wanted)


def test_what_is_trained_but_not_timed_is_only_timed(ask: Ask, results: Results) -> None:
    plan = planned(ask(measures=BOTH), seeds=[0, 1])
    for want in plan.wanted.values():
        results.write(record_of(want))
    found = missing(plan, results, None)
    timed = {want.trial: want.timings for want in plan.wanted.values() if want.timings}
    assert (found.train, found.measure, found.untimed) == ([], [], timed)
    assert len(timed) == 2


def test_a_look_does_not_take_readings_apart(
    plan: Plan, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    for want in plan.wanted.values():
        results.write(record_of(want, readings=[Reading("loss", "nats/token", 1.0)]))
    monkeypatch.setattr("ablations.store.record.Reading", None)
    assert not any(lacks(plan, results).values())


def test_a_time_is_lacking_until_it_was_taken_beside_that_reference(ask: Ask) -> None:
    plan = planned(ask(measures=BOTH))
    control, rival = plan.wanted.values()

    def timed(against: str) -> Record:
        reading = Reading("step_time", "s", samples=[1.0], reference=[1.0], against=against)
        return record_of(rival, readings=[reading])

    assert untimed(rival, None) == untimed(rival, record_of(rival, status="error")) == []
    assert untimed(rival, record_of(rival)) == [("throughput", control.trial)]
    assert untimed(rival, timed("another")) == [("throughput", control.trial)]
    assert untimed(rival, timed(control.trial)) == []
