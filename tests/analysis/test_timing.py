"""Times are compared within a block, over the noise of their own session; curves grow and cross."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from labs import METRICS, counts, failed

from ablations.store.record import Measurement
from analysis import stats
from analysis.contrasts import Evidence, gather
from analysis.load import load
from analysis.timing import SAME, along, crossings, curves, exponents, on_curves, speeds

# --- single places


def timed(folder: Any) -> pd.DataFrame:
    return speeds(load(folder.root)).set_index("variant")


def plan(folder: Any) -> None:
    folder.ablation("position", ["baseline", "slow", "equal"], seeds=[0])


def test_a_slow_variant_is_slower_and_an_equal_one_is_not_resolved(folder: Any) -> None:
    plan(folder)
    for label, ratio in (("baseline", 1.0), ("slow", 1.1), ("equal", 1.0)):
        session = "s1" if label != "equal" else "s2"
        folder.record(label, 0, 0.2, measurements=folder.timing(ratio, session=session))
    found = timed(folder)
    assert found["verdict"].to_dict() == {
        "baseline": SAME,
        "slow": "slower",
        "equal": "not resolved",
    }
    assert found.loc["slow", "low"] < 1.1 < found.loc["slow", "high"]


def test_a_difference_below_the_noise_floor_is_not_resolved(folder: Any) -> None:
    plan(folder)
    folder.record("baseline", 0, 0.2, measurements=folder.timing(1.0))
    folder.record("slow", 0, 0.2, measurements=folder.timing(1.03, noise=0.001, twin_noise=0.2))
    row = timed(folder).loc["slow"]
    assert row["floor"] > 1.03
    assert row["low"] == pytest.approx(row["ratio"] / row["floor"])  # widened to the A/A interval
    assert row["high"] == pytest.approx(row["ratio"] * row["floor"])
    assert row["verdict"] == "not resolved"


def test_times_beside_the_baseline_of_another_experiment_do_not_count(folder: Any) -> None:
    plan(folder)
    ours = folder.trial("baseline", 0)
    beside = [*folder.timing(2.0, baseline="somebodyelse"), *folder.timing(1.1, baseline=ours)]
    folder.record("slow", 0, 0.2, measurements=beside)
    assert 1.05 < timed(folder).loc["slow", "ratio"] < 1.15


def test_what_decides_nothing_says_why(folder: Any) -> None:
    took: Any = {"coordinates": {"length": 8}, "session": "s1.0", "samples": [0.1, 0.2]}
    alone = folder.timing(2.0)
    for measurement in alone:
        measurement.baseline_again = None
    measurements = {
        "two": folder.timing(2.0, processes=2),
        "alone": alone,
        "bare": [Measurement("step_time", "s", **took)],
        "stopped": [Measurement("step_time", "s", **took, baseline_samples=[0.1, 0.0])],
    }
    folder.ablation("position", ["baseline", *measurements], seeds=[0])
    for label, each in measurements.items():
        folder.record(label, 0, 0.2, measurements=each)
    found = timed(folder)
    assert found["n"].to_dict() == {"two": 2, "alone": 3, "bare": 0, "stopped": 0}
    words = ["fewer than 3 processes", "not resolved", "not run", "not run"]
    assert found["verdict"].tolist() == words
    assert math.isnan(found.loc["alone", "floor"])
    assert found.loc["bare", "reason"] == "timed without a reference"
    assert found.loc["stopped", "reason"] == "a time is not a positive number"


def test_a_baseline_beside_itself_elsewhere_is_an_effect_and_named_so(folder: Any) -> None:
    """Batches padded to the longest of all, beside batches padded to their own."""
    metric = {"title": "time of a pass", "unit": "s", "better": "lower", "beside": {"to": "own"}}
    folder.ablation("padding", ["baseline"], seeds=[0], metrics={"padded_time": metric})
    measurements = [
        measurement
        for to, ratio in (("own", 1.0), ("longest", 1.4))
        for measurement in folder.timing(ratio, metric="padded_time", batches=4, to=to)
    ]
    folder.record("baseline", 0, 0.2, measurements=measurements)
    found = timed(folder).set_index("where")
    own, longest = found.loc["batches 4, to own"], found.loc["batches 4, to longest"]
    assert (own["verdict"], own["compared_with"]) == (SAME, "baseline")
    assert (longest["verdict"], longest["compared_with"]) == ("slower", "baseline, to own")
    assert longest["ratio"] == pytest.approx(1.4, rel=0.05)


# --- curves

PLACE = {"batch": 1, "pass": "training"}
BASELINE = {64: (0.010, 0.011, 0.012), 128: (0.020, 0.021, 0.019), 256: (0.042, 0.040, 0.041)}
VARIANT = {64: (0.030, 0.032, 0.034), 128: (0.024, 0.026, 0.023), 256: (0.020, 0.021, 0.022)}


def took(times: dict[int, tuple[float, ...]], session: str = "s1") -> list[Measurement]:
    """A sample for each process, beside a reference that is the same everywhere."""
    return [
        Measurement("layer_time", "s", coordinates={"length": length, **PLACE},
                session=f"{session}.{process}", samples=[seconds], baseline_samples=[0.01],
                baseline_again=[0.01])
        for length, each in times.items()
        for process, seconds in enumerate(each)
    ]  # fmt: skip


def curved(folder: Any, *variants: list[Measurement], baseline: Any = BASELINE) -> Evidence:
    """One seed for each list of the variant's measurements."""
    seeds = list(range(200, 200 + len(variants)))
    folder.ablation("length", ["attention", "lstm"], seeds=seeds, metrics=METRICS)
    for seed, measurements in zip(seeds, variants, strict=True):
        folder.record("attention", seed, measurements=took(baseline))
        folder.record("lstm", seed, measurements=measurements)
    return gather(folder.root)


def of(frame: pd.DataFrame, label: str) -> pd.DataFrame:
    return frame[frame["variant"] == label].set_index("x")


@pytest.mark.parametrize(
    ("where", "series"),
    [
        ({"length": 64, "batch": 1, "pass": "training"}, "batch 1, training"),
        ({"length": 8, "batch": 32, "pass": "forward", "tokens": 256}, "256 tokens, forward"),
        ({"position": 8}, ""),
    ],
)
def test_a_place_lies_so_far_along_a_series(where: dict[str, Any], series: str) -> None:
    name, x = next(iter(where.items()))
    assert along(where) == {"along": name, "x": x, "series": series}


def test_three_lengths_are_a_curve_also_where_one_failed_and_two_are_none(folder: Any) -> None:
    kept = took({length: VARIANT[length] for length in (64, 128)})
    evidence = curved(folder, [*kept, *failed("layer_time", {"length": 256, **PLACE})])
    row = of(curves(evidence), "lstm").loc[256]
    assert math.isnan(row["value"])
    assert row["reason"].startswith("time-out")
    assert on_curves(evidence).all()
    evidence = curved(folder, kept, baseline={length: BASELINE[length] for length in (64, 128)})
    assert curves(evidence).empty
    assert not on_curves(evidence).any()


def test_a_value_is_the_mean_over_processes_and_a_ratio_is_to_the_baseline_at_that_length(
    folder: Any,
) -> None:
    slower = {length: tuple(3 * t for t in times) for length, times in VARIANT.items()}
    frame = curves(curved(folder, took(VARIANT), took(slower)))
    assert not frame.duplicated(
        ["variant", "metric", "series", "x"]
    ).any()  # of the first seed only
    for length, times in VARIANT.items():
        row = of(frame, "lstm").loc[length]
        assert row["value"] == pytest.approx(math.prod(times) ** (1 / 3))
        assert row["low"] < row["value"] < row["high"]
        logs = np.log(np.divide(times, BASELINE[length]))
        assert row["ratio"] == pytest.approx(math.exp(logs.mean()))
        half = 4.302653 * logs.std(ddof=1) / math.sqrt(3)  # t of 2 degrees of freedom
        ends = math.exp(logs.mean() - half), math.exp(logs.mean() + half)
        assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(ends, rel=1e-6)
    assert of(frame, "attention")["ratio"].tolist() == pytest.approx([1, 1, 1])


def test_times_of_another_session_have_no_ratio(folder: Any) -> None:
    own = of(curves(curved(folder, took(VARIANT, session="s2"))), "lstm")
    assert own["value"].notna().all()
    assert own["ratio"].isna().all()


def test_a_crossing_is_the_one_of_the_log_ratios(folder: Any) -> None:
    (found,) = crossings(curves(curved(folder, took(VARIANT)))).to_dict("records")
    logs_SL = np.log([np.divide(VARIANT[n], BASELINE[n]) for n in BASELINE]).T
    expected = stats.crossing(list(BASELINE), logs_SL)
    assert (found["variant"], expected.changes) == ("lstm", 1)
    names = ("changes", "low", "high", "at")
    assert [found[name] for name in names] == pytest.approx([getattr(expected, n) for n in names])
    # Between 128 and 256 the mean curve is straight in the logarithm of the length.
    before, after = logs_SL.mean(axis=0)[1:]
    assert found["at"] == pytest.approx(128 * 2 ** (before / (before - after)))


def test_a_curve_grows_with_the_power_of_its_longer_half(folder: Any) -> None:
    grows = exponents(curves(curved(folder, took(VARIANT)))).set_index("variant")
    slopes = np.log2(np.divide(BASELINE[256], BASELINE[128]))
    assert grows.loc["attention", "exponent"] == pytest.approx(slopes.mean())
    assert grows.loc["attention", "since"] == 128


def test_counts_are_curves_without_ends_or_ratio(folder: Any) -> None:
    frame = curves(curved(folder, counts(1)))
    work = of(frame[frame["metric"] == "mixing_work"], "lstm")
    assert work["value"].tolist() == [128.0 * length for length in work.index]
    assert work[["low", "high", "ratio"]].isna().all(axis=None)
    peak = frame[(frame["metric"] == "peak_memory") & frame["value"].isna()]
    assert set(peak["reason"]) == {"below 1 MiB"}
