"""What the figures of the speed lab draw is what was found: marks are read back from the axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from speed_lab import METRICS, PARTS, TIMED_OUT, counts

from analysis import figures, style
from analysis.curves import crossings, curves, looks_of
from analysis.evidence import Evidence, gather
from analysis.figures.shares import LOOKS
from analysis.load import listed

Panels = list[tuple[pd.DataFrame, Axes]]
ENDS = {
    "scaling": ("value", "low", "high"),
    "decoding": ("value", "low", "high"),
    "ratio": ("ratio", "ratio_low", "ratio_high"),
    "memory": ("value", None, None),
}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory, sweep: Callable[[Path], Any]) -> Evidence:
    return gather(sweep(tmp_path_factory.mktemp("sweep")).root)


def drawn(name: str, evidence: Evidence) -> Panels:
    """Each frame with the axis that it was drawn on."""
    frames = figures.panels(name, evidence)
    figure = figures.compose(name, frames)
    with style.look():
        FigureCanvasAgg(figure).draw()
    return list(zip(frames, figure.axes, strict=True))


@pytest.fixture(params=list(ENDS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def panels(name: str, evidence: Evidence) -> Panels:
    return drawn(name, evidence)


def points(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in line.get_xydata()]


def is_curve(line: Line2D) -> bool:
    return line.get_marker() in style.MARKERS and line.get_linestyle() != "None"


def of_colour(ax: Axes, row: Any) -> list[Line2D]:
    return [line for line in ax.lines if to_hex(line.get_color()) == row["colour"].lower()]


def test_every_variant_is_one_line_through_its_values_in_its_own_look(
    name: str, panels: Panels, evidence: Evidence
) -> None:
    told = looks_of(evidence)
    for frame, ax in panels:
        lines = [line for line in ax.lines if is_curve(line)]
        known = frame[frame[ENDS[name][0]].notna()]
        assert len(lines) == known["label"].nunique() > 1
        for (label, own), line in zip(known.groupby("label", sort=False), lines, strict=True):
            rows = own.sort_values("x")
            assert line.get_xdata().tolist() == pytest.approx(rows["x"].tolist()), label
            assert line.get_ydata().tolist() == pytest.approx(rows[ENDS[name][0]].tolist()), label
            look = told[str(label)]
            assert to_hex(line.get_color()) == look.colour.lower()
            assert line.get_marker() == look.marker
            assert line.is_dashed() == bool(look.dash)


def test_every_bar_reaches_from_the_low_end_to_the_high_one(name: str, panels: Panels) -> None:
    _, low, high = ENDS[name]
    for frame, ax in panels:
        bars = {
            (to_hex(line.get_color()), *points(line))
            for line in ax.lines
            if line.get_marker() == "None" and len(line.get_xdata()) == 2
            and line.get_xdata()[0] == line.get_xdata()[1]
        }  # fmt: skip
        rows = [row for row in listed(frame) if low and not math.isnan(row[low])]
        assert bars == {
            (row["colour"].lower(), (row["x"], row[low]), (row["x"], row[high])) for row in rows
        }
        assert bool(bars) == (name != "memory")


def test_a_cross_hangs_at_the_top_where_a_call_failed(name: str, panels: Panels) -> None:
    seen = 0
    for frame, ax in panels:
        crosses = [line for line in ax.lines if line.get_marker() == "x"]
        lost = listed(frame[frame[ENDS[name][0]].isna()])
        assert [(float(line.get_xdata()[0]), to_hex(line.get_color())) for line in crosses] == [
            (row["x"], row["colour"].lower()) for row in lost
        ]
        for line in crosses:
            height = ax.transAxes.inverted().transform(
                line.get_transform().transform(line.get_xydata()[0])
            )[1]
            assert 0.9 < height < 1
        seen += len(crosses)
    assert seen == {"scaling": 2, "memory": 6}.get(name, 0)


def test_the_layer_that_took_too_long_has_its_cross_and_no_point_there(evidence: Evidence) -> None:
    label, width, pass_, length = TIMED_OUT
    ((frame, ax),) = [
        (frame, ax)
        for frame, ax in drawn("scaling", evidence)
        if frame["across"].iloc[0] == f"width={width}"
        and frame["series"].iloc[0] == f"batch 1, {pass_}"
    ]
    row = frame[frame["label"] == label].iloc[0]
    (cross,) = [line for line in of_colour(ax, row) if line.get_marker() == "x"]
    (curve,) = [line for line in of_colour(ax, row) if is_curve(line)]
    assert cross.get_xdata()[0] == length
    assert max(curve.get_xdata()) == pytest.approx(length / 2)


def test_the_legend_names_every_variant_with_its_mark(name: str, panels: Panels) -> None:
    for frame, ax in panels:
        legend = ax.get_legend()
        assert legend is not None
        rows = listed(frame.drop_duplicates("label"))
        words = [text.get_text() for text in legend.get_texts()]
        assert words == [row["label"] for row in rows]
        for row, handle in zip(rows, legend.get_lines(), strict=True):
            assert to_hex(handle.get_color()) == row["colour"].lower()
            assert handle.get_marker() == row["marker"]


def test_an_axis_of_values_is_told_by_two_numbers_or_more(name: str, panels: Panels) -> None:
    for _, ax in panels:
        low, high = ax.get_ylim()
        ticks = [t for t in ax.yaxis.get_major_ticks() if low <= t.get_loc() <= high]
        assert len([t for t in ticks if t.label1.get_text()]) >= (1 if name == "ratio" else 2)


def test_a_triangle_marks_where_a_variant_and_the_control_change_places(
    evidence: Evidence,
) -> None:
    where = crossings(curves(evidence))
    seen = 0
    for frame, ax in drawn("ratio", evidence):
        first = frame.iloc[0]
        own = where[
            (where["ablation"] == first["ablation"]) & (where["across"] == first["across"])
            & (where["metric"] == first["metric"]) & (where["series"] == first["series"])
        ].set_index("label")  # fmt: skip
        marks = [line for line in ax.lines if line.get_linestyle() == "None"]
        spans = [patch.get_extents().transformed(ax.transData.inverted()) for patch in ax.patches]
        shown = own[own["changes"] > 0]
        assert [points(line) for line in marks] == [[(at, 1.0)] for at in shown["at"]]
        assert [(span.x0, span.x1) for span in spans] == [
            pytest.approx(ends) for ends in zip(shown["low"], shown["high"], strict=True)
        ]
        seen += len(shown)
        assert set(shown.index) <= {"lstm", "window"}
    assert seen == 16, "two layers that cross, at two widths, forward and in training, two batches"


def test_a_small_tick_stands_at_the_tail_of_each_next_token(evidence: Evidence) -> None:
    ((frame, ax),) = drawn("decoding", evidence)
    ticks = [points(line)[0] for line in ax.lines if line.get_marker() == "_"]
    assert ticks == list(zip(frame["x"], frame["tail"], strict=True))
    control = frame[frame["label"] == "transformer"]
    assert control["tail"].tolist() == [2.0e-3] * 3, "the middle one of three processes"


def test_every_field_of_a_map_has_its_ratio_and_the_colour_of_its_side(evidence: Evidence) -> None:
    sides = set()
    panels = drawn("heat", evidence)
    assert [frame["label"].iloc[0] for frame, _ in panels] == ["gru", "convolution"]
    for frame, ax in panels:
        (mesh,) = ax.collections
        table = frame.pivot(index="batch", columns="x", values="ratio").sort_index()
        ratios = table.to_numpy().ravel().tolist()
        assert [text.get_text() for text in ax.texts[: len(ratios)]] == [
            f"{ratio:.2g}" for ratio in ratios
        ]
        for ratio, (red, _, blue, _) in zip(ratios, mesh.get_facecolors(), strict=True):
            assert (blue > red) == (ratio < 1), ratio
            sides.add(ratio < 1)
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["32", "64", "128"]
        assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "16"]
    assert sides == {True, False}


def test_shares_are_stacked_in_the_order_and_colours_of_the_legend(evidence: Evidence) -> None:
    panels = drawn("shares", evidence)
    assert {frame["metric"].iloc[0] for frame, _ in panels} == {"flops_share", "time_share"}
    for frame, ax in panels:
        below = dict.fromkeys(sorted(set(frame["x"])), 0.0)
        assert len(ax.containers) == len(PARTS)
        for part, bars in zip(PARTS, ax.containers, strict=True):
            own = frame[frame["part"] == part].set_index("x")["share"]
            for x, bar in zip(below, bars, strict=True):
                assert bar.get_y() == pytest.approx(below[x])
                assert bar.get_height() == pytest.approx(own[x])
                assert to_hex(bar.get_facecolor()) == LOOKS[part][0].lower()
                below[x] += own[x]
        assert list(below.values()) == pytest.approx([1.0] * len(below))
        legend = ax.get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == list(PARTS)


def test_a_square_is_what_is_stated_and_a_dot_what_was_counted(evidence: Evidence) -> None:
    panels = drawn("complexity", evidence)
    assert [frame["kind"].iloc[0] for frame, _ in panels] == ["number", "exponent"]
    for frame, ax in panels:
        squares = [points(line)[0] for line in ax.lines if line.get_marker() == "s"]
        dots = [points(line)[0] for line in ax.lines if line.get_marker() == "o"]
        assert [y for _, y in squares] == [y for _, y in dots]
        ordered = [row for _, own in frame.groupby(["metric", "along"], sort=False)
                   for row in listed(own)]  # fmt: skip
        assert [x for x, _ in dots] == [row["value"] for row in ordered]
        middles = [(row["low"] + row["high"]) / 2 for row in ordered]
        assert [x for x, _ in squares] == pytest.approx(middles)
        plain = [t for t in ax.texts if t.get_color() == style.INK and t.get_weight() == "normal"]
        labels = {text.xy[1]: text.get_text() for text in plain}
        assert [labels[y] for _, y in dots] == [row["name"] for row in ordered]


def test_bounds_with_an_open_end_state_the_other(folder: Any) -> None:
    least = {"metric": "mixing_work", "along": "length", "between": (0.9, None)}
    claims = [folder.claimed("cost.work", "exponent", "fused", **least)]
    folder.ablation("paper", ["explicit", "fused"], seeds=[200], metrics=METRICS, claims=claims)
    folder.record("fused", 200, readings=counts(1))
    ((_, ax),) = drawn("complexity", gather(folder.root))
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "s"] == [0.9]
