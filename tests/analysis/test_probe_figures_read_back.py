"""What is drawn of probes, maps and surfaces is what was read: it is taken back from the axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import probe_lab
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import rgb_to_hsv, to_hex
from matplotlib.path import Path as MPath
from probe_lab import DEPTHS, LAYERS, METRICS, PASTS, PHONES, PLACES, REMOVED, along, maps, surface

from ablations.store.record import Reading
from analysis import figures, style
from analysis.curves import looks_of
from analysis.evidence import Evidence, gather
from analysis.insets import COLOURS

Panels = list[tuple[pd.DataFrame, Axes]]
FIGURE = {"last_gradient": "along", "pruned_ratio": "pruning", "perplexity_ratio": "beyond"}
SEEDS = (0, 1, 2, 3, 4)


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


def recorded(folder: Any, readings: Callable[[int, float], list[Reading]], seeds: int = 3) -> None:
    """A control and a steeper variant."""
    folder.ablation("heads", ["many", "one"], seeds=list(range(seeds)), metrics=METRICS)
    for seed in range(seeds):
        folder.record("many", seed, readings=readings(seed, 1.0))
        folder.record("one", seed, readings=readings(seed, 1.5))


def words(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def curves(ax: Axes) -> list[Any]:
    return [each for each in ax.lines if each.get_marker() in style.MARKERS]


def bars(ax: Axes) -> dict[tuple[str, float], tuple[float, float]]:
    found = [line for line in ax.lines if line.get_marker() == "None" and line.get_lw() > 0.6]
    return {(to_hex(a.get_color()), a.get_xdata()[0]): tuple(a.get_ydata()) for a in found}


def of(panels: Panels, metric: str, across: str = "data=3k", series: str = "") -> Any:
    (found,) = [
        (frame, ax)
        for frame, ax in panels
        if (frame["metric"].iloc[0], frame["across"].iloc[0], frame["series"].iloc[0])
        == (metric, across, series)
    ]
    return found


def values(metric: str, seed: int, steep: float, **at: Any) -> float | None:
    """What the records say, looked up in the readings themselves."""
    (found,) = [
        each.value
        for each in along(seed, steep)
        if each.metric == metric and all(each.at.get(name) == to for name, to in at.items())
    ]
    return found


def test_the_lab_says_of_its_metrics_what_their_measures_say() -> None:
    from ablations.measure import quantities_of

    known = quantities_of(["gradients", "heads", "beyond", "landscape"])
    assert {name: vars(known[name]) for name in METRICS} == METRICS


@pytest.mark.parametrize(
    ("metric", "coordinate", "places", "rest"),
    [
        ("last_gradient", "depth", DEPTHS, {}),
        ("pruned_ratio", "removed", REMOVED, {"by": "importance"}),
        ("perplexity_ratio", "past", PASTS[:1], {}),
    ],
)
def test_a_line_goes_through_the_means_and_its_bars_are_t_intervals(
    evidence: Evidence, metric: str, coordinate: str, places: Any, rest: Any
) -> None:
    series = ", ".join(f"{name}: {word}" for name, word in rest.items())
    _, ax = of(drawn(FIGURE[metric], evidence), metric, series=series)
    looks = looks_of(evidence)
    ends = bars(ax)
    for line, label, steep in zip(curves(ax)[:2], ("8 heads", "1 head"), (1.0, 1.5), strict=True):
        assert (to_hex(line.get_color()), line.get_marker()) == (
            looks[label].colour.lower(),
            looks[label].marker,
        )
        read = np.array([[values(metric, seed, steep, **{coordinate: x}, **rest) for x in places]
                         for seed in SEEDS], dtype=float)  # fmt: skip
        many = len(places)
        assert line.get_xdata().tolist()[:many] == pytest.approx(list(places))
        assert line.get_ydata().tolist()[:many] == pytest.approx(read.mean(axis=0).tolist())
        dots = [dot for dot in ax.lines if dot.get_marker() == "."
                and to_hex(dot.get_color()) == looks[label].colour.lower()]  # fmt: skip
        for dot, x, each in zip(dots, places, read.T, strict=False):
            assert set(dot.get_xdata()) == {x}
            assert dot.get_ydata().tolist() == pytest.approx(each.tolist()), "every seed"
        half = 2.776445 * read.std(axis=0, ddof=1) / math.sqrt(5)  # t of 4 degrees of freedom
        for x, mean, reach in zip(places, read.mean(axis=0), half, strict=True):
            found = ends[to_hex(line.get_color()), x]
            assert found == pytest.approx((mean - reach, mean + reach), rel=1e-5)


@pytest.mark.parametrize("metric", FIGURE)
def test_one_panel_for_each_crossing_and_none_for_an_array(evidence: Evidence, metric: str) -> None:
    panels = drawn(FIGURE[metric], evidence)
    assert [(frame["across"].iloc[0], frame["metric"].iloc[0]) for frame, _ in panels] == [
        (across, metric) for across in ("data=3k", "data=30k")
    ]


def test_its_axes_say_in_words_what_they_are(evidence: Evidence) -> None:
    _, ax = of(drawn("along", evidence), "last_gradient")
    assert words(ax) == ["heads, data=3k", "gradient norm in the last block (nats/label)"]
    assert ax.get_xlabel() == "depth, in blocks"
    _, ax = of(drawn("pruning", evidence), "pruned_ratio", series="by: importance")
    assert words(ax)[0] == "heads, data=3k"
    assert ax.get_xlabel() == "share of heads removed"
    _, ax = of(drawn("beyond", evidence), "perplexity_ratio")
    assert ax.get_xlabel() == "length, in trained lengths"


def test_heads_removed_at_random_are_hollow_marks_of_the_same_look(evidence: Evidence) -> None:
    _, ax = of(drawn("pruning", evidence), "pruned_ratio", series="by: importance")
    filled, hollow = curves(ax)[:2], curves(ax)[2:]
    for first, other, steep in zip(filled, hollow, (1.0, 1.5), strict=True):
        assert to_hex(first.get_color()) == to_hex(other.get_color())
        assert (first.get_marker(), other.get_linestyle()) == (other.get_marker(), ":")
        assert first.get_markerfacecolor() != "none" == other.get_markerfacecolor()
        means = [
            np.mean([values("pruned_ratio", s, steep, removed=x, by="random") for s in SEEDS])
            for x in REMOVED
        ]
        assert other.get_ydata().tolist() == pytest.approx(means)


def test_the_trained_length_and_no_loss_at_all_are_lines(evidence: Evidence) -> None:
    _, ax = of(drawn("beyond", evidence), "perplexity_ratio")
    level, upright = sorted(
        (line for line in ax.lines if to_hex(line.get_color()) == style.INK), key=lambda each:
        len(set(each.get_xdata())), reverse=True,
    )  # fmt: skip
    assert set(upright.get_xdata()) == {1}
    assert set(level.get_ydata()) == {1}
    assert 1.0 in ax.get_xticks()
    _, pruned = of(drawn("pruning", evidence), "pruned_ratio", series="by: importance")
    assert [set(line.get_ydata()) for line in pruned.lines
            if to_hex(line.get_color()) == style.INK] == [{1}]  # fmt: skip


def test_depths_are_doubled_shares_are_not_and_values_only_where_they_span_a_decade(
    evidence: Evidence,
) -> None:
    panels = [each for name in FIGURE.values() for each in drawn(name, evidence)]
    scales = {frame["metric"].iloc[0]: (ax.get_xscale(), ax.get_yscale()) for frame, ax in panels}
    assert scales == {
        "last_gradient": ("log", "linear"),
        "pruned_ratio": ("linear", "log"),
        "perplexity_ratio": ("log", "linear"),
    }
    for _, ax in panels:
        low, high = ax.get_ylim()
        ticks = [t for t in ax.yaxis.get_major_ticks() if low <= t.get_loc() <= high]
        told = [t.label1.get_text() for t in ticks]
        assert len(told) >= 2
        assert [float(word) for word in told] == pytest.approx([t.get_loc() for t in ticks])


def test_where_a_seed_has_no_number_there_is_a_cross_and_no_mean_of_the_others(
    evidence: Evidence,
) -> None:
    frame, ax = of(drawn("beyond", evidence), "perplexity_ratio")
    (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert cross.get_xdata()[0] == PASTS[-1]
    assert [len(line.get_xdata()) for line in curves(ax)] == [2, 1]
    lost = frame[frame["value"].isna()]
    assert lost["reason"].tolist() == [probe_lab.TOO_FAR]
    assert lost["label"].tolist() == ["1 head"]


def test_two_seeds_have_a_mean_and_no_interval(folder: Any) -> None:
    recorded(folder, along, seeds=2)
    for _, ax in drawn("along", gather(folder.root)):
        assert not bars(ax)
        assert len(curves(ax)) == 2


def test_a_model_that_never_learned_is_in_no_mean(folder: Any) -> None:
    recorded(folder, along)
    folder.record("one", 2, status="stuck", readings=along(2, 40.0))
    frame = figures.panels("along", gather(folder.root))[0]
    assert frame[frame["label"] == "many"]["n"].tolist() == [3] * len(DEPTHS)
    assert frame[frame["label"] == "one"]["n"].tolist() == [2] * len(DEPTHS)


def test_the_last_step_of_a_trial_counts(folder: Any) -> None:
    def twice(seed: int, steep: float) -> list[Reading]:
        return [
            Reading("pruned_ratio", "1", value + seed * steep, "test",
                    {"step": step, "removed": share, "by": "importance"})
            for step, value in ((200, 1.0), (100, 50.0))
            for share in REMOVED
        ]  # fmt: skip

    recorded(folder, twice)
    (frame,) = figures.panels("pruning", gather(folder.root))
    assert frame[frame["label"] == "many"]["value"].tolist() == [2.0] * 3


def test_every_field_of_a_map_has_the_colour_of_its_weight(evidence: Evidence) -> None:
    panels = drawn("maps", evidence)
    assert [frame["layer"].iloc[0] for frame, _ in panels] == list(LAYERS)
    said = {each.at["layer"]: each for each in reversed(maps(seed=0))}  # of the first example
    for frame, ax in panels:
        reading = said[frame["layer"].iloc[0]]
        assert reading.at["example"] == frame["example"].iloc[0] == 7
        assert reading.values is not None
        assert len(ax.child_axes) == len(reading.values)
        for inset, weights in zip(ax.child_axes, reading.values, strict=True):
            (mesh,) = inset.collections
            assert mesh.get_clim() == (0, 1)
            colours = COLOURS(np.array(weights).ravel())
            np.testing.assert_allclose(mesh.get_facecolors(), colours)
            assert inset.yaxis_inverted(), "the first query stands on top"


def test_tokens_stand_beside_their_rows_and_below_their_columns(evidence: Evidence) -> None:
    *_, (_, ax) = drawn("maps", evidence)
    first, second = ax.child_axes
    assert [text.get_text() for text in first.get_yticklabels()] == list(PHONES)
    assert first.get_yticks().tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert not second.get_yticklabels(), "they are those of the first"
    for inset in (first, second):
        assert [text.get_text() for text in inset.get_xticklabels()] == ["c", "a", "t", "<eos>"]
    assert words(first) == ["head 0"]
    assert words(ax)[0] == "heads: decoder block 0, to the source"
    assert words(ax)[1].startswith("seed 0, example 7: queries down, keys across")


def test_many_heads_take_several_rows_and_keys_that_are_too_close_are_named_in_part(
    folder: Any,
) -> None:
    keys = [f"k{j}" for j in range(16)]
    axes: dict[str, list[Any]] = {"head": list(range(6)), "query": ["q"], "key": keys}
    reading = Reading("attention", "probability", at={"layer": "shown", "example": 0},
                      axes=axes, values=[[[1 / 16] * 16]] * 6)  # fmt: skip
    folder.ablation("looks", ["control", "other"])
    folder.record("control", 1, readings=[reading])
    folder.record("other", 0, readings=[reading])
    ((frame, ax),) = drawn("maps", gather(folder.root))
    assert frame["name"].unique().tolist() == ["control"]
    tops = [round(inset.get_position().y1, 6) for inset in ax.child_axes]
    assert len(set(tops)) == 2
    named = [[text.get_text() for text in inset.get_xticklabels()] for inset in ax.child_axes]
    assert named == [[], [], *[keys[::2]] * 4], "below the lowest picture of each column"


def test_colours_darken_with_the_amount_so_that_grey_and_the_colour_blind_read_them() -> None:
    rgb = COLOURS(np.linspace(0, 1, 50))[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) < 0).all()
    hues = rgb_to_hsv(rgb[10:])[:, 0] * 360
    assert ((hues > 190) & (hues < 215)).all(), "one hue, blue"


def band(inset: Axes, x: float, y: float) -> list[int]:
    """Between which two levels a place was filled: inside an outline, and in none of its holes."""
    outlines = [path.to_polygons() for path in inset.collections[0].get_paths()]
    around = [sum(MPath(each).contains_point((x, y)) for each in own) for own in outlines]
    return [k for k, count in enumerate(around) if count % 2]


def test_every_place_of_a_surface_is_filled_between_the_levels_of_its_loss(
    evidence: Evidence,
) -> None:
    seen = 0
    panels = drawn("surface", evidence)
    assert [frame["across"].iloc[0] for frame, _ in panels] == ["data=3k", "data=30k"]
    for _, ax in panels:
        pictures, bar = ax.child_axes[:-1], ax.child_axes[-1]
        levels = pictures[0].collections[0].levels
        shown = [float(text.get_text()) for text in bar.get_yticklabels()]
        assert set(shown) <= {float(f"{level:.3g}") for level in levels}
        for inset, steep in zip(pictures, (1.0, 1.5), strict=True):
            assert inset.collections[0].levels.tolist() == levels.tolist(), "one scale for both"
            for x in PLACES[1:-1]:
                for y in PLACES[1:-1]:
                    loss = probe_lab.loss(x, y, 0, steep)
                    assert loss is not None
                    if not np.isclose(levels, loss).any():  # at a level two bands meet
                        assert band(inset, x, y) == [int(np.searchsorted(levels, loss)) - 1]
                        seen += 1
        assert not band(pictures[1], 0.98, 0.98), "where there is no number there is no colour"
        assert band(pictures[0], 0.98, 0.98)
    assert seen > 20


def test_a_surface_tells_the_mean_curvature_and_who_it_is(evidence: Evidence) -> None:
    for _, ax in drawn("surface", evidence):
        assert [words(inset) for inset in ax.child_axes[:-1]] == [
            ["8 heads", "curvature 7.00"],  # 5 × 1.0 + the mean of 0 to 4
            ["1 head", "curvature 9.50"],
        ]
        assert words(ax)[1] == "loss around the trained weights (nats/token)"


def test_losses_that_span_a_decade_have_levels_that_are_even_in_the_logarithm(folder: Any) -> None:
    recorded(folder, lambda seed, steep: surface(seed, 6.0 * (steep - 0.9)))
    ((frame, ax),) = drawn("surface", gather(folder.root))
    levels = ax.child_axes[0].collections[0].levels
    steps = np.diff(np.log(levels))
    np.testing.assert_allclose(steps, steps[0])
    assert levels[0] <= frame["loss"].min()
    assert frame["loss"].max() <= levels[-1]


def test_an_arm_that_never_learned_is_shown_as_such_and_one_seed_that_did_not_is_passed_over(
    folder: Any,
) -> None:
    folder.ablation("residual", ["with", "without"], seeds=[0, 1], metrics=METRICS)
    for seed in (0, 1):
        folder.record("with", seed, status="ok" if seed else "stuck", readings=surface(seed, 1.0))
        folder.record("without", seed, status="stuck", readings=surface(seed, 0.2))
    ((frame, ax),) = drawn("surface", gather(folder.root))
    assert dict(zip(frame["label"], frame["seed"], strict=True)) == {"with": 1, "without": 0}
    assert [words(inset) for inset in ax.child_axes[:-1]] == [
        ["with", "curvature 6.00"],
        ["without (stuck)", "curvature 1.50"],
    ]


def test_each_tells_in_words_what_it_shows(evidence: Evidence) -> None:
    names = ("along", "maps", "surface")
    told = {name: figures.describe(name, figures.panels(name, evidence)) for name in names}
    assert "8 heads [data=3k]: 0.362 at 2 to 0.128 at 16" in told["along"]
    assert "decoder block 0, to the source; head 0 most from" in told["maps"]
    assert "8 heads [data=30k]: 2.00 in the middle, up to 7.00, curvature 7.00" in told["surface"]
