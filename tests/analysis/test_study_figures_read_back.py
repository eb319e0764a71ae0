"""What is drawn of claims, smoothing, recall, cost and papers is what was read."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from study_lab import (
    BINS,
    FLOPS,
    HEADS,
    LUCK,
    MORE,
    PAST,
    SEEDS,
    SIZED,
    STEP,
    TOKENS,
    bins,
    losses,
    recalled,
)

from analysis import figures, style
from analysis.curves import looks_of
from analysis.evidence import Evidence, gather
from analysis.figures.overview import FAR, SIGNS
from analysis.load import listed
from analysis.published import NUMBERS, OURS

BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#767676"
T4, T2 = 2.776445, 4.302653  # Student's t of 4 and of 2 degrees of freedom, 95 %


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory, study: Callable[[Path], Any]) -> Evidence:
    return gather(study(tmp_path_factory.mktemp("study")).root)


@pytest.fixture(scope="module")
def drawn(evidence: Evidence) -> Callable[[str], list[tuple[pd.DataFrame, Axes]]]:
    """Each frame of a figure with the axis that it was drawn on."""
    kept: dict[str, list[tuple[pd.DataFrame, Axes]]] = {}

    def draw(name: str) -> list[tuple[pd.DataFrame, Axes]]:
        if name not in kept:
            frames = figures.panels(name, evidence)
            figure = figures.compose(name, frames)
            with style.look():
                FigureCanvasAgg(figure).draw()
            kept[name] = list(zip(frames, figure.axes, strict=True))
        return kept[name]

    return draw


def of_marker(ax: Axes, marker: str, colour: str | None = None) -> list[Line2D]:
    found = [line for line in ax.lines if line.get_marker() == marker]
    return [line for line in found if colour in (None, to_hex(line.get_color()))]


def places(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in line.get_xydata()]


def half(values: list[float]) -> float:
    return {5: T4, 3: T2}[len(values)] * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def heights_of(ax: Axes) -> dict[str, float]:
    """Claim → its height: an axis in bold, and its claims below it."""
    left = [text for text in ax.texts if text.xycoords != "axes fraction" and text.xy[0] == 0]
    found, axis = {}, ""
    for text in sorted(left, key=lambda each: each.xy[1]):
        if text.get_weight() == "bold":
            axis = text.get_text()
        elif text.get_color() == style.INK:
            found[f"{axis}.{text.get_text()}"] = text.xy[1]
    return found


def test_every_claim_stands_where_its_finding_does_in_the_colour_of_its_verdict(
    drawn: Any,
) -> None:
    seen = []
    for frame, ax in drawn("overview"):
        heights = heights_of(ax)
        for row in listed(frame):
            y = heights[row["name"]]
            marks = [
                line for line in ax.lines if places(line)[0][1] == y and len(places(line)) == 1
            ]
            if row["verdict"] == "not run" or (math.isnan(row["standing"]) and not row["is_fact"]):
                assert not marks
                continue
            (mark,) = marks
            colour = {"supported": BLUE, "refuted": VERMILION}.get(row["verdict"], GREY)
            assert to_hex(mark.get_color()) == colour, row["name"]
            assert (mark.get_markerfacecolor() == "none") == (row["verdict"] == "undecided")
            end = FAR if row["verdict"] == "supported" else -FAR
            expected = end if row["is_fact"] else max(-FAR, min(FAR, row["standing"]))
            assert places(mark)[0][0] == pytest.approx(expected)
            seen.append(row["verdict"])
    assert set(seen) == {"supported", "refuted", "undecided"}


def test_what_a_claim_stands_at_is_its_distance_from_the_margin_in_half_intervals(
    drawn: Any,
) -> None:
    whole = pd.concat([frame for frame, _ in drawn("overview")]).set_index("name")
    apart = [losses("smoothed", seed)[0] - losses("none", seed)[0] for seed in SEEDS[:3]]
    row = whole.loc["smoothing.smoothed"]
    assert row["verdict"] == "supported"
    # Decided at the first look, whose interval is wider than 95 %: its level is told.
    reach = (np.mean(apart) - 0.02) / half(apart)
    assert 1 < row["standing"] < reach
    assert whole.loc["smoothing.accuracy", "standing"] < -1
    assert whole.loc["smoothing.accuracy", "verdict"] == "refuted"
    assert abs(whole.loc["smoothing.same", "standing"]) < 1
    assert whole.loc["smoothing.tuned", "verdict"] == "not run"
    assert whole.loc["smoothing.penalty", "is_fact"]


def test_a_sign_for_each_question_stands_beside_its_claim(drawn: Any) -> None:
    for frame, ax in drawn("overview"):
        heights = heights_of(ax)
        for name, own in frame.groupby("name"):
            right = [t for t in ax.texts if t.xycoords != "axes fraction" and t.xy[0] == 1]
            signs = [t.get_text() for t in right if t.xy[1] == heights[str(name)]]
            assert sorted(signs) == sorted(SIGNS[verdict] for verdict in own["verdict"])


def test_where_there_is_no_interval_it_says_what_was_seen(drawn: Any) -> None:
    for frame, ax in drawn("overview"):
        said = [text.get_text() for text in ax.texts]
        for row in listed(frame):
            if row["name"] == "recurrent.distance":
                assert row["words"] == "attentive 5/5, smoothed, recurrent 1/5"
                assert any(word.startswith("attentive 5/5") for word in said)


def test_bins_are_pooled_over_seeds_and_those_of_few_labels_are_left_out(drawn: Any) -> None:
    ((frame, ax),) = drawn("reliability")
    diagrams = ax.child_axes[::2]
    for label, lean, inset in zip(("none", "smoothed"), (0.1, -0.05), diagrams, strict=True):
        rows = np.array([bins(seed, lean)[2:] for seed in SEEDS], dtype=float)  # S K Q
        weight = rows[:, :, 4]
        sure, right = ((rows[:, :, k] * weight).sum(0) / weight.sum(0) for k in (2, 3))
        (line,) = [each for each in inset.lines if each.get_marker() in style.MARKERS]
        np.testing.assert_allclose(line.get_xdata(), sure)
        np.testing.assert_allclose(line.get_ydata(), right)
        assert (np.diff(line.get_ydata()) > 0).any()
        single = [each for each in inset.lines if each.get_marker() == "None"][1:]
        assert len(single) == len(SEEDS)
        np.testing.assert_allclose(single[0].get_ydata(), rows[0, :, 3])
        own = frame[frame["label"] == label]
        assert {to_hex(each.get_color()) for each in (line, *single)} == {
            own["colour"].iloc[0].lower()
        }
        assert [t.get_text() for t in inset.texts][1].startswith("error 0.")


def test_the_diagonal_is_where_confidence_is_accuracy(drawn: Any) -> None:
    ((_, ax),) = drawn("reliability")
    for inset in ax.child_axes[::2]:
        assert places(inset.lines[0]) == [(0, 0), (1, 1)]
        assert (inset.get_xlim(), inset.get_ylim()) == ((0, 1), (0, 1))


def test_the_histogram_has_the_share_of_labels_in_each_bin(drawn: Any) -> None:
    ((_, ax),) = drawn("reliability")
    for lean, inset in zip((0.1, -0.05), ax.child_axes[1::2], strict=True):
        counts = np.array([[row[4] for row in bins(seed, lean)] for seed in SEEDS], dtype=float)
        shares = counts.sum(0) / counts.sum()
        assert [bar.get_height() for bar in inset.patches] == pytest.approx(shares.tolist())
        lefts = [k / BINS for k in range(BINS)]
        assert [bar.get_x() for bar in inset.patches] == pytest.approx(lefts)


def test_a_seed_is_a_small_mark_at_its_loss_and_error_and_means_have_t_intervals(
    drawn: Any, evidence: Evidence
) -> None:
    ((_, ax),) = drawn("likelihood")
    for label in ("none", "smoothed"):
        read = np.array([losses(label, seed) for seed in SEEDS])
        look = looks_of(evidence)[label]
        small, large = of_marker(ax, look.marker, look.colour.lower())
        np.testing.assert_allclose(small.get_xydata(), read)
        np.testing.assert_allclose(large.get_xydata(), [read.mean(axis=0)])
        assert large.get_markersize() > small.get_markersize()
        wide, tall = of_marker(ax, "None", look.colour.lower())
        (x, y), (reach, height) = read.mean(axis=0), (half(list(side)) for side in read.T)
        np.testing.assert_allclose(wide.get_xydata(), [(x - reach, y), (x + reach, y)], rtol=1e-5)
        np.testing.assert_allclose(tall.get_xydata(), [(x, y - height), (x, y + height)], rtol=1e-5)


def test_thin_lines_join_what_one_seed_gave(drawn: Any) -> None:
    ((_, ax),) = drawn("likelihood")
    joined = [places(line) for line in of_marker(ax, "None", GREY)]
    assert joined == [
        [pytest.approx(losses(label, seed)) for label in ("none", "smoothed")] for seed in SEEDS
    ]


def test_every_seed_recalls_by_itself_and_a_stuck_one_is_a_cross(
    drawn: Any, evidence: Evidence
) -> None:
    ((frame, ax),) = drawn("distance")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["4", "36"]
    looks = looks_of(evidence)
    for label in ("attentive", "smoothed, recurrent"):
        look = looks[label]
        single = of_marker(ax, look.marker, look.colour.lower())
        crosses = of_marker(ax, "x", look.colour.lower())
        values = {
            (place, round(recalled(label, distance, seed), 6))
            for place, distance in enumerate((4, 36))
            for seed in SEEDS
        }
        found = {(round(x), round(y, 6)) for line in (*single, *crosses) for x, y in places(line)}
        assert found == values, label
        assert len(single) + len(crosses) == 2 * len(SEEDS)
        assert len(crosses) == (1 if label != "attentive" else 0)
    assert set(frame["status"]) == {"ok", "stuck"}


def test_the_bar_is_the_median_and_lines_mark_chance_and_what_claims_ask_for(
    drawn: Any, evidence: Evidence
) -> None:
    ((_, ax),) = drawn("distance")
    colour = looks_of(evidence)["smoothed, recurrent"].colour.lower()
    bars = [line for line in of_marker(ax, "None", colour) if line.get_linewidth() > 1]
    medians = [np.median([recalled("other", d, seed) for seed in SEEDS]) for d in (4, 36)]
    assert [line.get_ydata().tolist() for line in bars] == [pytest.approx([m, m]) for m in medians]
    levels = {line.get_linestyle(): line.get_ydata()[0] for line in of_marker(ax, "None", GREY)}
    assert levels == {":": 0.25, "--": 0.9}


def test_a_seed_that_broke_down_recalls_nothing_and_one_to_be_run_is_not_there(
    folder: Any,
) -> None:
    places = [{"distance": "4"}, {"distance": "36"}]
    metric = {"name": "right", "split": "valid", "better": "higher", "label": "right"}
    folder.ablation("distance", ["rnn"], crossings=places, metric=metric, seeds=[0, 1, 2, 3])
    for across in places:
        folder.record("rnn", 0, 0.8, metric="right", across=across)
        folder.record("rnn", 1, status="diverged", across=across)
        folder.record("rnn", 2, status="timeout", across=across)
    (frame,) = figures.panels("distance", gather(folder.root))
    assert len(frame) == 6
    (ax,) = figures.compose("distance", [frame]).axes
    crosses = of_marker(ax, "x")
    assert [line.get_ydata()[0] for line in crosses] == [0.0] * 4
    bars = [line for line in of_marker(ax, "None") if line.get_linewidth() == 1.4]
    assert [line.get_ydata()[0] for line in bars] == [0.0, 0.0], "the median of 0.8, 0, 0"
    assert "rnn at 4: 0.80 (2 of 3 failed)." in figures.describe("distance", [frame])


def test_an_arm_that_lost_seeds_is_hollow_and_not_on_the_front(folder: Any) -> None:
    sizes = ["large", "middle", "small", "broken"]
    train = {"steps": 10, "batch_tokens": 100}
    folder.configs |= {label: {"model": {"label": label}, "train": train} for label in sizes}
    folder.ablation("width", sizes)
    for size, label in enumerate(sizes):
        for seed in (0, 1, 2):
            lost = label == "broken" and seed
            folder.record(
                label, seed, None if lost else 0.1 * (size + 1) - (label == "broken"),
                status="diverged" if lost else "ok", flops_per_token=1e6 / (size + 1),
            )  # fmt: skip
    frame, *_ = figures.panels("pareto", gather(folder.root))
    named = frame.set_index("name")
    assert named.loc["broken", "value"] == pytest.approx(-0.6), "by far the best and the cheapest"
    assert not named.loc["broken", "is_front"]
    assert set(named[named["is_front"]].index) == {"large", "middle", "small"}
    (ax,) = figures.compose("pareto", [frame]).axes
    (hollow,) = [line for line in of_marker(ax, "o", GREY) if line.get_markerfacecolor() == "none"]
    assert hollow.get_ydata()[0] == pytest.approx(-0.6)


def test_the_curve_is_the_projects_own_loss_and_turns_where_it_was_found_to(drawn: Any) -> None:
    from ablations.measure.checks import SURE, WORDS, loss_at
    from analysis.figures import penalty

    assert penalty.WORDS == WORDS
    assert pytest.approx(1 - SURE) == penalty.SURE
    ((frame, ax),) = drawn("penalty")
    curves = [line for line in ax.lines if len(line.get_xdata()) > 50]
    for line, smoothing in zip(curves, (0.0, 0.1), strict=True):
        for doubt, loss in places(line)[::20]:
            assert loss == pytest.approx(loss_at(1 - doubt, smoothing, "all"), rel=1e-6)
    assert penalty.loss(np.array([0.2]), 0.1, "other")[0] == pytest.approx(
        loss_at(0.8, 0.1, "other")
    )
    marks = [line for line in ax.lines if line.get_marker() in style.MARKERS]
    (turned,) = [mark for mark in marks if len(mark.get_xdata()) == 1]
    x, y = places(turned)[0]
    assert (x, y) == (pytest.approx(0.09), pytest.approx(loss_at(0.91, 0.1, "all"), rel=1e-3))
    (rise,) = [line for line in ax.lines if len(line.get_xdata()) == 2]
    assert rise.get_ydata().tolist() == pytest.approx([y, y + 0.9408])
    assert frame["turning"].unique().tolist() == [1.0, 0.91]


def test_cost_is_work_and_the_front_is_what_nothing_beats(drawn: Any, evidence: Evidence) -> None:
    ((frame, ax),) = drawn("pareto")
    cost = {size: 3 * flops * STEP * TOKENS for size, flops in FLOPS.items()}
    named = frame.set_index("name")
    assert named.loc["middle", "cost"] == cost["middle"]
    assert set(named[named["is_front"]].index) == {"smoothed, small", "none"}
    (front,) = [line for line in ax.lines if line.get_drawstyle() == "steps-post"]
    none = float(np.mean([losses("none", seed)[1] for seed in SEEDS]))
    luck = float(np.mean([LUCK[seed] for seed in SEEDS[:3]]))
    assert places(front) == [
        (cost["small"], pytest.approx(SIZED["small"] + luck)),
        (3 * 3.0e6 * STEP * TOKENS, pytest.approx(none)),
    ]
    grey = [places(line)[0] for line in of_marker(ax, "o", GREY)]
    assert sorted(x for x, _ in grey) == [cost["middle"], 3 * 3.0e6 * STEP * TOKENS, cost["large"]]
    for name in ("smoothed, small", "none"):
        look = looks_of(evidence)[name]
        assert of_marker(ax, look.marker, look.colour.lower()), name
    (cross,) = of_marker(ax, "x")
    assert cross.get_xdata()[0] == cost["huge"], "no seed of it ended well"


def sides(ax: Axes) -> tuple[Axes, Axes]:
    left, right = ax.child_axes
    assert left.get_ylim() == right.get_ylim(), "one scale"
    return left, right


def comparison(drawn: Any, topic: str) -> tuple[pd.DataFrame, Axes, Axes]:
    ((frame, ax),) = [each for each in drawn("published") if each[0]["topic"].iloc[0] == topic]
    return frame, *sides(ax)


def test_ours_is_relative_to_our_control_and_theirs_to_theirs(drawn: Any) -> None:
    frame, ours, theirs = comparison(drawn, "heads")
    (line,) = [each for each in ours.lines if each.get_marker() == "o"]
    expected = sorted(
        (float(heads), float(np.mean([math.exp(MORE[n] * (1 + 10 * LUCK[s])) for s in SEEDS[:3]])))
        for n, heads in HEADS.items()
    )
    assert places(line) == [pytest.approx(each) for each in expected]
    assert to_hex(line.get_color()) == BLUE
    (line,) = [each for each in theirs.lines if each.get_marker() == "s"]
    assert line.get_markerfacecolor() == "none", "hollow: not ours"
    table = {1: 5.29, 4: 5.00, 8: 4.92, 16: 4.91, 32: 5.01}
    assert places(line) == [pytest.approx((x, ppl / 4.92)) for x, ppl in table.items()]
    assert not [each for each in theirs.lines if each.get_marker() == "."], "no seeds of a paper"
    assert frame[frame["side"] == OURS]["ablation"].unique().tolist() == ["text-heads"]


def test_the_interval_of_ours_is_over_its_seeds(drawn: Any) -> None:
    _, ours, _ = comparison(drawn, "heads")
    ratios = [math.exp(MORE["1 head here"] * (1 + 10 * LUCK[seed])) for seed in SEEDS[:3]]
    bars = {line.get_xdata()[0]: line.get_ydata() for line in ours.lines
            if line.get_marker() == "None" and len(set(line.get_xdata())) == 1}  # fmt: skip
    mean = float(np.mean(ratios))
    assert bars[1.0] == pytest.approx([mean - half(ratios), mean + half(ratios)], rel=1e-5)


def test_a_stuck_seed_has_gained_nothing(drawn: Any) -> None:
    _, ours, theirs = comparison(drawn, "norm")
    (line,) = [each for each in ours.lines if each.get_marker() == "o"]
    assert [y for _, y in places(line)] == pytest.approx([1.0, 0.0, 0.9], abs=1e-4)
    (line,) = [each for each in theirs.lines if each.get_marker() == "s"]
    assert [y for _, y in places(line)] == pytest.approx([1.0, 8.45 / 34, 1.0])


def test_lengths_are_counted_in_trained_ones_on_both_sides(drawn: Any, evidence: Evidence) -> None:
    frame, ours, theirs = comparison(drawn, "extrapolation")
    looks = looks_of(evidence)
    for label, own in PAST.items():
        (line,) = [each for each in of_marker(ours, looks[label].marker) if len(places(each)) > 1]
        assert places(line) == [pytest.approx(each) for each in ((1.0, 1.0), *own.items())]
        assert to_hex(line.get_color()) == looks[label].colour.lower()
    (line,) = of_marker(theirs, looks["alibi"].marker)
    assert places(line)[-1] == pytest.approx((15512 / 512, 18.31 / 19.73))
    assert set(frame["source"]) == {"Press et al. 2022: WikiText-103, trained at 512 tokens"}


def test_every_published_number_has_its_source_and_its_control() -> None:
    for entry in yaml.safe_load(NUMBERS.read_text(encoding="utf-8")).values():
        assert any(word.rstrip(":,").isdigit() for word in entry["source"].split()), "a year"
        first = next(iter(entry["values"].values()))
        assert entry["control"] in (first if isinstance(first, dict) else entry["values"])


def test_each_of_them_tells_in_words_what_it_shows(evidence: Evidence) -> None:
    def told(name: str) -> str:
        return figures.describe(name, figures.panels(name, evidence))

    assert "smoothing.accuracy (smoothing): refuted" in told("overview")
    assert "none: too sure by" in told("reliability")
    assert "smoothed: not sure enough by" in told("reliability")
    assert "smoothed: loss 1.10, phone error rate 0.251, n = 5" in told("likelihood")
    assert "smoothed, recurrent at 36: 0.26, 0.26, 0.26, 0.26, 0.95 (1 of 5 failed)" in told(
        "distance"
    )
    assert "the loss turns at 0.910 and rises by 0.941 nats" in told("penalty")
    assert "the front: smoothed, small 0.300 at 900 GFLOP" in told("pareto")
    assert "published: 1 1.08; 4 1.02; 8 1.00" in told("published")
