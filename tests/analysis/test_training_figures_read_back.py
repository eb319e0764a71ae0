"""What is drawn of trainings is what was recorded: it is taken back from the axis and compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import probe_lab
import pytest
import training_lab as lab
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from analysis import figures, insets, style
from analysis.curves import looks_of
from analysis.evidence import Evidence, gather
from analysis.figures import sinusoid

T2, T3 = 4.302653, 3.182446  # Student's t at 97.5 %, of two and of three degrees of freedom
SCHEDULE = "schedule [tuned]"


@pytest.fixture(scope="module")
def evidence(
    tmp_path_factory: pytest.TempPathFactory, everything: Callable[[Path], Any]
) -> Evidence:
    return gather(everything(tmp_path_factory.mktemp("everything")).root)


def panel(name: str, evidence: Evidence, ablation: str, **where: str) -> tuple[pd.DataFrame, Axes]:
    """The one frame of a question, and the axis that it was drawn on."""
    (frame,) = [
        each
        for each in figures.panels(name, evidence)
        if set(each["ablation"]) == {ablation}
        and all(each[key].iloc[0] == value for key, value in where.items())
    ]
    figure = figures.compose(name, [frame])
    with style.look():
        FigureCanvasAgg(figure).draw()
    return frame, figure.axes[0]


def look_of(evidence: Evidence, label: str) -> style.Look:
    return looks_of(evidence)[label]


def line_of(ax: Axes, look: style.Look) -> Any:
    """The line with markers that has this look."""
    (found,) = [
        line
        for line in ax.lines
        if line.get_marker() == look.marker
        and to_hex(line.get_color()) == look.colour.lower()
        and line.get_linewidth() == 1.0
        and line.get_linestyle() != "None"
    ]
    return found


def crosses(ax: Axes) -> list[tuple[float, float, str]]:
    return [
        (line.get_xdata()[0], line.get_ydata()[0], to_hex(line.get_color()))
        for line in ax.lines
        if line.get_marker() == "x" and line.get_linestyle() == "None"
        and len(line.get_xdata()) == 1 and line.get_markersize() == 4
    ]  # fmt: skip


def words(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def half(values: list[float], t: float) -> float:
    return t * float(np.std(values, ddof=1)) / math.sqrt(len(values))


# Learning curves


def test_a_learning_curve_is_the_mean_of_the_seeds_that_ended_well(evidence: Evidence) -> None:
    _, ax = panel("learning", evidence, SCHEDULE)
    for label, level, seeds in (("both", 1.8, (0, 1, 2)), ("no warm-up", 2.0, (0, 2))):
        line = line_of(ax, look_of(evidence, label))
        means = [np.mean([lab.loss_at(x, seed, level) for seed in seeds]) for x in lab.STEPS]
        assert line.get_xdata().tolist() == list(lab.STEPS)
        assert line.get_ydata().tolist() == pytest.approx(means)


def test_the_band_of_a_learning_curve_is_a_t_interval_and_two_seeds_have_none(
    evidence: Evidence,
) -> None:
    _, ax = panel("learning", evidence, SCHEDULE)
    bands = {to_hex(each.get_facecolor()[0][:3]): each for each in ax.collections}
    corners = np.concatenate(
        [path.vertices for path in bands[look_of(evidence, "both").colour.lower()].get_paths()]
    )
    for step in lab.STEPS:
        values = [lab.loss_at(step, seed, 1.8) for seed in (0, 1, 2)]
        ends = np.mean(values) - half(values, T2), np.mean(values) + half(values, T2)
        heights = corners[corners[:, 0] == step][:, 1]
        assert (heights.min(), heights.max()) == pytest.approx(ends)
    few = bands[look_of(evidence, "no warm-up").colour.lower()]
    assert not [path for path in few.get_paths() if len(path.vertices)]


def test_every_seed_has_a_faint_line_and_one_that_failed_ends_in_a_cross(
    evidence: Evidence,
) -> None:
    _, ax = panel("learning", evidence, SCHEDULE)
    faint = [line for line in ax.lines if line.get_linewidth() == 0.5]
    drawn = {tuple(round(y, 9) for y in line.get_ydata()) for line in faint}
    expected = {
        tuple(round(lab.loss_at(step, seed, level), 9) for step in lab.STEPS)
        for level, seeds in ((1.8, (0, 1, 2)), (2.0, (0, 2)), (1.9, (0, 1, 2)))
        for seed in seeds
    }
    early = tuple(round(lab.loss_at(step, 1, 3.9), 9) for step in lab.STEPS[:2])
    assert drawn == {*expected, early}
    ((x, y, colour),) = crosses(ax)
    assert colour == look_of(evidence, "no warm-up").colour.lower()
    assert x == lab.STEPS[1]
    assert y == pytest.approx(min(early[-1], ax.get_ylim()[1]))


def test_a_learning_curve_says_what_it_is_of(evidence: Evidence) -> None:
    _, ax = panel("learning", evidence, SCHEDULE)
    assert words(ax) == [SCHEDULE, "loss on validation data (nats/token)"]
    assert ax.get_xlabel() == "steps"
    frames = [panel("learning", evidence, SCHEDULE)[0]]
    assert "no warm-up: 4.02 at step 0 to 2.07 at step 300, 1 of 3 seeds failed (diverged)" in (
        figures.describe("learning", frames)
    )


def test_a_seed_that_failed_without_a_number_is_a_cross_on_top(folder: Any) -> None:
    from ablations.store.record import Reading

    folder.ablation("norm", ["pre", "post"])
    for seed in (0, 1, 2):
        folder.record("pre", seed, readings=lab.learning(seed, 2.0))
        lost = Reading("loss", "nats/token", None, "valid", {"step": 100}, reason="not finite")
        folder.record("post", seed, status="diverged", readings=[lost])
    _, ax = panel("learning", gather(folder.root), "norm")
    assert [(x, y) for x, y, _ in crosses(ax)] == [(100.0, ax.get_ylim()[1])] * 3


def test_a_seed_that_left_nothing_is_a_cross_at_the_start(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    for seed in (0, 1, 2):
        folder.record("pre", seed, readings=lab.learning(seed, 2.0))
    folder.record("post", 0, status="oom")
    folder.record("post", 1, status="error")  # and the last is still to be run
    frame, ax = panel("learning", gather(folder.root), "norm")
    assert [(x, y) for x, y, _ in crosses(ax)] == [(0.0, ax.get_ylim()[1])] * 2
    assert "post: 2 of 2 seeds failed (oom, error)" in figures.describe("learning", [frame])


def test_a_seed_that_ended_well_and_has_no_number_has_not_failed(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], crossings=[{"depth": "2"}, {"depth": "4"}])
    for depth in ("2", "4"):
        for seed in (0, 1, 2):
            folder.record("pre", seed, 0.2 + 0.01 * seed, across={"depth": depth})
            owed = seed == 2
            folder.record("post", seed, None if owed else 0.3, across={"depth": depth})
    frame, ax = panel("crossed", gather(folder.root), "norm")
    assert not crosses(ax)
    assert "failed" not in figures.describe("crossed", [frame])


# Tuning


def tuned_mean(label: str, rate: float) -> float | None:
    losses = [lab.tried_loss(label, rate, seed) for seed in (0, 1)]
    return None if None in losses else float(np.mean(losses))  # type: ignore[arg-type]


def test_a_tuning_curve_goes_through_the_mean_loss_of_each_rate(evidence: Evidence) -> None:
    _, ax = panel("tuning", evidence, SCHEDULE)
    for label in lab.SCHEDULES:
        line = line_of(ax, look_of(evidence, label))
        expected = {x: tuned_mean(label, x) for x in lab.TRIED}
        known = {x: y for x, y in expected.items() if y is not None}
        assert line.get_xdata().tolist() == pytest.approx(list(known))
        assert line.get_ydata().tolist() == pytest.approx(list(known.values()))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert words(ax)[1] == "loss on validation data by learning rate (nats)"


def test_rings_stand_around_what_was_chosen_and_dotted_ones_around_the_runner_up(
    evidence: Evidence,
) -> None:
    _, ax = panel("tuning", evidence, SCHEDULE)
    rings: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    for each in ax.collections:
        is_dotted = each.get_linestyles()[0][1] is not None
        rings[is_dotted][to_hex(each.get_edgecolors()[0][:3])] = each.get_offsets()[0].tolist()
    chosen = {
        look_of(evidence, label).colour.lower(): pytest.approx([rate, tuned_mean(label, rate)])
        for label, rate in lab.CHOSEN.items()
    }
    other = [1e-3, tuned_mean("no warm-up", 1e-3)]
    assert rings[False] == chosen
    assert rings[True] == {look_of(evidence, "no warm-up").colour.lower(): pytest.approx(other)}


def test_a_rate_that_fails_is_a_cross_on_top_and_what_the_grid_grew_by_is_shaded(
    evidence: Evidence,
) -> None:
    frame, ax = panel("tuning", evidence, SCHEDULE)
    assert crosses(ax) == [(3e-2, ax.get_ylim()[1], look_of(evidence, "no warm-up").colour.lower())]
    (shade,) = ax.patches
    assert shade.get_x() == pytest.approx(math.sqrt(1e-2 * 3e-2))
    assert shade.get_x() + shade.get_width() == pytest.approx(ax.get_xlim()[1])
    told = figures.describe("tuning", [frame])
    assert "both: 0.01 with 2.01" in told
    assert "no decay: 0.03 with 2.01, at an end of the grid" in told


def test_a_second_tuned_setting_is_a_line_of_its_own_in_the_look_of_its_arm(folder: Any) -> None:
    tried = [
        {"set": {lab.RATE: rate, "model.cell.forget_bias": bias}, "losses": [rate + bias, rate]}
        for rate in lab.GRID
        for bias in (0.5, 1.0)
    ]
    choice = {**lab.choice("lstm"), "tried": tried, "chosen": tried[0]["set"]}
    folder.ablation("distance", ["lstm"], tuning=[choice])
    folder.record("lstm", 0, 0.2)
    frame, ax = panel("tuning", gather(folder.root), "distance")
    assert list(dict.fromkeys(frame["label"])) == ["lstm, forget_bias 0.5", "lstm, forget_bias 1.0"]
    lines = [line for line in ax.lines if line.get_linewidth() == 1.0]
    assert [line.get_ydata()[0] for line in lines[:2]] == pytest.approx([0.251, 0.501])
    assert len({to_hex(line.get_color()) for line in lines}) == 1
    assert lines[0].get_linestyle() != lines[1].get_linestyle()


def test_an_arm_that_was_tuned_and_is_not_asked_for_has_no_curve(folder: Any) -> None:
    """As where one claim alone is asked about."""
    choices = [lab.choice(label) for label in lab.SCHEDULES]
    first, *others = lab.SCHEDULES
    folder.ablation("position", [first], tuning=choices)
    folder.record(first, 0, 0.2)
    frame, _ = panel("tuning", gather(folder.root), "position")
    assert set(frame["arm"]) == {first}
    assert others


# Rates against warm-up


def test_a_map_of_rates_and_warm_up_has_the_colour_of_each_mean(evidence: Evidence) -> None:
    frame, ax = panel("rates", evidence, SCHEDULE)
    assert set(frame["label"]) == {"both", "no warm-up"}, "no decay has another schedule"
    mesh = ax.collections[0]
    shown = np.ma.filled(mesh.get_array().reshape(2, 4), math.nan)
    for row, label in enumerate(("no warm-up", "both")):  # 0 and 100 steps of warm-up
        for column, rate in enumerate(lab.TRIED):
            losses = [lab.tried_loss(label, rate, seed) for seed in (0, 1)]
            whole = [loss for loss in losses if loss is not None]
            assert shown[row, column] == pytest.approx(np.mean(whole))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "100"]
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"{r:g}" for r in lab.TRIED]
    low, high = shown.min(), shown.max()
    assert mesh.get_cmap() is insets.COLOURS or mesh.get_cmap().name == insets.COLOURS.name
    assert (mesh.norm.vmin, mesh.norm.vmax) == pytest.approx((low, high))


def test_what_failed_is_hatched_where_it_failed(evidence: Evidence) -> None:
    _, ax = panel("rates", evidence, SCHEDULE)
    (hatched,) = [patch for patch in ax.patches if patch.get_hatch()]
    assert hatched.get_xy() == (3, 0), "the fastest rate, no warm-up"
    assert "1/2 failed" in words(ax)


def test_a_question_crossed_with_a_rate_has_a_map_of_its_scores(folder: Any) -> None:
    folder.ablation(
        "warmup", ["slow", "fast"], crossings=[{"rate": "1"}, {"rate": "2"}], seeds=[0, 1]
    )
    entry = folder.plan["ablations"]["warmup"]
    for cell in entry["cells"]:
        warmup, rate = {"slow": 100, "fast": 0}[cell["label"]], float(cell["across"]["rate"])
        folder.configs[cell["label"]] = lab.config(rate=rate, warmup=warmup)
        cell["settings"] = folder.described(cell["label"], cell["seed"], cell["across"]).settings
        lost = (cell["label"], rate) == ("fast", 2.0)
        folder.record(cell["label"], cell["seed"], None if lost else warmup + rate + cell["seed"],
                      across=cell["across"], status="diverged" if lost else "ok")  # fmt: skip
    folder.results.write_plan(folder.plan)
    frame, ax = panel("rates", gather(folder.root), "warmup")
    found = {(r["warmup"], r["rate"]): (r["value"], r["failed"]) for r in frame.to_dict("records")}
    assert found[100, 1.0] == (101.5, 0)
    assert found[100, 2.0] == (102.5, 0)
    assert found[0, 1.0] == (1.5, 0)
    assert found[0, 2.0][1] == 2
    assert math.isnan(found[0, 2.0][0])
    assert "2/2 failed" in words(ax)


# Schedules


def test_a_schedule_is_drawn_as_the_trainer_moves_the_rate(evidence: Evidence) -> None:
    from ablations.train.optimiser import SCHEDULE as SCHEDULES

    _, ax = panel("schedules", evidence, SCHEDULE)
    for label, (name, warmup) in lab.SCHEDULES.items():
        part = SCHEDULES.parts[name]
        own = part(part.Config(warmup=warmup), lab.STEPS[-1])
        line = line_of(ax, look_of(evidence, label))
        expected = [lab.CHOSEN[label] * own.share(int(step)) for step in line.get_xdata()]
        assert line.get_ydata().tolist() == pytest.approx(expected)
        assert line.get_xdata()[0] == 1
        assert line.get_xdata()[-1] > 290


def test_questions_with_one_schedule_show_none(folder: Any) -> None:
    folder.configs |= {"4": lab.config(4), "8": lab.config(8)}
    folder.ablation("heads", ["4", "8"], seeds=[0])
    for label in ("4", "8"):
        folder.record(label, 0, 0.2, readings=lab.rates(1e-2, "linear", 100))
    assert not figures.panels("schedules", gather(folder.root))


# Positions


def pictures(ax: Axes) -> dict[tuple[str, str], Any]:
    return {tuple(words(inset)): inset.collections[0] for inset in ax.child_axes}


def test_sinusoids_are_those_of_the_model_and_their_cosines_follow(evidence: Evidence) -> None:
    import torch

    from model.positions import Sinusoidal

    own = Sinusoidal(Sinusoidal.Config(base=100.0), 64).vectors(torch.arange(32)).numpy()
    np.testing.assert_allclose(sinusoid.sinusoids(64, 100.0), own, atol=1e-5)
    _, ax = panel("sinusoid", evidence, "where")
    shown = pictures(ax)
    cosines = shown["sines", "cosines, exact"].get_array().reshape(32, 32)
    lengths = np.linalg.norm(own, axis=1)
    np.testing.assert_allclose(cosines, own @ own.T / np.outer(lengths, lengths), atol=1e-5)
    vectors = shown["sines", "vectors, base 100"].get_array().reshape(32, 32)
    np.testing.assert_allclose(vectors[:, :2], own[:, :2], atol=1e-5)
    np.testing.assert_allclose(vectors[:, -2:], own[:, -2:], atol=1e-5)
    for mesh in shown.values():
        assert mesh.get_clim() == (-1, 1)
        assert mesh.axes.yaxis_inverted(), "the first position stands on top"


def test_learned_positions_are_those_of_the_first_seed_and_stack(evidence: Evidence) -> None:
    _, ax = panel("sinusoid", evidence, "where")
    shown = pictures(ax)
    assert len(shown) == 3, "an arm without vectors has no picture"
    found = shown["table", "cosines, seed 0"].get_array().reshape(lab.POSITIONS, lab.POSITIONS)
    expected = [[lab.cosine(i, j, 1.0) for j in range(lab.POSITIONS)] for i in range(lab.POSITIONS)]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("scheme", "width"),
    [({"join": "add"}, 64), ({"join": "concat", "width": None}, 16),
     ({"join": "concat", "width": 10}, 10)],
)  # fmt: skip
def test_vectors_that_are_appended_are_as_wide_as_the_model_makes_them(
    scheme: dict[str, Any], width: int
) -> None:
    from model.positions import Sinusoidal

    assert sinusoid.width_of(scheme, 64) == width == Sinusoidal.Config(**scheme).choose(64)


# Layers


def test_gradients_by_layer_are_means_that_end_at_the_depth(evidence: Evidence) -> None:
    _, ax = panel("layers", evidence, "heads", across="data=3k")
    for label, steep in (("8 heads", 1.0), ("1 head", 1.5)):
        look = look_of(evidence, label)
        own = [line for line in ax.lines if to_hex(line.get_color()) == look.colour.lower()]
        plain = [line for line in own if line.get_marker() == "None"]
        curves = [line for line in plain if line.get_xdata()[0] == 1]
        read = {
            depth: [each.values[-1] for seed in range(5) for each in probe_lab.along(seed, steep)
                    if each.metric == "layer_gradient" and each.at["depth"] == depth]
            for depth in probe_lab.DEPTHS
        }  # fmt: skip
        assert [line.get_xdata()[-1] for line in curves] == list(probe_lab.DEPTHS)
        for line, depth in zip(curves, probe_lab.DEPTHS, strict=True):
            assert line.get_ydata().tolist() == pytest.approx([np.mean(read[depth])] * depth)
        ends = [line for line in own if line.get_markersize() == 3.6]
        dots = [line for line in own if line.get_markersize() == 2.2]
        assert {line.get_marker() for line in ends} == {look.marker}
        assert [line.get_xdata()[0] for line in ends] == list(probe_lab.DEPTHS)
        for line, depth in zip(dots, probe_lab.DEPTHS, strict=True):
            assert line.get_ydata().tolist() == pytest.approx(read[depth])


# Heads


def test_heads_have_their_score_above_and_their_time_below(evidence: Evidence) -> None:
    frame, ax = panel("heads", evidence, "many heads")
    upper, lower = ax.child_axes
    times = frame[frame["axis"] == "time"].set_index("x")["value"]
    assert times.to_dict() == pytest.approx({4: 1.0, 1: 0.49, 16: 3.61}, rel=0.05), "the longest"
    for axis, kind in ((upper, "score"), (lower, "time")):
        own = frame[(frame["axis"] == kind) & (frame["mark"] == "mean")]
        for row in own.to_dict("records"):
            look = look_of(evidence, row["label"])
            (mark,) = [m for m in axis.lines if m.get_marker() == look.marker
                       and m.get_markersize() == 4.2
                       and to_hex(m.get_color()) == look.colour.lower()]  # fmt: skip
            assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (row["x"], row["value"])
    scores = frame[(frame["axis"] == "score") & (frame["mark"] == "mean")].set_index("x")
    assert scores["value"].to_dict() == pytest.approx({4: 0.275, 1: 0.2665, 16: 0.293})
    reach = half([0.27, 0.275, 0.28], T2)
    assert (scores["low"][4], scores["high"][4]) == pytest.approx((0.275 - reach, 0.275 + reach))
    assert [(x, y) for x, y, _ in crosses(upper)] == [(1.0, upper.get_ylim()[1])], "stuck at 0.9"


def test_a_question_that_changes_more_than_heads_has_no_curve_of_heads(folder: Any) -> None:
    folder.configs |= {
        "4": lab.config(4),
        "8": lab.config(8, warmup=7),
        "2": lab.config(2, d_model=9),
    }
    folder.ablation("recipe", ["4", "8", "2"], seeds=[0])
    for label in ("4", "8", "2"):
        folder.record(label, 0, 0.2)
    assert not figures.panels("heads", gather(folder.root))


# The ladder


def bars_of(ax: Axes) -> list[tuple[float, str, bool]]:
    """How long, of what colour, and whether filled; from the top."""
    return [
        (bar.get_width(), to_hex(bar.get_edgecolor()), bar.get_facecolor()[3] > 0)
        for bar in sorted(ax.patches, key=lambda bar: bar.get_y())
    ]


def test_the_ladder_has_the_dearest_piece_first_and_failures_on_top(evidence: Evidence) -> None:
    frame, ax = panel("ladder", evidence, "ladder")
    order = ["no residual", "no positions", "one head", "no dropout", "no scale"]
    assert frame["label"].tolist() == order
    rows = [word for word in words(ax) if word in order]
    assert rows == order
    assert "4 of 4 diverged" in words(ax)
    means = [worth + 0.0015 for worth in (0.2, 0.03, 0.01, -0.02)]
    assert frame["cost"].tolist()[1:] == pytest.approx(means)
    drawn = bars_of(ax)
    assert [width for width, *_ in drawn][1:] == pytest.approx(means[1:])
    assert drawn[0][0] == pytest.approx(ax.get_xlim()[1]), "too long, and cut"
    assert any(word.startswith("+0.202 (") for word in words(ax))
    assert drawn[-1][1:] == (style.BLUE.lower(), True)
    assert drawn[0][1:] == (style.VERMILION.lower(), True)


def test_the_interval_and_the_seeds_of_a_piece_are_drawn_beside_its_bar(evidence: Evidence) -> None:
    frame, ax = panel("ladder", evidence, "ladder")
    row = frame[frame["label"] == "one head"].iloc[0]
    seeds = [0.03 + 0.002 * (seed % 3) for seed in range(4)]
    dots = [line.get_xdata().tolist() for line in ax.lines if line.get_markersize() == 2.2]
    assert pytest.approx(seeds) in dots
    ends = np.mean(seeds) - half(seeds, T3), np.mean(seeds) + half(seeds, T3)
    assert (row["cost_low"], row["cost_high"]) == pytest.approx(ends)
    assert any(
        line.get_xdata() == pytest.approx(np.clip(ends, *ax.get_xlim()))
        for line in ax.lines
        if line.get_linewidth() == 1.2
    )


def test_where_higher_is_better_a_lower_score_is_a_cost(folder: Any) -> None:
    metric = {"name": "accuracy", "split": "valid", "better": "higher", "label": "accuracy"}
    folder.ablation("ladder", ["whole", "no scale"], metric=metric)
    for seed in (0, 1, 2):
        folder.record("whole", seed, 0.9, metric="accuracy")
        folder.record("no scale", seed, 0.7 + 0.01 * seed, metric="accuracy")
    frame, ax = panel("ladder", gather(folder.root), "ladder")
    assert frame["cost"].tolist() == pytest.approx([0.19])
    assert frame["cost_low"].iloc[0] < 0.19 < frame["cost_high"].iloc[0]
    assert sorted(frame["costs"].iloc[0]) == pytest.approx([0.18, 0.19, 0.2])
    assert bars_of(ax)[0][1] == style.VERMILION.lower()
    assert "worse without →" in words(ax)


# Crossed questions


def test_a_crossed_question_has_a_curve_over_the_levels_in_their_order(evidence: Evidence) -> None:
    frame, ax = panel("crossed", evidence, "heads")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["3k", "30k"]
    assert ax.get_xlabel() == "data"
    contrasts = evidence.contrasts[evidence.contrasts["ablation"] == "heads"]
    for label, mean in (("8 heads", "control_mean"), ("1 head", "mean")):
        line = line_of(ax, look_of(evidence, label))
        assert line.get_xdata().tolist() == [0, 1]
        assert line.get_ydata().tolist() == pytest.approx(contrasts[mean].tolist())
    own = frame[(frame["label"] == "1 head") & (frame["mark"] == "mean")]
    assert own["low"].tolist() == pytest.approx(contrasts["mean_low"].tolist())
    assert own["high"].tolist() == pytest.approx(contrasts["mean_high"].tolist())
    drawn = [line.get_ydata() for line in ax.lines
             if line.get_linewidth() == 0.8 and line.get_marker() == "None"]  # fmt: skip
    ends = frame[frame["low"].notna()][["low", "high"]].to_numpy()
    np.testing.assert_allclose(sorted(map(list, drawn)), sorted(map(list, ends)))


def test_levels_that_are_numbers_stand_where_they_are_and_failures_are_crosses(
    folder: Any,
) -> None:
    crossings = [{"data": "30000"}, {"data": "3000000"}]
    folder.ablation("depth", ["shallow", "deep"], crossings=crossings)
    for across in crossings:
        for seed in (0, 1, 2):
            folder.record("shallow", seed, 0.5 + 0.1 * seed, across=across)
            lost = across["data"] == "30000" and seed == 0
            status = {"status": "stuck"} if lost else {}
            folder.record("deep", seed, 0.65 if lost else 0.4 + 0.1 * seed, across=across, **status)
    evidence = gather(folder.root)
    frame, ax = panel("crossed", evidence, "depth")
    assert ax.get_xscale() == "log"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["30 k", "3 M"]
    line = line_of(ax, look_of(evidence, "deep"))
    assert line.get_xdata().tolist() == pytest.approx([30000, 3000000])
    assert line.get_ydata().tolist() == pytest.approx([0.55, 0.5]), "a stuck seed is in no mean"
    assert [(x, y) for x, y, _ in crosses(ax)] == [(30000.0, 0.65)]
    dots = [line for line in ax.lines if line.get_markersize() == 2.2]
    assert sorted(dots[0].get_ydata()) == pytest.approx([0.5, 0.5, 0.6, 0.6, 0.7, 0.7])
    assert "deep: 0.550 at 30000 to 0.500 at 3000000, 1 of 6 seeds failed (stuck)" in (
        figures.describe("crossed", [frame])
    )


def test_variants_at_one_level_stand_side_by_side(evidence: Evidence) -> None:
    _, ax = panel("crossed", evidence, "heads")
    first, second = (line_of(ax, look_of(evidence, label)) for label in ("8 heads", "1 head"))
    places = [line.get_transform().transform((0, 2.0))[0] for line in (first, second)]
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    assert places[1] - places[0] == pytest.approx(3.0 * figure.dpi / 72)


def test_each_panel_is_of_one_question(evidence: Evidence) -> None:
    names = ("learning", "tuning", "rates", "schedules", "sinusoid", "layers", "heads", "ladder",
             "crossed")  # fmt: skip
    for name in names:
        found = figures.panels(name, evidence)
        assert found, name
        assert all(frame["ablation"].nunique() == 1 for frame in found), name
