"""Every kind of figure, drawn once: legible, exact, the same each time, and safe to open."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis import plots
from analysis.contrasts import Evidence, gather
from analysis.plots import Panel, canvas, forest, heatmap, lines, style

SEVERAL = ("overview", "lines")  # in every form
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "$\\frac{1$ a $",
    "every name " * 455,
    "語 \u2603 \n two\tlines",
]


@pytest.fixture(scope="module")
def one_each(every: list[Panel]) -> dict[str, Panel]:
    """Of every way to draw the panel with the most rows."""
    found: dict[str, Panel] = {}
    for panel in every:
        way = f"{panel.kind}, {panel.plot.__name__}"  # type: ignore[attr-defined]
        if way not in found or len(panel.frame) > len(found[way].frame):
            found[way] = panel
    return found


def laid_out(figure: Figure) -> Any:
    """The renderer that the figure was laid out with."""
    sheet = FigureCanvasAgg(figure)
    with style.look():
        sheet.draw()
    return sheet.get_renderer()


def texts(figure: Figure) -> list[Text]:
    found = [*figure.texts]
    for ax in figure.axes:
        for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            low, high = sorted((low, high))
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found += [axis.label, *(tick.label1 for tick in ticks if tick.label1.get_visible())]
        found += [*ax.texts, ax.title, ax._right_title]  # type: ignore[attr-defined]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def faults(panel: Panel) -> list[str]:
    """What is wrong with a drawing."""
    held, settings, found = panel.frame.copy(deep=True), dict(mpl.rcParams), []
    figure = plots.draw(panel)
    renderer = laid_out(figure)
    if dict(mpl.rcParams) != settings or not panel.frame.equals(held):
        found.append("drawing has changed the numbers or the settings")
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts(figure)]
    for words, box in boxes:
        if not (box.x0 >= -1 and box.y0 >= -1):
            found.append(f"{words!r} leaves the sheet on the left or below")
        if not (box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1):
            found.append(f"{words!r} leaves the sheet on the right or above")
    for (words, box), (other, beside) in combinations(boxes, 2):
        width = min(box.x1, beside.x1) - max(box.x0, beside.x0)
        height = min(box.y1, beside.y1) - max(box.y0, beside.y0)
        if width > 1 and height > 2:
            found.append(f"{words!r} lies on {other!r}")
    if min(text.get_fontsize() for text in texts(figure)) < 6:
        found.append("letters below six points")
    for ax in figure.axes:
        if ax.axison and min(ax.get_window_extent().size) < 30:
            found.append("an axis has no room left")
    return found


def test_no_text_leaves_the_sheet_and_none_lies_on_another(one_each: dict[str, Panel]) -> None:
    assert len(one_each) == len(plots.KINDS), sorted(one_each)
    wrong = {way: found for way, panel in one_each.items() if (found := faults(panel))}
    assert not wrong


def test_the_same_panel_gives_the_same_bytes(one_each: dict[str, Panel], tmp_path: Path) -> None:
    some = [panel for way, panel in one_each.items() if way.split(", ")[0] in SEVERAL]
    for panel in some:
        first = plots.save(panel, tmp_path / "first")
        again = plots.save(panel, tmp_path / "again")
        for one, other in zip(first, again, strict=True):
            assert one.read_bytes() == other.read_bytes(), one.name
        forms = [".svg", ".pdf", ".png"] if panel.kind == "overview" else [".svg", ".pdf"]
        assert [path.suffix for path in first] == forms
    written = list((tmp_path / "first").iterdir())
    assert len(written) == 2 * len(some) + 1, "a temporary file is left behind"


@pytest.mark.soak
def test_several_processes_draw_the_same_bytes(
    every: list[Panel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "MANY", 2)
    first = plots.save_all(every[:4], tmp_path / "first")
    again = plots.save_all(every[:4], tmp_path / "again", jobs=2)
    for one, other in zip(first, again, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def row(name: str, value: float, mark: str, **more: Any) -> dict[str, Any]:
    told = {"low": value - 0.1, "high": value + 0.1, "n": 3, "lost": [], "words": ""}
    points = [value - 0.05, value, value + 0.05]
    return {"name": name, "value": value, "mark": mark, "points": points, **told, **more}


def marks(figure: Figure, marker: str) -> dict[float, Any]:
    """Where single marks of this shape stand → the mark."""
    return {
        float(np.ravel(line.get_xdata())[0]): line
        for line in figure.axes[0].lines
        if line.get_marker() == marker and len(np.ravel(line.get_xdata())) == 1
    }


def test_a_forest_draws_what_stands_in_its_frame() -> None:
    silent = {"low": np.nan, "high": np.nan}
    rows = [
        row("worse", 1.0, "worse", lost=[1.5]),
        row("better", -1.0, "better"),
        row("tie", 0.01, "tie", words="tie"),
        row("single", 0.4, "few seeds", n=1, points=[0.4], **silent),
        row("pair", 0.6, "few seeds", n=2, points=[0.5, 0.7], **silent),
        row("none", np.nan, "not run", n=0, points=[], words="not run", **silent),
    ]
    frame = pd.DataFrame(rows)
    figure = plots.draw(Panel("forest", "t", "title", frame, plot=forest.plot))
    ax, means = figure.axes[0], marks(figure, "o")
    assert to_hex(means[1.0].get_markerfacecolor()) == style.WORSE.lower()
    assert to_hex(means[-1.0].get_markerfacecolor()) == style.BETTER.lower()
    assert to_hex(means[0.01].get_markerfacecolor()) == "#ffffff", "hollow where nothing differs"
    assert 0.4 in marks(figure, "D"), "one seed is a diamond"
    assert 0.6 not in means, "two seeds have no mean drawn"
    assert 1.5 in marks(figure, "x"), "a failed seed is a cross at what it came to"
    bars = [sorted(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2]
    assert [0.9, 1.1] in [pytest.approx(each) for each in bars]
    seeds = np.concatenate([each.get_offsets() for each in ax.collections])
    assert sorted(seeds[:, 0]) == pytest.approx(
        sorted(x for points in frame["points"] if len(points) > 1 for x in points)
    )
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(frame["name"])
    assert {"tie", "not run"} <= {text.get_text() for text in ax.texts}


def curve(name: str, colour: str, **more: Any) -> pd.DataFrame:
    told = {"name": name, "colour": colour, "marker": "s", "dash": [(), (), ()], "n": 3}
    values = {"x": [1.0, 10.0, 100.0], "value": [1.0, 2.0, 3.0]}
    ends = {"low": [0.9, 1.9, 2.9], "high": [1.1, 2.1, 3.1]}
    points = {"points": [[0.95, 1.05]] * 3, "lost": [[], [], [9.0]]}
    return pd.DataFrame({**values, **ends, **points, **told, **more})


def test_lines_draw_what_stands_in_their_frame() -> None:
    ticks = {"tick": ["few", "some", "many"]}
    each = [curve("one", style.PLUM, **ticks), curve("two", style.TEAL, **ticks)]
    frame = pd.concat(each, ignore_index=True)
    frame.attrs |= {"x_log": True, "unit": "s", "level": 1.0, "floor": (2.5, "guessing")}
    ax = plots.draw(Panel("lines", "t", "title", frame, plot=lines.plot)).axes[0]
    whole = [line for line in ax.lines if len(np.ravel(line.get_xdata())) == 3]
    assert [to_hex(line.get_color()) for line in whole] == [style.PLUM.lower(), style.TEAL.lower()]
    assert all(list(line.get_ydata()) == [1.0, 2.0, 3.0] for line in whole)
    assert ax.get_xscale() == "log"
    words = [tick.get_text() for tick in ax.get_xticklabels()]
    assert dict(zip(ax.get_xticks(), words, strict=True)) == {1: "few", 10: "some", 100: "many"}
    assert "guessing" in {text.get_text() for text in ax.texts}
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    assert len(crosses) == 2, "a failed seed is marked"


def test_a_hostile_name_is_only_letters(folder: Any, tmp_path: Path) -> None:
    name = " ".join(HOSTILE[:2])
    folder.ablation(name, ["plain", *HOSTILE], crossings=[{"f": "1"}, {"f": "2"}])
    for i, label in enumerate(("plain", *HOSTILE)):
        for seed in range(3):
            for level in ("1", "2"):
                folder.record(label, seed, 0.2 + 0.1 * i + 0.01 * seed, factors={"f": level})
    panels = plots.panels(gather(folder.root))
    assert [panel.kind for panel in panels] == ["forest", "lines"]
    for panel in panels:
        assert len(panel.alt) < 1500
        assert not [fault for fault in faults(panel) if "leaves" in fault or "room" in fault]
        drawing, _ = plots.save(panel, tmp_path / "figures")
        assert drawing.parent == tmp_path / "figures"
        elements = list(ElementTree.parse(drawing).iter())
        tags = {each.tag.split("}")[1] for each in elements}
        assert not tags & {"img", "script", "image", "foreignObject", "a"}
        assert not [key for each in elements for key in each.attrib if key.startswith("on")]


def test_the_baseline_is_in_ink_and_a_variant_keeps_its_colour(every: list[Panel]) -> None:
    drawn = [panel for panel in every if {"colour", "experiment"} <= set(panel.frame)]
    frames = [panel.frame for panel in drawn if panel.experiment != "models"]  # lines of its parts
    whole = pd.concat([frame[["variant", "colour"]] for frame in frames])
    colours = whole[whole["colour"] != style.INK].groupby("variant")["colour"].nunique()
    assert len(colours) >= 10
    assert (colours == 1).all()
    (first,) = [panel.frame for panel in every if panel.name.startswith("learning-schedule")]
    assert set(first[first["variant"] == "both"]["colour"]) == {style.INK}
    labels = [f"variant {i}" for i in range(12)]
    looks = [(look["colour"], look["dash"]) for look in style.looks(labels, [labels]).values()]
    assert len({*looks, (style.INK, style.SOLID)}) == 13, "no two of one experiment look alike"


def test_numbers_on_an_axis_have_their_unit() -> None:
    told = {(0.02, "s"): "20 ms", (2.5e9, "bytes"): "2.5 GB", (3e12, "FLOP"): "3 TFLOP",
            (2048, ""): "2,048", (-0.5, ""): "−0.5"}  # fmt: skip
    assert {each: canvas.amount(*each) for each in told} == told


def test_an_empty_folder_has_nothing_to_draw(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    evidence: Evidence = gather(folder.root)
    assert plots.panels(evidence) == []


def test_rows_of_a_heat_map_stand_under_their_names() -> None:
    cells = [(0, "top", 0.1), (1, "middle", 0.5), (2, "bottom", 0.9)]
    square = pd.DataFrame(cells, columns=["row", "row_name", "value"])
    square = square.assign(column=0, column_name="only")
    square.attrs |= {"signed": False, "least": 0.0, "most": 1.0}
    ax = heatmap.plot(square, Figure().subplots())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["top", "middle", "bottom"]
    assert (list(ax.get_yticks()), ax.yaxis_inverted()) == ([0.5, 1.5, 2.5], True)
    assert np.ravel(ax.collections[0].get_array()).tolist() == [0.1, 0.5, 0.9]
