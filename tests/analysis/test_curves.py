"""Curves: what belongs to one, how far it lies from the control's, and where the two cross."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from labs import METRICS, counts, failed

from ablations.store.record import Reading
from analysis import stats
from analysis.contrasts import Evidence, gather
from analysis.curves import FEWEST, crossings, curves, exponents, on_curves, walked

PLACE = {"batch": 1, "pass": "training"}
CONTROL = {64: (0.010, 0.011, 0.012), 128: (0.020, 0.021, 0.019), 256: (0.042, 0.040, 0.041)}
VARIANT = {64: (0.030, 0.032, 0.034), 128: (0.024, 0.026, 0.023), 256: (0.020, 0.021, 0.022)}


def took(times: dict[int, tuple[float, ...]], session: str = "s1") -> list[Reading]:
    """A sample for each process, beside a reference that is the same everywhere."""
    return [
        Reading("layer_time", "s", at={"length": length, **PLACE}, session=f"{session}.{process}",
                samples=[seconds], reference=[0.01], twin=[0.01])
        for length, each in times.items()
        for process, seconds in enumerate(each)
    ]  # fmt: skip


def plan(folder: Any, seeds: tuple[int, ...] = (200,)) -> None:
    folder.ablation("length", ["attention", "lstm"], seeds=list(seeds), metrics=METRICS)


def timed(folder: Any, control: Any = CONTROL, variant: Any = VARIANT) -> Evidence:
    plan(folder)
    folder.record("attention", 200, readings=took(control))
    folder.record("lstm", 200, readings=took(variant))
    return gather(folder.root)


def of(frame: pd.DataFrame, label: str) -> pd.DataFrame:
    return frame[frame["label"] == label].set_index("x")


@pytest.mark.parametrize(
    ("place", "series"),
    [
        ({"length": 64, "batch": 1, "pass": "training"}, "batch 1, training"),
        ({"position": 16, "batch": 4, "cache": "kept"}, "batch 4, kept"),
        ({"length": 8, "batch": 32, "pass": "forward", "tokens": 256}, "256 tokens, forward"),
        ({"length": 8, "of": "layer"}, "layer"),
        ({"length": 8}, ""),
    ],
)
def test_a_place_lies_so_far_along_a_series(place: dict[str, Any], series: str) -> None:
    found = walked(place)
    assert found is not None
    assert (found["along"], found["x"], found["series"]) == (*next(iter(place.items())), series)
    told = place.get("batch", math.nan)
    assert found["batch"] == told or math.isnan(found["batch"]) == math.isnan(told)


def test_fewer_than_three_lengths_are_no_curve(folder: Any) -> None:
    short = {length: VARIANT[length] for length in (64, 128)}
    evidence = timed(folder, {length: CONTROL[length] for length in short}, short)
    assert len(short) == FEWEST - 1
    assert curves(evidence).empty
    assert not on_curves(evidence).any()


def test_a_length_at_which_one_failed_is_still_one_of_the_three(folder: Any) -> None:
    plan(folder)
    folder.record("attention", 200, readings=took(CONTROL))
    kept = {length: VARIANT[length] for length in (64, 128)}
    late = failed("layer_time", {"length": 256, **PLACE})
    folder.record("lstm", 200, readings=[*took(kept), *late])
    evidence = gather(folder.root)
    row = of(curves(evidence), "lstm").loc[256]
    assert math.isnan(row["value"])
    assert row["reason"].startswith("time-out")
    assert on_curves(evidence).all()


def test_a_value_is_the_mean_over_processes_and_a_ratio_is_to_the_control_at_that_length(
    folder: Any,
) -> None:
    frame = curves(timed(folder))
    for length, times in VARIANT.items():
        row = of(frame, "lstm").loc[length]
        assert row["value"] == pytest.approx(math.prod(times) ** (1 / 3))
        assert row["low"] < row["value"] < row["high"]
        logs = np.log(np.divide(times, CONTROL[length]))
        assert row["ratio"] == pytest.approx(math.exp(logs.mean()))
        half = 4.302653 * logs.std(ddof=1) / math.sqrt(3)  # t of 2 degrees of freedom
        ends = math.exp(logs.mean() - half), math.exp(logs.mean() + half)
        assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(ends, rel=1e-6)
    assert of(frame, "attention")["ratio"].tolist() == pytest.approx([1, 1, 1])


def test_times_of_another_session_have_no_ratio(folder: Any) -> None:
    plan(folder)
    folder.record("attention", 200, readings=took(CONTROL))
    folder.record("lstm", 200, readings=took(VARIANT, session="s2"))
    own = of(curves(gather(folder.root)), "lstm")
    assert own["value"].notna().all()
    assert own["ratio"].isna().all()


def test_a_crossing_is_the_one_of_the_log_ratios(folder: Any) -> None:
    (found,) = crossings(curves(timed(folder))).to_dict("records")
    logs_SL = np.log([np.divide(VARIANT[n], CONTROL[n]) for n in CONTROL]).T
    assert found["label"] == "lstm"
    expected = stats.crossing(list(CONTROL), logs_SL)
    assert expected.changes == 1
    told = {name: getattr(expected, name) for name in ("changes", "low", "high", "at")}
    assert {name: found[name] for name in told} == pytest.approx(told)
    # Between 128 and 256 the mean curve is straight in the logarithm of the length.
    before, after = logs_SL.mean(axis=0)[1:]
    assert found["at"] == pytest.approx(128 * 2 ** (before / (before - after)))


def test_a_curve_grows_with_the_power_of_its_longer_half(folder: Any) -> None:
    grows = exponents(curves(timed(folder))).set_index("label")
    slopes = np.log2(np.divide(CONTROL[256], CONTROL[128]))
    assert grows.loc["attention", "exponent"] == pytest.approx(slopes.mean())
    assert grows.loc["attention", "since"] == 128


def test_a_second_seed_adds_no_second_line(folder: Any) -> None:
    plan(folder, (200, 201))
    slower = {length: tuple(3 * t for t in times) for length, times in VARIANT.items()}
    for seed, variant in ((200, VARIANT), (201, slower)):
        folder.record("attention", seed, readings=[*took(CONTROL), *counts(2)])
        folder.record("lstm", seed, readings=[*took(variant), *counts(1)])
    frame = curves(gather(folder.root))
    assert not frame.duplicated(["label", "metric", "series", "x"]).any()
    own = of(frame[frame["metric"] == "layer_time"], "lstm")
    assert own.loc[64, "value"] == pytest.approx(math.prod(VARIANT[64]) ** (1 / 3))
    assert own.loc[64, "ratio"] == pytest.approx(
        math.prod(np.divide(VARIANT[64], CONTROL[64])) ** (1 / 3)
    )


def test_counts_are_curves_without_ends_or_ratio(folder: Any) -> None:
    plan(folder)
    folder.record("lstm", 200, readings=counts(1))
    frame = curves(gather(folder.root))
    work = of(frame[frame["metric"] == "mixing_work"], "lstm")
    assert work["value"].tolist() == [128.0 * length for length in work.index]
    assert work[["low", "high", "ratio"]].isna().all(axis=None)
    peak = frame[(frame["metric"] == "peak_memory") & frame["value"].isna()]
    assert set(peak["reason"]) == {"below 1 MiB"}
