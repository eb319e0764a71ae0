"""The table of complexities, stated and measured: exponents of work and steps, and paths."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis import rows, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short
from analysis.predictions import Predicted
from analysis.sentences import number

CAPTION = (
    "What a table of complexities states of a layer beside what was counted: exponents of work and "
    "dependent steps in length and width, and the longest path between two tokens. Mixing: where "
    "tokens meet; projection: on single tokens. Open square: stated; dot: counted."
)
MARGINS = rows.MARGINS
WORDS = {
    "mixing_work": "mixing work",
    "projection_work": "projection work",
    "dependent_steps": "dependent steps",
    "path": "longest path",
}


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """The predictions about counts of each question that has some, powers apart from numbers."""
    found: list[dict[str, Any]] = []
    for name, entry in evidence.loaded.ablations.items():
        for claim in entry["claims"]:
            for plain in claim["predicts"]:
                row = _row(Predicted(evidence.loaded, name, plain))
                if row is not None:
                    found.append({"ablation": name, "control": entry["control"], **row})
    columns = ["ablation", "control", "kind", "metric", "name", "along", "value", "low", "high"]
    frame = pd.DataFrame(found, columns=columns).drop_duplicates(columns[:6])
    return [panel.copy() for _, panel in frame.groupby(["ablation", "kind"], sort=False)]


def _row(predicted: Predicted) -> dict[str, Any] | None:
    plain = predicted.plain
    if not predicted.is_counted or plain["word"] not in ("exponent", "exact"):
        return None
    if plain["metric"] not in WORDS:
        return None
    shown = predicted.shown(sorted(predicted.ended()), 0.95)
    if math.isnan(shown.effect):
        return None
    is_power = plain["word"] == "exponent"
    low, high = plain["between"] if is_power else (plain["value"], plain["value"])
    at = "".join(f" of {value:g}" for value in plain["at"].values() if not isinstance(value, str))
    return {
        "kind": "exponent" if is_power else "number",
        "metric": plain["metric"],
        "name": plain["of"][0],
        "along": f"in {plain['along']}" if is_power else at.strip(),
        "value": shown.effect,
        "low": low,
        "high": high,
    }


def inches(frame: pd.DataFrame) -> float:
    return rows.inches(_groups(frame), MARGINS)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    groups = _groups(frame)
    is_power = frame["kind"].iloc[0] == "exponent"
    ends = [*frame["value"], *frame["low"].dropna(), *frame["high"].dropna()]
    if is_power:
        ax.set_xlim(min(-0.25, *ends), max(2.4, *ends))
    else:
        ax.set_xscale("log")
        ax.set_xlim(0.7 * max(1, min(ends)), 1.5 * max(1, *ends))  # 0: it never arrives
        ax.xaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
    title = "Exponents, stated and counted" if is_power else "Paths, stated and counted"
    rows.label(ax, groups, title, "less", "more", count="found")
    for group in groups:
        for row in group.rows:
            data = row.data
            ax.plot(_stated(data), row.y, "s", ms=5.5, mew=0.9, color=style.QUIET, mfc="none")
            ax.plot(data["value"], row.y, "o", ms=2.6, mew=0, color=style.BLUE)
    ax.set_xlabel("exponent" if is_power else "applications of a layer or cell", labelpad=2)
    return ax


def _groups(frame: pd.DataFrame) -> list[rows.Group]:
    groups = []
    for (metric, along), members in frame.groupby(["metric", "along"], sort=False):
        group = rows.Group(WORDS[str(metric)], f"what is stated, {along}")
        for data in listed(members):
            group.rows.append(rows.LabelledRow(data["name"], number(data["value"], 0.03), data))
        groups.append(group)
    return groups


def _stated(row: dict[str, Any]) -> float:
    """The middle of what is predicted; of bounds with an open end, the other."""
    ends = [end for end in (row["low"], row["high"]) if end is not None and not math.isnan(end)]
    return math.fsum(ends) / len(ends)


def describe(frames: list[pd.DataFrame]) -> str:
    told = [
        f"{short(row['name'])}: {WORDS[row['metric']]} {row['along']} "
        f"{number(row['value'], 0.03)}, stated {number(_stated(row), 0.03)}."
        for frame in frames
        for row in listed(frame)
    ]
    return "Complexities, stated and counted. " + " ".join(told)
