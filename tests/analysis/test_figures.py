"""Figures are exact, legible at column width, and show what they should and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis import figures, style
from analysis.evidence import Evidence, gather
from analysis.inline import inline


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory, sweep: Callable[[Path], Any]) -> Evidence:
    return gather(sweep(tmp_path_factory.mktemp("sweep")).root)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, everything: Callable[[Path], Any]) -> Evidence:
    return gather(everything(tmp_path_factory.mktemp("whole")).root)


def drawn(name: str, evidence: Evidence) -> Figure:
    return figures.compose(name, figures.panels(name, evidence))


def axes(figure: Figure) -> list[Axes]:
    """Those of the panels, and those inside them."""
    return [each for ax in figure.axes for each in (ax, *ax.child_axes)]


def texts(figure: Figure) -> list[Text]:
    found: list[Text] = []
    for ax in axes(figure):
        low, high = sorted(ax.get_xlim())
        ticks = [tick for tick in ax.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        low, high = sorted(ax.get_ylim())
        ticks += [tick for tick in ax.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        legend = ax.get_legend()
        found += [*ax.texts, ax.xaxis.label, ax.yaxis.label, *(tick.label1 for tick in ticks)]
        found += legend.get_texts() if legend is not None else []
    return [text for text in found if text.get_text().strip()]


@pytest.mark.parametrize("name", figures.names())
def test_the_same_evidence_gives_the_same_bytes(name: str, whole: Evidence, tmp_path: Path) -> None:
    first = style.save(drawn(name, whole), tmp_path / "first", name)
    again = style.save(drawn(name, whole), tmp_path / "again", name)
    assert [path.suffix for path in first] == [".svg", ".pdf", ".png"]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert len(list((tmp_path / "first").iterdir())) == 3, "a temporary file was left behind"


@pytest.mark.parametrize("name", figures.names())
def test_no_text_is_clipped_and_none_lies_on_another(name: str, whole: Evidence) -> None:
    figure = drawn(name, whole)
    canvas = FigureCanvasAgg(figure)
    with style.look():
        canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts(figure)]
    assert len(boxes) > 5
    for label, box in boxes:
        assert box.x0 >= 0, label
        assert box.y0 >= 0, label
        assert box.x1 <= figure.bbox.x1, label
        assert box.y1 <= figure.bbox.y1, label
    for index, (label, box) in enumerate(boxes):
        for other, beside in boxes[index + 1 :]:
            width = min(box.x1, beside.x1) - max(box.x0, beside.x0)
            height = min(box.y1, beside.y1) - max(box.y0, beside.y0)
            assert width <= 0 or height <= 1, f"{label!r} lies on {other!r}"
    for ax in axes(figure):
        for line in ax.lines:
            for x, y in line.get_transform().transform(line.get_xydata()):
                if line.get_clip_on() and not ax.bbox.padded(1).contains(x, y):
                    continue  # cut off with the axis
                covering = [label for label, box in boxes if box.contains(x, y)]
                assert not covering, f"{covering} lies on a mark"


@pytest.mark.parametrize("name", figures.names())
def test_figures_are_one_column_wide_and_no_letter_is_below_six_points(
    name: str, whole: Evidence
) -> None:
    figure = drawn(name, whole)
    assert figure.get_figwidth() == style.WIDTH
    assert min(text.get_fontsize() for text in texts(figure)) >= 6


def test_metrics_of_different_units_never_share_an_axis(evidence: Evidence) -> None:
    panels = figures.panels("forest", evidence)
    assert all(panel["unit"].nunique() == 1 for panel in panels)
    labels = {
        panel["unit"].iloc[0]: ax.get_xlabel()
        for panel, ax in zip(panels, drawn("forest", evidence).axes, strict=True)
    }
    assert labels["fraction"] == "variant − control"
    assert labels["nats/token"] == "variant − control (nats/token)"


SPANNING = ("overview", "pareto")


@pytest.mark.parametrize("name", [name for name in figures.names() if name not in SPANNING])
def test_a_panel_is_about_one_question_so_that_a_page_can_put_it_there(
    name: str, whole: Evidence
) -> None:
    for panel in figures.panels(name, whole):
        assert panel["ablation"].nunique() == 1


def test_one_seed_is_a_hollow_marker_without_an_interval(folder: Any) -> None:
    folder.ablation("width", ["64", "128"], seeds=[0])
    folder.record("64", 0, 0.25)
    folder.record("128", 0, 0.20)
    (ax,) = drawn("forest", gather(folder.root)).axes
    markers = [line for line in ax.lines if line.get_marker() == "o"]
    assert [line.get_markerfacecolor() for line in markers] == ["none"]
    across = [line for line in ax.lines if line.get_marker() == "None"]
    assert all(len(set(line.get_xdata())) == 1 for line in across), "only the line at zero"


def test_a_wide_interval_does_not_squeeze_the_others_and_shows_that_it_goes_on(folder: Any) -> None:
    folder.ablation("width", ["64", "wide", "narrow"], seeds=[0, 1])
    for seed, wide, narrow in ((0, 0.1, 0.3), (1, 0.5, 0.301)):
        folder.record("64", seed, 0.2)
        folder.record("wide", seed, wide)
        folder.record("narrow", seed, narrow)
    (ax,) = drawn("forest", gather(folder.root)).axes
    low, high = ax.get_xlim()
    assert (low, high) == pytest.approx((-0.6, 0.8), abs=0.1), "the interval runs from −2.4 to 2.6"
    arrows = {line.get_marker(): line.get_xdata()[0] for line in ax.lines}
    assert (arrows["<"], arrows[">"]) == (low, high)


def test_the_side_called_better_follows_the_metric(folder: Any) -> None:
    bleu = {"name": "bleu", "split": "valid", "better": "higher", "label": "BLEU"}
    folder.ablation("width", ["64", "128"], seeds=[0], metric=bleu)
    folder.record("64", 0, 20.0, metric="bleu", unit="BLEU")
    folder.record("128", 0, 25.0, metric="bleu", unit="BLEU")
    found = [text.get_text() for text in texts(drawn("forest", gather(folder.root)))]
    assert "better →" in found
    assert "← worse" in found


def test_a_failure_is_written_under_its_variant(evidence: Evidence) -> None:
    found = [text.get_text() for text in texts(drawn("forest", evidence))]
    assert "5 of 5 diverged" in found
    assert "0/5" in found
    assert "undecided: undertrained" in found


def test_machines_do_not_share_a_panel_of_times(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post", "none"], seeds=[0])
    for label, device in (("pre", "cpu"), ("post", "cpu"), ("none", "cuda")):
        folder.record(label, 0, 0.2, readings=folder.timing(1.1), env={"device": device})
    assert len(figures.panels("speed", gather(folder.root))) == 2


@pytest.mark.parametrize(
    "label",
    [
        "<script>alert(1)</script>",
        "--><img>",
        "$\\frac{",
        "$\\frac{$",
        "日本語",
        "x" * 5000,
        "\x07",
        "",
    ],
    ids=lambda label: ascii(label[:20]),
)
def test_any_label_is_drawn_as_mere_shapes(folder: Any, label: str) -> None:
    folder.ablation("width", ["64", label], seeds=[0])
    folder.record("64", 0, 0.25)
    folder.record(label, 0, 0.20)
    text = style.svg(drawn("forest", gather(folder.root)))
    tags = {element.tag.split("}")[-1] for element in ElementTree.fromstring(text).iter()}
    assert tags <= {"svg", "defs", "style", "g", "path", "use", "clipPath", "rect"}
    shown = inline(text, "a", f'"{label}', {})
    assert not any(hostile in shown for hostile in ("<script", "<img", "<!--"))
    assert "http" not in shown


def test_two_drawings_on_one_page_share_no_id() -> None:
    text = '<?xml?><svg><g id="a"/><use xlink:href="#a"/><g clip-path="url(#a)"/></svg>'
    one = inline(text, "p", "", {})
    assert 'id="p-a"' in one
    assert 'href="#p-a"' in one
    assert "url(#p-a)" in one


def test_long_names_are_cut_to_the_room_they_have() -> None:
    cut = style.fit("a name that goes on and on", 0.5)
    assert cut.endswith("…")
    assert style.width(cut) <= 0.5
    assert style.fit("short", 0.5) == "short"


def test_variants_of_one_question_look_different_and_as_they_do_elsewhere() -> None:
    labels = [f"variant {k}" for k in range(40)]
    pairs = [{labels[k], labels[k + 8]} for k in range(16)]  # by their place alike in colour
    crowd = set(labels[:23])
    looks = style.looks(labels, [crowd, *pairs])
    for pair in pairs:
        one, other = (looks[label] for label in sorted(pair))
        assert one.colour != other.colour
        assert one.marker != other.marker
    assert len({looks[label] for label in crowd}) == len(crowd)
    assert list(looks) == labels
    assert style.looks(labels)["variant 8"].colour == style.PALETTE[0], "where none stand together"


def test_the_style_leaves_no_trace(evidence: Evidence) -> None:
    before = dict(mpl.rcParams)
    style.svg(drawn("speed", evidence))
    assert dict(mpl.rcParams) == before


def test_every_figure_describes_itself(evidence: Evidence) -> None:
    told = figures.describe("forest", figures.panels("forest", evidence))
    assert "none: worse" in told
    assert "rotary takes 1.12 times as long as sinusoidal" in figures.describe(
        "speed", figures.panels("speed", evidence)
    )
