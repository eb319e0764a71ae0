"""What is drawn is what was found: each mark is read back from the axis beside its own label."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.lines import Line2D
from matplotlib.text import Text

from analysis import figures, style
from analysis.evidence import Evidence, gather
from analysis.load import listed
from analysis.sentences import answers, plain

VERMILION, BLUE, GREY, INK = "#D55E00", "#0072B2", "#767676", "#1c1c1c"
COLOUR = {"worse": VERMILION, "slower": VERMILION, "better": BLUE, "faster": BLUE}
VALUE = {"forest": "difference", "speed": "ratio"}
WORD = {"forest": "word", "speed": "verdict"}

Rows = list[tuple[dict[str, Any], Text]]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory, sweep: Callable[[Path], Any]) -> Evidence:
    return gather(sweep(tmp_path_factory.mktemp("sweep")).root)


@pytest.fixture(params=["forest", "speed"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def panels(name: str, evidence: Evidence) -> list[tuple[Axes, Rows]]:
    """Each axis with its rows: what the frame says of one, and the label that stands there."""
    frames = figures.panels(name, evidence)
    figure = figures.compose(name, frames)
    with style.look():
        FigureCanvasAgg(figure).draw()
    return [(ax, rows(frame, ax)) for frame, ax in zip(frames, figure.axes, strict=True)]


def rows(frame: pd.DataFrame, ax: Axes) -> Rows:
    labels = [text for text in ax.texts if text.get_color() == INK and is_plain(text)]
    return list(zip(listed(frame), labels, strict=True))


def annotations(ax: Axes) -> list[Any]:
    return list(ax.texts)


def is_plain(text: Text) -> bool:
    return text.get_fontweight() == "normal"


def height(label: Any) -> float:
    return label.xy[1]


def lines_at(ax: Axes, y: float, points: int) -> list[Line2D]:
    found = [line for line in ax.lines if len(line.get_xdata()) == points]
    return [line for line in found if set(line.get_ydata()) == {y}]


def count_at(ax: Axes, y: float) -> str:
    beside = [text for text in annotations(ax) if text.xycoords != "axes fraction"]
    (found,) = [text.get_text() for text in beside if text.xy == (1, y)]
    return found


def drawn_rows(name: str, panels: list[tuple[Axes, Rows]]) -> list[tuple[Axes, float, Any]]:
    found = [(ax, height(label), data) for ax, rows in panels for data, label in rows if data["n"]]
    assert len(found) > 3
    return found


def test_every_label_stands_on_the_height_of_its_row(panels: list[tuple[Axes, Rows]]) -> None:
    for ax, found in panels:
        for data, label in found:
            kept = label.get_text().removesuffix("…")
            assert len(kept) > 3
            assert data["name"].startswith(kept)
            box = label.get_window_extent()
            middle = ax.transData.transform((0, height(label)))[1]
            assert box.y0 < middle < box.y1
        heights = [ax.transData.transform((0, height(label)))[1] for _, label in found]
        assert heights == sorted(heights, reverse=True), "rows run downwards as in the table"


def test_every_marker_stands_at_its_number_in_the_colour_of_its_verdict(
    name: str, panels: list[tuple[Axes, Rows]]
) -> None:
    for ax, y, data in drawn_rows(name, panels):
        (marker,) = [line for line in lines_at(ax, y, 1) if line.get_marker() == "o"]
        assert marker.get_xdata()[0] == data[VALUE[name]], data["name"]
        assert marker.get_color() == COLOUR.get(data[WORD[name]], GREY), data["name"]
        hollow = marker.get_markerfacecolor() == "none"
        assert hollow == math.isnan(data["low"]), data["name"]


def test_every_bar_reaches_from_the_low_end_to_the_high_one(
    name: str, panels: list[tuple[Axes, Rows]]
) -> None:
    for ax, y, data in drawn_rows(name, panels):
        bars = lines_at(ax, y, 2)
        if math.isnan(data["low"]):
            assert not bars
            continue
        (bar,) = bars
        ends = np.clip([data["low"], data["high"]], *ax.get_xlim())  # beyond, an arrow
        assert list(bar.get_xdata()) == list(ends), data["name"]
        assert bar.get_color() == COLOUR.get(data[WORD[name]], GREY), data["name"]


def test_the_last_column_counts_the_pairs(name: str, panels: list[tuple[Axes, Rows]]) -> None:
    for ax, y, data in drawn_rows(name, panels):
        whole = name == "speed" or data["n"] == data["planned"]
        expected = f"{data['n']}" if whole else f"{data['n']}/{data['planned']}"
        assert count_at(ax, y) == expected, data["name"]


def test_every_seed_is_a_small_dot_under_its_mean(evidence: Evidence) -> None:
    frames = figures.panels("forest", evidence)
    for frame, ax in zip(frames, figures.compose("forest", frames).axes, strict=True):
        for data, label in rows(frame, ax):
            dots = [
                float(x)
                for line in ax.lines
                for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
                if y == height(label) + 0.3
            ]
            assert dots == (data["differences"] if data["n"] > 1 else []), data["name"]


def test_the_band_of_a_row_is_the_noise_of_its_session(evidence: Evidence) -> None:
    frames = figures.panels("speed", evidence)
    for frame, ax in zip(frames, figures.compose("speed", frames).axes, strict=True):
        bands = [band.get_paths()[0].get_extents() for band in ax.collections]
        for (data, label), band in zip(rows(frame, ax), bands, strict=True):
            assert (band.x0, band.x1) == pytest.approx((1 / data["floor"], data["floor"]))
            assert (band.y0 + band.y1) / 2 == height(label)


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_better_variant_is_blue_on_the_side_called_better(folder: Any, better: str) -> None:
    metric = {"name": "per", "split": "valid", "better": better, "label": "score"}
    folder.ablation("width", ["64", "128"], metric=metric)
    gain = -0.1 if better == "lower" else 0.1
    for seed in (0, 1, 2):
        folder.record("64", seed, 0.5)
        folder.record("128", seed, 0.5 + gain + 0.001 * seed)
    (ax,) = figures.compose("forest", figures.panels("forest", gather(folder.root))).axes
    sides = {text.get_text(): text.xy[0] for text in annotations(ax)}
    (marker,) = [line for line in lines_at(ax, 1.0, 1) if line.get_marker() == "o"]
    assert marker.get_color() == BLUE
    (blue,) = marker.get_xdata()
    assert math.copysign(1, blue) == math.copysign(1, gain)
    assert sides["← better" if better == "lower" else "better →"] == (0 if gain < 0 else 1)


@pytest.mark.parametrize("change", [-0.1, 0.1])
def test_of_models_that_nobody_trained_none_is_called_better(folder: Any, change: float) -> None:
    folder.ablation("logits", ["scaled", "none"], trained=False)
    for seed in (0, 1, 2):
        folder.record("scaled", seed, 0.5, trained=False)
        folder.record("none", seed, 0.5 + change + 0.001 * seed, trained=False)
    evidence = gather(folder.root)
    (row,) = evidence.contrasts.to_dict("records")
    assert row["verdict"] == ("higher" if change > 0 else "lower")
    answer = plain(answers(evidence)["logits"])
    assert answer.startswith("With “none” the ")
    assert answer.endswith("n = 3).")
    (ax,) = figures.compose("forest", figures.panels("forest", evidence)).axes
    told = {text.get_text() for text in annotations(ax)}
    assert told >= {"← lower", "higher →"}
    assert not any("better" in text or "worse" in text for text in told)
    (marker,) = [line for line in lines_at(ax, 1.0, 1) if line.get_marker() == "o"]
    assert marker.get_color() == INK
