"""The numbers that figures are drawn from: what goes into each frame is what was recorded."""

from __future__ import annotations

import math
import re
import statistics
from typing import Any

import labs
import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from ablations.predictions import COORDINATES
from analysis import plots
from analysis.chapters import answer
from analysis.contrasts import Evidence, gather
from analysis.plots import Panel, calibration, coordinates, pareto


def the(every: list[Panel], kind: str, ablation: str, words: str = "") -> pd.DataFrame:
    """The frame of the one panel that this describes."""
    found = [
        panel.frame
        for panel in every
        if (panel.kind, panel.experiment) == (kind, ablation)
        and words in f"{panel.title}; {panel.subtitle}"
    ]
    assert len(found) == 1, [panel.title for panel in every if panel.experiment == ablation]
    return found[0]


def t_interval(values: list[float]) -> tuple[float, float]:
    middle, n = statistics.mean(values), len(values)
    half = t.ppf(0.975, n - 1) * statistics.stdev(values) / math.sqrt(n)
    return middle - half, middle + half


def test_every_kind_has_something_to_show_under_a_name_of_its_own(every: list[Panel]) -> None:
    assert {panel.kind for panel in every} == set(plots.KINDS)
    names = [panel.name for panel in every]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names), names
    for panel in every:
        known = panel.frame["value"].dropna()
        assert f"{known.min():.3g}" in panel.alt
        assert f"{known.max():.3g}" in panel.alt
        assert (panel.experiment is None) == (panel.kind == "overview")


def test_a_forest_shows_each_pair_of_seeds_their_mean_and_its_interval(
    evidence: Evidence, every: list[Panel]
) -> None:
    frame = the(every, "forest", "position")
    measurements = evidence.loaded.measurements.query("experiment == 'position' and step == 300")
    scores = {
        (row["variant"], row["seed"]): row["value"] for row in measurements.to_dict("records")
    }
    for row in frame[frame["n"] > 2].to_dict("records"):
        told = [
            value - scores["sinusoidal", seed]
            for (label, seed), value in scores.items()
            if label == row["variant"]
        ]
        assert row["points"] == pytest.approx(told)
        assert row["value"] == pytest.approx(statistics.mean(told))
        assert (row["low"], row["high"]) == pytest.approx(t_interval(told))
    assert frame.attrs["sides"] == ("better", "worse")
    assert the(every, "forest", "recall").attrs["sides"] == ("worse", "better")
    assert the(every, "forest", "heads").attrs["x_label"] == "difference (nats/token)"


def test_fewer_than_three_seeds_have_no_interval_in_any_figure(every: list[Panel]) -> None:
    thin = 0
    for panel in every:
        if {"n", "low", "high"} <= set(panel.frame):
            few = panel.frame[(panel.frame["n"] < 3) & panel.frame["value"].notna()]
            thin += len(few)
            if panel.kind != "learning":
                assert few[["low", "high"]].isna().all().all(), panel.title
    assert thin, "nothing had fewer than three seeds"


def test_failed_seeds_are_told_marked_at_what_they_came_to_and_in_no_mean(
    every: list[Panel], folder: Any
) -> None:
    assert the(every, "forest", "position").set_index("variant").loc["alibi", "n"] == 4
    lost = the(every, "forest", "norm").set_index("variant").loc["no norm"]
    assert math.isnan(lost["value"])
    assert lost["words"] == "5 of 5 diverged"
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1, 2, 3])
    for seed in range(4):
        folder.record("pre", seed, 0.2 + 0.01 * seed)
        is_stuck = seed == 3
        folder.record("post", seed, 0.9 if is_stuck else 0.3, status="stuck" if is_stuck else "ok")
    (panel,) = plots.panels(gather(folder.root), ["forest"])
    (row,) = panel.frame.to_dict("records")
    assert row["words"] == "1 of 4 stuck"
    assert row["lost"] == pytest.approx([0.9 - 0.23])
    assert row["points"] == pytest.approx([0.1, 0.09, 0.08])
    assert row["value"] == pytest.approx(0.09)
    folder.record("pre", 2, status="diverged")
    (panel,) = plots.panels(gather(folder.root), ["forest"])
    assert panel.frame["words"].tolist() == ["1 of 4 stuck; baseline: 1 of 4 diverged"]
    assert "1 of 4 stuck, baseline: 1 of 4 diverged" in answer(gather(folder.root), "norm")


def test_a_record_that_cannot_be_read_is_no_failed_seed(folder: Any) -> None:
    folder.ablation("size", ["a", "b"], crossings=[{"depth": "1"}, {"depth": "2"}])
    for depth in ("1", "2"):
        for seed in range(3):
            folder.record("a", seed, 0.2, factors={"depth": depth})
            folder.record("b", seed, 0.3, factors={"depth": depth})
    path = folder.results.path(folder.trial("b", 2, {"depth": "2"}))
    path.write_text(path.read_text()[:100])
    (panel,) = plots.panels(gather(folder.root), ["lines"])
    assert not any(panel.frame["lost"])
    told = panel.frame.set_index(["variant", "x"])["n"].to_dict()
    assert told == {("a", 1.0): 3, ("a", 2.0): 3, ("b", 1.0): 3, ("b", 2.0): 2}


def test_times_stand_as_ratios_with_each_process(every: list[Panel], evidence: Evidence) -> None:
    frame = the(every, "speed", "position").set_index("variant")
    assert "sinusoidal" not in frame.index, "the baseline beside itself is no comparison"
    told = {"none": 0.97, "learned": 1.002, "rotary": 1.12, "alibi": 1.31}
    for label, ratio in told.items():
        row = frame.loc[label]
        assert row["value"] == pytest.approx(ratio, rel=0.03)
        assert len(row["points"]) == row["n"] == 3
        assert math.prod(row["points"]) ** (1 / 3) == pytest.approx(row["value"])
    assert frame.loc["alibi", "mark"] == "worse"


def test_learning_curves_average_the_seeds_that_ended_well(every: list[Panel]) -> None:
    frame = the(every, "learning", "schedule [tuned]")
    for label, seeds in (("both", (0, 1, 2)), ("no warm-up", (0, 2))):
        level = {"both": 1.8, "no warm-up": 2.0}[label]
        mean = frame[(frame["variant"] == label) & frame["seed"].isna()].sort_values("x")
        assert mean["x"].tolist() == list(labs.STEPS)
        for row in mean.to_dict("records"):
            told = [labs.loss_at(row["x"], seed, level) for seed in seeds]
            assert row["value"] == pytest.approx(statistics.mean(told))
            ends = t_interval(told) if len(told) > 2 else (math.nan, math.nan)
            assert (row["low"], row["high"]) == pytest.approx(ends, nan_ok=True)
    lost = frame[frame["is_lost"]]
    assert set(zip(lost["variant"], lost["seed"], strict=True)) == {("no warm-up", 1)}


def test_readings_stand_at_their_coordinate_and_a_seed_without_a_number_leaves_none(
    every: list[Panel],
) -> None:
    frame = the(every, "lines", "heads", "data=3k: gradient norm")
    assert sorted(set(frame["x"])) == list(labs.DEPTHS)
    for row in frame[frame["variant"] == "8 heads"].to_dict("records"):
        told = [0.5 * (1 + 0.02 * (seed % 3) ** 2) * row["x"] ** -0.5 for seed in range(5)]
        assert row["value"] == pytest.approx(statistics.mean(told))
        assert (row["low"], row["high"]) == pytest.approx(t_interval(told))
        assert sorted(row["points"]) == pytest.approx(sorted(told))
    past = the(every, "lines", "heads", "data=3k: perplexity past")
    (lost,) = past[past["value"].isna()].to_dict("records")
    assert (lost["variant"], lost["x"], lost["reason"]) == ("1 head", 4.0, labs.TOO_FAR)
    assert past.attrs["level"] == past.attrs["upright"] == 1.0


def test_scores_stand_by_what_a_question_is_crossed_with(every: list[Panel]) -> None:
    frame = the(every, "lines", "recall", "by distance")
    assert sorted(set(frame["x"])) == [4.0, 36.0]
    for row in frame.to_dict("records"):
        distance = int(row["x"])
        told = {s: labs.recalled(row["variant"], distance, s) for s in labs.SEEDS}
        stuck = [seed for seed, right in told.items() if right < 0.5 and seed == 202]
        fine = [right for seed, right in told.items() if seed not in stuck]
        assert sorted(row["points"]) == pytest.approx(sorted(fine))
        assert row["lost"] == pytest.approx([told[seed] for seed in stuck])
        assert row["value"] == pytest.approx(statistics.mean(fine))
    assert frame.attrs["floor"][0] == 0.25, "what an answer without looking gets"
    levels = the(every, "lines", "heads", "loss by data")
    assert list(dict.fromkeys(levels["tick"])) == ["3k", "30k"]


def test_heat_maps_hold_the_recorded_matrices(every: list[Panel]) -> None:
    surface = the(every, "heatmap", "heads", "data=3k: loss around")
    for row in surface.to_dict("records"):
        x, y = (float(row[f"{side}_name"].replace("−", "-")) for side in ("column", "row"))
        told = labs.loss(x, y, 0, 1.0 if row["facet"] == "8 heads" else 1.5)
        assert row["value"] == pytest.approx(math.nan if told is None else told, nan_ok=True)
    layers = [p for p in every if p.kind == "heatmap" and "attention" in p.title]
    assert [any(layer in p.title for p in layers) for layer in labs.LAYERS] == [True] * 3
    for panel in layers:
        sums = panel.frame.groupby(["facet", "row"])["value"].sum()
        assert sums.tolist() == pytest.approx([1.0] * len(sums), abs=1e-3)
    alike = the(every, "heatmap", "where")
    assert set(alike["facet"]) == {"sines", "table"}
    for row in alike[alike["facet"] == "table"].to_dict("records"):
        assert row["value"] == pytest.approx(labs.cosine(row["row"], row["column"]))


def test_the_overview_shows_per_cent_of_the_baseline(
    every: list[Panel], evidence: Evidence
) -> None:
    frame = next(panel.frame for panel in every if panel.kind == "overview")
    none = frame[(frame["experiment"] == "position") & (frame["variant"] == "none")].iloc[0]
    contrast = evidence.contrasts.query("experiment == 'position' and variant == 'none'").iloc[0]
    share = 100 / contrast["baseline_mean"]
    assert none["value"] == pytest.approx(share * contrast["difference"])
    assert (none["low"], none["high"]) == pytest.approx(
        (share * contrast["low"], share * contrast["high"])
    )
    assert (frame["n"] >= 3).all()


def test_times_by_length_are_those_of_the_clock_and_what_failed_has_a_reason(
    every: list[Panel],
) -> None:
    panels = {
        panel.subtitle: panel
        for panel in every
        if (panel.kind, panel.experiment) == ("lines", "length")
    }
    assert list(panels) == ["batch 1, forward", "batch 1, training"]
    frame, note = panels["batch 1, forward"].frame, panels["batch 1, forward"].note
    lstm = frame[frame["variant"] == "lstm"].sort_values("x")
    assert lstm["x"].tolist() == list(labs.LENGTHS)
    for row in lstm.to_dict("records"):
        assert row["value"] == pytest.approx(labs.seconds("lstm", row["x"]), rel=0.6)
        assert len(row["points"]) == row["n"]
        assert math.prod(row["points"]) ** (1 / row["n"]) == pytest.approx(row["value"])
    assert 256 < lstm["cross_low"].iloc[0] < lstm["cross_high"].iloc[0] < 512
    assert "lstm crosses the baseline at" in note
    label, _, length = labs.TIMED_OUT
    slow = panels["batch 1, training"]
    (lost,) = slow.frame[slow.frame["value"].isna()].to_dict("records")
    assert (lost["variant"], lost["x"]) == (label, length)
    assert "×: time-out" in slow.note


def test_every_axis_of_a_curve_is_a_coordinate_of_measurements() -> None:
    assert set(coordinates.READ) <= set(COORDINATES)


def test_shares_are_what_was_found(every: list[Panel]) -> None:
    shares = next(p.frame for p in every if p.experiment == "models" and "FLOPs" in p.subtitle)
    here = shares[shares["x"] == shares["x"].min()].set_index("name")["value"].to_dict()
    assert sum(here.values()) == pytest.approx(1.0)
    whole = 1 - labs.PARTS["mixing"] * (1 - labs.RATIOS[0])
    assert here["feedforward"] == pytest.approx(labs.PARTS["feedforward"] / whole)
    assert shares["colour"].nunique() == len(labs.PARTS)


def test_calibration_keeps_every_bin_and_pools_seeds_by_their_labels(every: list[Panel]) -> None:
    frame = the(every, "calibration", "smoothing")
    own = frame[frame["variant"] == "none"]
    told = [labs.bins(seed, 0.1) for seed in labs.SEEDS]
    found = [rows["accuracy"].tolist() for _, rows in own.groupby("seed")]
    assert np.array(found) == pytest.approx(
        np.array([[row[3] for row in rows] for rows in told], dtype=float), nan_ok=True
    )
    whole = calibration.pooled(own)
    last = [rows[-1] for rows in told]
    count = sum(row[4] or 0 for row in last)
    right = sum((row[3] or 0) * (row[4] or 0) for row in last)
    assert whole["count"].iloc[-1] == count
    assert whole["accuracy"].iloc[-1] == pytest.approx(right / count)


def test_what_is_published_stands_beside_ours_each_over_its_own_baseline(
    every: list[Panel],
) -> None:
    longer = the(every, "published", "longer")
    assert longer[longer["hollow"]]["n"].max() == 1
    for row in longer[~longer["hollow"] & (longer["x"] > 1)].to_dict("records"):
        assert row["value"] == pytest.approx(labs.PAST[row["variant"]][row["x"]])
    heads = the(every, "published", "text-heads")
    ours = heads[~heads["hollow"]].set_index("variant")["value"]
    for label, more in labs.MORE.items():
        ratios = [math.exp(more * (1 + 10 * labs.LUCK[seed])) for seed in (200, 201, 202)]
        assert ours[label] == pytest.approx(statistics.mean(ratios))
    theirs = heads[heads["hollow"]].set_index("x")["value"]
    assert (theirs[8], theirs[1]) == pytest.approx((1.0, 5.29 / 4.92))
    kept = the(every, "published", "warmup").query("not hollow").set_index("variant")["value"]
    share = (labs.NOTHING - 2.2) / (labs.NOTHING - 2.0)
    assert kept.to_dict() == pytest.approx(
        {"pre, none": 1.0, "post, none": 0.0, "post, 150 steps": share}, abs=1e-4
    )


def test_the_front_is_what_is_better_than_all_that_is_cheaper() -> None:
    arms = {"cost": [1, 2, 3, 4], "value": [0.4, 0.5, 0.45, 0.9], "is_broken": [False] * 3 + [True]}
    found = [pareto._front(pd.DataFrame({**arms, "better": way})) for way in ("higher", "lower")]
    assert found == [[True, True, False, False], [True, False, False, False]]
