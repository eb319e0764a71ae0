"""Whatever a results folder holds, it is loaded, and what is wrong with it is said."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ablations.store.record import Measurement
from ablations.store.schema import RecordError
from ablations.store.stamp import ROOT, digest_of
from analysis.load import load, tabulate


def test_every_planned_cell_has_an_outcome(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "none"])
    folder.record("sinusoidal", 0, 0.25)
    folder.record("sinusoidal", 1, status="diverged", reason="loss is NaN at step 12")
    folder.results.path(folder.trial("sinusoidal", 2)).write_text("{")
    folder.record("none", 0, 0.9, status="stuck")
    loaded = load(folder.root)
    assert Counter(loaded.trials["outcome"]) == {
        "ok": 1,
        "diverged": 1,
        "stuck": 1,
        "unreadable": 1,
        "waiting": 2,
    }
    assert loaded.done() == (3, 6)
    assert list(loaded.unreadable) == [folder.trial("sinusoidal", 2)]


def test_readings_are_tidy_with_a_column_per_coordinate(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal"], seeds=[0])
    longer = Measurement(
        "loss", "nats/token", None, "valid", {"length": 64}, reason="past the maximum"
    )
    folder.record(
        "sinusoidal", 0, 0.25, measurements=[*folder.timing(1.0, processes=1, blocks=12), longer]
    )
    frame = load(folder.root).measurements
    assert list(frame["metric"]) == ["per", "per", "per", "step_time", "loss"]
    assert list(frame["step"].dropna()) == [100, 200, 300]
    assert list(frame["length"].dropna()) == [16, 64]
    assert frame["reason"].iloc[-1] == "past the maximum"
    assert len(frame["samples"].iloc[3]) == len(frame["baseline_samples"].iloc[3]) == 12


def test_a_measure_that_a_finished_trial_still_owes_is_counted(folder: Any) -> None:
    folder.ablation("position", ["baseline"], seeds=[0])
    folder.plan["experiments"]["position"]["trials"][0]["sources"] = ["quality", "throughput"]
    folder.results.write_plan(folder.plan)
    folder.record("baseline", 0, 0.3)
    assert list(load(folder.root).trials["missing"]) == [1]


def test_rubbish_in_place_of_a_record_is_named_not_fatal(folder: Any) -> None:
    rubbish = ["", "[" * 100_000, '{"schema": 99}', "null", "\x00"]
    folder.ablation("position", ["baseline"], seeds=range(6))
    folder.record("baseline", 5, 0.3)
    for seed, text in enumerate(rubbish):
        folder.results.path(folder.trial("baseline", seed)).write_text(text)
    assert list(load(folder.root).trials["outcome"]) == ["unreadable"] * 5 + ["ok"]


def test_names_lose_what_no_page_can_hold(folder: Any) -> None:
    folder.ablation("position", ["con\x00trol"], seeds=[0])
    folder.plan["experiments"]["position"]["question"] = "Does \ud800position matter?"
    folder.results.write_plan(folder.plan)
    loaded = load(folder.root)
    assert loaded.trials["variant"].iloc[0] == "con\ufffdtrol"
    loaded.experiments["position"]["question"].encode("utf-8")


def test_a_record_of_another_trial_is_named_and_left_out(folder: Any) -> None:
    folder.ablation("position", ["baseline"], seeds=[0, 1])
    folder.record("baseline", 0, 0.3)
    first, second = (folder.trial("baseline", seed) for seed in (0, 1))
    record = folder.results.read(first)
    found = tabulate(folder.root, folder.plan, {first: record, second: record})
    assert list(found.trials["outcome"]) == ["ok", "unreadable"]
    assert found.trials["reason"][1] == f"its record is of trial {first}"


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"seed": 1}, "its record is of seed 0"), ({"settings": "0" * 12}, "other settings")],
)
def test_a_cell_that_its_record_does_not_fit_is_named_and_left_out(
    folder: Any, changes: dict[str, Any], named: str
) -> None:
    """Fault 45."""
    folder.ablation("position", ["baseline", "none"], seeds=[0])
    for label in ("baseline", "none"):
        folder.record(label, 0, 0.3)
    folder.plan["experiments"]["position"]["trials"][1].update(changes)
    folder.results.write_plan(folder.plan)
    loaded = load(folder.root)
    assert list(loaded.trials["outcome"]) == ["ok", "unreadable"]
    assert named in loaded.trials["reason"][1]
    assert set(loaded.measurements["variant"]) == {"baseline"}


NAME = "analysis/wording.py"  # any file that is here
NOW = digest_of(ROOT / NAME)


@pytest.mark.parametrize(
    ("digests", "kept"),
    [((NOW, "before", NOW), [0, 2]), (("older", "old", "old"), [1, 2])],
    ids=["of today", "of one earlier version"],
)
@pytest.mark.parametrize("did", ["measured", "trained"])
def test_what_two_versions_of_the_code_did_does_not_stand_in_one_table(
    folder: Any, digests: tuple[str, ...], kept: list[int], did: str
) -> None:
    """Fault 44."""
    folder.ablation("position", ["baseline"], seeds=[0, 1, 2])
    for seed, digest in enumerate(digests):
        curve = [Measurement("per", "fraction", 0.3, "valid", {"step": 9}, source="quality")]
        code = {NAME: digest}
        by: Any = {"env": {"code": code}} if did == "trained" else {"sources": {"quality": code}}
        folder.record("baseline", seed, measurements=curve, **by)
    loaded = load(folder.root)
    assert list(loaded.measurements["seed"]) == kept
    (lost,) = {0, 1, 2} - set(kept)
    assert (folder.trial("baseline", lost) in loaded.stale) == (NOW in digests or lost == 0)


def test_no_folder_and_no_plan_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no results folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(RecordError, match=r"no plan.*run an ablation there first"):
        load(tmp_path)


def test_a_measure_that_this_table_does_not_ask_for_is_not_read_and_makes_nothing_stale(
    folder: Any,
) -> None:
    folder.ablation("position", ["baseline"], seeds=[0])
    asked, not_asked = (
        Measurement(name, "1", 0.3, "valid", {"step": 9}, source=name)
        for name in ("quality", "calibration")
    )
    taken = {"quality": {}, "calibration": {"model/norms.py": "before"}}
    folder.record("baseline", 0, measurements=[asked, not_asked], sources=taken)
    loaded = load(folder.root)
    assert list(loaded.measurements["metric"]) == ["quality"]
    assert loaded.stale == frozenset()
