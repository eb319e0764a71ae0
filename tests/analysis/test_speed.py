"""Step times are compared within a block, over the noise of their own session."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from ablations.store.record import Reading
from analysis.load import load
from analysis.speed import SAME, speeds


def timed(folder: Any) -> pd.DataFrame:
    return speeds(load(folder.root)).set_index("label")


def plan(folder: Any) -> None:
    folder.ablation("position", ["control", "slow", "equal"], seeds=[0])


def test_a_slow_variant_is_slower_and_an_equal_one_is_not_resolved(folder: Any) -> None:
    plan(folder)
    for label, ratio in (("control", 1.0), ("slow", 1.1), ("equal", 1.0)):
        session = "s1" if label != "equal" else "s2"
        folder.record(label, 0, 0.2, readings=folder.timing(ratio, session=session))
    found = timed(folder)
    assert found.loc["control", "verdict"] == SAME
    assert found.loc["slow", "verdict"] == "slower"
    assert found.loc["slow", "low"] < 1.1 < found.loc["slow", "high"]
    assert found.loc["equal", "verdict"] == "not resolved"


def test_a_difference_below_the_noise_floor_is_not_resolved(folder: Any) -> None:
    plan(folder)
    folder.record("control", 0, 0.2, readings=folder.timing(1.0))
    folder.record("slow", 0, 0.2, readings=folder.timing(1.03, noise=0.001, twin_noise=0.2))
    row = timed(folder).loc["slow"]
    assert row["floor"] > 1.03
    assert row["low"] == pytest.approx(row["ratio"] / row["floor"])  # widened to the A/A interval
    assert row["high"] == pytest.approx(row["ratio"] * row["floor"])
    assert row["verdict"] == "not resolved"


def test_times_beside_the_control_of_another_question_do_not_count(folder: Any) -> None:
    plan(folder)
    ours = folder.trial("control", 0)
    beside = [*folder.timing(2.0, against="somebodyelse"), *folder.timing(1.1, against=ours)]
    folder.record("slow", 0, 0.2, readings=beside)
    assert 1.05 < timed(folder).loc["slow", "ratio"] < 1.15


def test_what_decides_nothing_says_why(folder: Any) -> None:
    took: Any = {"at": {"length": 8}, "session": "s1.0", "samples": [0.1, 0.2]}
    alone = folder.timing(2.0)
    for reading in alone:
        reading.twin = None
    readings = {
        "two": folder.timing(2.0, processes=2),
        "alone": alone,
        "bare": [Reading("step_time", "s", **took)],
        "stopped": [Reading("step_time", "s", **took, reference=[0.1, 0.0])],
    }
    folder.ablation("position", ["control", *readings], seeds=[0])
    for label, each in readings.items():
        folder.record(label, 0, 0.2, readings=each)
    found = timed(folder)
    assert found["n"].to_dict() == {"two": 2, "alone": 3, "bare": 0, "stopped": 0}
    told = ["fewer than 3 processes", "not resolved", "not run", "not run"]
    assert found["verdict"].tolist() == told
    assert math.isnan(found.loc["alone", "floor"])
    assert found.loc["bare", "reason"] == "timed without a reference"
    assert found.loc["stopped", "reason"] == "a time is not a positive number"


def test_a_control_beside_itself_elsewhere_is_an_effect_and_named_so(folder: Any) -> None:
    """Batches padded to the longest of all, beside batches padded to their own."""
    told = {"label": "time of a pass", "unit": "s", "better": "lower", "beside": {"to": "own"}}
    folder.ablation("padding", ["control"], seeds=[0], metrics={"padded_time": told})
    readings = [
        reading
        for to, ratio in (("own", 1.0), ("longest", 1.4))
        for reading in folder.timing(ratio, metric="padded_time", batches=4, to=to)
    ]
    folder.record("control", 0, 0.2, readings=readings)
    found = timed(folder).set_index("at")
    own, longest = found.loc["batches 4, to own"], found.loc["batches 4, to longest"]
    assert (own["verdict"], own["against"]) == (SAME, "control")
    assert (longest["verdict"], longest["against"]) == ("slower", "control, to own")
    assert longest["ratio"] == pytest.approx(1.4, rel=0.05)


def test_peak_memory_stands_beside_the_control_s(folder: Any) -> None:
    plan(folder)
    place = {"length": 16, "batch": 64}
    for label, peak in (("control", 1e8), ("slow", 3e8)):
        memory = [
            Reading("peak_memory", "B", share * peak, at={**place, "pass": word})
            for word, share in (("training", 1.0), ("forward", 0.4), ("decoding", 0.2))
        ]  # of which the largest counts
        folder.record(label, 0, 0.2, readings=[*folder.timing(1.0), *memory])
    row = timed(folder).loc["slow"]
    assert row["peak_memory"] == pytest.approx(3e8)
    assert row["control_peak_memory"] == pytest.approx(1e8)
