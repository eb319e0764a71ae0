"""A row for each variant: its difference of scores, or ratio of times, to the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ablations.store.record import TRAINED
from ablations.store.words import AXES, CHAPTERS
from analysis import stats
from analysis.chapters import by_chapter
from analysis.contrasts import Evidence, final_scores
from analysis.load import FINE, Loaded, Row
from analysis.plots import canvas, style
from analysis.plots.canvas import Panel
from analysis.timing import on_curves
from analysis.wording import after_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 6  # rows of an axis
COLOURS = {"worse": style.WORSE, "better": style.BETTER, "higher": style.INK, "lower": style.INK}
SILENT = ("not run", "not resolved", "few seeds", "unfinished", "failed", *COLOURS)
LETTERS = 22  # of a name


def panels(evidence: Evidence) -> list[Panel]:
    """A forest of differences for each experiment."""
    found = []
    for (name, unit), own in evidence.contrasts.groupby(["experiment", "unit"], sort=False):
        if not (own["n"] > 0).any():
            continue
        first = own.iloc[0]
        lost = _lost(evidence.loaded, str(name))
        is_even = len(set(zip(own["n"], own["planned"], strict=True))) == 1
        rows = own.to_dict("records")
        frame = own.assign(
            value=own["difference"],
            lost=[lost.get((row["variant"], row["factors"]), []) for row in rows],
            words=[words_of(row, is_even) for row in rows],
        ).reset_index(drop=True)
        frame = frame.rename(columns={"differences": "points"})
        sides = ("worse", "better") if first["better"] == "higher" else ("better", "worse")
        frame.attrs |= {
            "x_label": f"difference{after_heading(str(unit))}",
            "sides": sides if own["trained"].any() else ("lower", "higher"),
        }
        found.append(
            Panel(
                kind="forest", experiment=str(name), frame=frame, plot=plot,
                title=canvas.heading(name, f"{first['metric_title']} on {first['task']}"),
                subtitle=f"difference from {canvas.cut(first['baseline'], 40)}",
                note=canvas.counted(frame),
                size=(style.WIDTH, 1.25 + 0.17 * len(frame)),
            )
        )  # fmt: skip
    return found


def _lost(loaded: Loaded, experiment: str) -> dict[tuple[str, str], list[float]]:
    """Variant and factors → final scores of failed seeds minus the baseline's in the same seed."""
    entry = loaded.experiments[experiment]
    final = final_scores(loaded, experiment, entry["metric"]["name"], entry["metric"]["split"])
    is_base = (final["variant"] == entry["baseline"]) & (final["status"] == FINE)
    base = final[is_base][["factors", "seed", "value"]]
    failed = final[final["status"].isin(TRAINED[1:])]
    both = failed.merge(base, on=["factors", "seed"], suffixes=("", "_of_baseline"))
    apart = both["value"] - both["value_of_baseline"]
    return apart.groupby([both["variant"], both["factors"]]).apply(list).to_dict()


def words_of(row: Row, is_even: bool) -> str:
    """Words at the right of a row: a tie, failed seeds, seeds still missing."""
    baseline = row["baseline_failures"] and f"baseline: {row['baseline_failures']}"
    words = [each for each in (row["failures"], baseline) if each]
    if row["mark"] not in SILENT:
        words.append(row["mark"])
    if not words and row["n"] == 0:
        words.append("not run")
    elif not words and not is_even and row["n"] < row["planned"]:
        words.append(f"n = {row['n']} of {row['planned']}")
    return "; ".join(words)


def speed_panels(evidence: Evidence) -> list[Panel]:
    """A forest of time ratios for each experiment and machine, without points of curves."""
    frame = evidence.speeds
    is_itself = (frame["variant"] == frame["baseline"]) & (
        frame["compared_with"] == frame["baseline"]
    )
    timed = frame[~is_itself & (frame["n"] > 0) & ~on_curves(evidence)]
    found = []
    for (name, machine), own in timed.groupby(["experiment", "machine"], sort=False):
        several = own.duplicated(["name", "compared_with", "metric", "where"], keep=False)
        seeds = (", seed " + own["seed"].astype(str)).where(several, "")
        elsewhere = (" over " + own["compared_with"]).mask(
            own["compared_with"] == own["baseline"], ""
        )
        rows = own.assign(
            value=own["ratio"], name=own["name"] + seeds, lost=[[]] * len(own), words="",
            points=[np.exp(logs).tolist() for logs in own["logs"]],
            mark=np.select([own["low"] > 1, own["high"] < 1], ["worse", "better"], "not resolved"),
            group=own["metric_title"] + ", " + own["where"] + elsewhere,
        )  # fmt: skip
        rows = rows.sort_values("group", kind="stable", ignore_index=True)
        groups = rows["group"].unique()
        rows.attrs |= {"x_label": "times the baseline's time", "sides": ("faster", "slower")}
        rows.attrs["ratio"] = True
        device = str(machine).split(",")[0].removeprefix("device ")
        found.append(
            Panel(
                kind="speed", experiment=str(name), frame=rows, plot=plot,
                title=canvas.heading(name, "time over the baseline's"),
                subtitle=groups[0] if len(groups) == 1 else "",
                note=f"{device}; {canvas.counted(rows, 'processes')}",
                size=(style.WIDTH, 1.25 + 0.17 * (len(rows) + len(groups))),
            )
        )  # fmt: skip
    return found


def overview_panels(evidence: Evidence) -> list[Panel]:
    """The largest differences of the six axes on one sheet, in per cent of the baseline."""
    names = by_chapter(evidence.loaded)
    frame = pd.DataFrame([row for axis in AXES for row in _largest(evidence, axis, names)])
    if frame.empty:
        return []
    frame.attrs |= {"linear_to": 10.0, "letters": 46, "sides": ("lower", "higher")}
    frame.attrs["x_label"] = "per cent of the baseline; linear to ± 10, logarithmic beyond"
    return [
        Panel(
            kind="overview", experiment=None, frame=frame, plot=plot,
            title="Change one piece of a transformer and train it again",
            subtitle="change of the score; orange: worse, blue: better, hollow: not resolved",
            note=f"{canvas.counted(frame)}; the {MOST} largest differences of each axis",
            size=(8.0, 1.4 + 0.18 * (len(frame) + frame["group"].nunique())),
        )
    ]  # fmt: skip


def _largest(evidence: Evidence, axis: str, names: Mapping[str, Sequence[str]]) -> list[Row]:
    """The largest differences of an axis, each variant once for each task."""
    frame = evidence.contrasts
    about = frame["experiment"].isin(names.get(axis, []))
    is_shown = about & frame["trained"].astype(bool) & (frame["n"] >= stats.LEAST)
    frame = frame[is_shown & (frame["baseline_mean"] > 0)]
    share = 100 / frame["baseline_mean"]
    frame = frame.assign(
        **{end: share * frame[end] for end in ("low", "high")},
        value=share * frame["difference"], lost=[[]] * len(frame),
        points=[[s * x for x in own] for s, own in zip(share, frame["differences"], strict=True)],
        name=frame["name"] + ", " + frame["metric_title"],
    )  # fmt: skip
    largest = frame.reindex(frame["value"].abs().sort_values(ascending=False, kind="stable").index)
    largest = largest.drop_duplicates(["name", "task"])[:MOST]
    words = [f"{value:+.0f} %".replace("-", "−") for value in largest["value"]]
    group = f"{CHAPTERS[axis]}, over {'; '.join(largest['baseline'].unique())}"
    shown = largest.assign(words=words, group=group)
    shown["words"] = shown["words"].mask(shown["mark"] == stats.TIE, "tie")
    columns = ["experiment", "variant", "n", "mark", "baseline", "name", "value", "low", "high"]
    return shown[[*columns, "points", "lost", "words", "group"]].to_dict("records")


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """A row for each variant from top to bottom, under headings if there is a `group`."""
    import seaborn as sns

    base = 1.0 if frame.attrs.get("ratio") else 0.0
    groups = frame["group"] if "group" in frame else pd.Series("", index=frame.index)
    begins = (groups != groups.shift()) & (groups.nunique() > 1)
    rows = frame.assign(y=np.arange(len(frame)) + begins.cumsum())
    _scale(frame, ax, base)
    ax.axvline(base, color=style.INK, linewidth=0.9, zorder=1)
    several = rows[rows["points"].map(len) > 1][["y", "points", "mark"]].explode("points")
    if len(several):  # every seed, a little below its mean
        palette = {mark: COLOURS.get(mark, style.TIE) for mark in several["mark"].unique()}
        sns.scatterplot(
            data=several.astype({"points": float, "y": float}).assign(y=several["y"] + 0.3),
            x="points", y="y", hue="mark", palette=palette, s=style.SEED**2, alpha=0.75,
            linewidth=0, legend=False, ax=ax, zorder=3,
        )  # fmt: skip
    for row in rows.to_dict("records"):
        _row(ax, row)
    for y, words in zip(rows["y"][begins] - 1, groups[begins], strict=True):
        ax.text(
            0.0, y, canvas.cut(words, 60), transform=ax.get_yaxis_transform(), size=style.NOTE,
            color=style.TEXT, va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    ax.set_yticks(rows["y"], [canvas.cut(name, frame.attrs.get("letters", LETTERS))
                              for name in frame["name"]])  # fmt: skip
    ax.tick_params(axis="y", labelcolor=style.INK)
    ax.set_ylim(rows["y"].max() + 0.6, -0.6)
    left, right = frame.attrs.get("sides", ("", ""))
    ax.set_xlabel(f"← {left}   {frame.attrs.get('x_label', '')}   {right} →")
    ax.set_ylabel("")
    return ax


def _row(ax: Axes, row: Row) -> None:
    """Mean and interval, crosses for failed seeds, and words at the right."""
    colour, y = COLOURS.get(row["mark"], style.TIE), row["y"]
    ax.plot([row["low"], row["high"]], [y, y], color=colour, lw=style.BAR, zorder=4)
    if row["n"] != 2:
        is_one = row["n"] == 1
        face = "white" if is_one or row["mark"] not in COLOURS else colour
        ax.plot(
            row["value"], y, marker="D" if is_one else "o", ms=style.MEAN - is_one, mew=1.0,
            color=colour, mfc=face, ls="", zorder=5,
        )  # fmt: skip
    for value in row["lost"]:
        ax.plot(value, y + 0.3, "x", ms=3.5, mew=0.9, color=style.WORSE, zorder=4)
    if row["words"]:
        ax.text(
            1.02, y, canvas.cut(row["words"], 24), transform=ax.get_yaxis_transform(),
            size=style.NOTE, color=style.TEXT, va="center",
        )  # fmt: skip


def _scale(frame: pd.DataFrame, ax: Axes, base: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    ends = [base, *frame["value"], *frame["low"], *frame["high"]]
    ends += [x for column in ("points", "lost") for own in frame[column] for x in own]
    low, high = (of(x for x in ends if math.isfinite(x)) for of in (min, max))
    far, even = frame.attrs.get("linear_to"), MaxNLocator(4, steps=[1, 2, 5, 10])
    ax.grid(axis="x")
    if far:
        ax.set_xscale("symlog", linthresh=far)
        ax.set_xlim(min(1.5 * low, -far), max(1.5 * high, far))
        ticks = [x for x in (-10 * far, -far, 0.0, far, 10 * far)
                 if low <= x <= high or abs(x) <= far]  # fmt: skip
        ax.set_xticks(ticks, list(map(canvas.signed, ticks)))
        ax.set_xticks([], minor=True)
    elif not frame.attrs.get("ratio"):
        room = 0.06 * (high - low or 1.0)
        ax.set_xlim(low - room, high + room)
        ax.xaxis.set_major_locator(even)
        ax.xaxis.set_major_formatter(FuncFormatter(canvas.signed))
    else:
        low, high = min(low, 0.9), max(high, 1.1)
        room, wide = (high / low) ** 0.06, high / low
        ax.set_xscale("log")
        ax.set_xlim(low / room, high * room)
        logarithmic = LogLocator(10, (1, 2, 5) if wide < 40 else (1,))
        ax.xaxis.set_major_locator(even if wide < 4 else logarithmic)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.3g}×"))
        ax.xaxis.set_minor_formatter(NullFormatter())
