"""What tuning has tried for each arm, how well each setting did, and what was chosen."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter
from matplotlib.transforms import Transform

from ablations.store.seeds import TUNING
from analysis import lines, spread, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import crossing, listed
from analysis.names import short
from analysis.scores import FINE

CAPTION = (
    "How each arm was tuned: the loss on validation data by learning rate, with seeds that decide "
    "nothing. Line: mean; dots: single seeds; a cross on top: a seed failed. Ring: the setting "
    "that was chosen; dotted ring: one that did as well. Shaded: where the grid grew, since the "
    "best of an arm stood at its end."
)
MARGINS = lines.MARGINS
RATE = "train.optimiser.rate"
HEADINGS = {RATE: "learning rate"}
ARM = ["ablation", "across", "label"]
COLUMNS = [*ARM, "name", "arm", "path", "seed", "status", "x", "place", "value", "is_chosen",
           "is_runner_up", "is_at_edge", "is_extension"]  # fmt: skip


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing that was tuned over several values."""
    rows = [
        row
        for name, entry in evidence.loaded.ablations.items()
        for choice in _planned(entry)
        for row in _points(name, entry["grid"], choice)
    ]
    frame = spread.over_seeds(pd.DataFrame(rows, columns=COLUMNS), ARM)
    known = with_looks(frame.assign(label=frame["arm"]), evidence).assign(label=frame["label"])
    found = lines.by(known, "ablation", "across", "path")
    return [_with_dashes(panel) for panel in found if panel["x"].nunique() > 1]


def _planned(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices for arms that are asked for: one that decides nothing may be left out."""
    asked = {(cell["label"], crossing(cell["across"])) for cell in entry["cells"]}
    return [
        choice
        for choice in entry["tuning"]
        if (choice["label"], crossing(choice["across"])) in asked
    ]


def _points(ablation: str, grid: dict[str, list[Any]], choice: dict[str, Any]) -> list[Any]:
    """A row for each setting and seed; other settings than the one along the axis make a line."""
    path = _along(choice["tried"])
    found: list[Any] = []
    if path is None:
        return found
    for tried in choice["tried"]:
        others = {key: value for key, value in tried["set"].items() if key != path}
        words = [f"{key.split('.')[-1]} {value}" for key, value in others.items()]
        declared = [value for value in grid.get(path, []) if isinstance(value, int | float)]
        x = float(tried["set"][path])
        is_inside = not declared or min(declared) <= x <= max(declared)
        label = ", ".join([choice["label"], *words])
        told = {
            **{"ablation": ablation, "across": crossing(choice["across"]), "label": label},
            **{"name": choice["label"], "arm": choice["label"], "path": path},
            **{"x": x, "place": f"{x:g}", "is_extension": not is_inside},
            "is_chosen": tried["set"] == choice["chosen"],
            "is_runner_up": tried["set"] == choice["runner_up"],
            "is_at_edge": bool(choice["at_edge"]),
        }
        for seed, loss in zip(TUNING, tried["losses"], strict=False):
            value = math.nan if loss is None else float(loss)
            status = "failed" if loss is None else FINE
            found.append({**told, "seed": seed, "status": status, "value": value})
    return found


def _along(tried: list[dict[str, Any]]) -> str | None:
    """The setting that the axis shows: the rate, else the first that takes several numbers."""
    for path in sorted(tried[0]["set"] if tried else [], key=lambda path: path != RATE):
        values = [each["set"][path] for each in tried]
        are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if are_numbers and min(values) > 0 and len(set(values)) > 1:
            return str(path)
    return None


def _with_dashes(frame: pd.DataFrame) -> pd.DataFrame:
    """Lines of one arm share its colour and marker, and differ in their dashes."""
    own = dict(zip(frame["label"], frame["arm"], strict=True))
    index: dict[str, int] = {}
    seen: dict[str, int] = {}
    for label, arm in own.items():
        index[label] = seen.get(arm, 0)
        seen[arm] = index[label] + 1
    dashes = [
        style.DASHES[(index[row["label"]] + style.DASHES.index(row["dash"])) % len(style.DASHES)]
        for row in listed(frame)
    ]
    return frame.assign(dash=dashes)


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    first = frame.iloc[0]
    is_log = bool(frame["value"].min() > 0)
    scales = lines.Scales("log", "log" if is_log else "linear", lambda value: f"{value:g}")
    spread.begin(frame, ax, scales)
    sides = spread.bars(frame, ax)
    for row in listed(frame[frame["mark"] == spread.MEAN]):
        if row["is_chosen"] or row["is_runner_up"]:
            _ring(ax, row, sides[row["label"]])
    spread.finish(frame, ax, scales)
    rates = sorted(set(frame["x"]))
    _shade(frame, ax, rates)
    told = rates if len(rates) <= 7 else rates[::2]
    ax.xaxis.set_major_locator(FixedLocator(told))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    heading = HEADINGS.get(first["path"], first["path"])
    ax.set_xlabel(style.fit(heading, 2.2), labelpad=1)
    title = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, title, f"loss on validation data by {heading} (nats)")
    return ax


def _ring(ax: Axes, row: dict[str, Any], where: Transform) -> None:
    """Whole around what was chosen, dotted around what did as well."""
    ax.scatter(
        [row["x"]], [row["value"]], s=64, facecolors="none", edgecolors=row["colour"],
        linewidths=0.9, linestyle="-" if row["is_chosen"] else ":", transform=where, zorder=4,
    )  # fmt: skip


def _shade(frame: pd.DataFrame, ax: Axes, rates: list[float]) -> None:
    """Beyond the grid that was declared, from half way to the first value that was added."""
    added = set(frame[frame["is_extension"]]["x"])
    kept = [rate for rate in rates if rate not in added]
    low, high = ax.get_xlim()
    for side, edge in ((min, low), (max, high)):
        beyond = [rate for rate in added if side(rate, side(kept)) == rate]
        if beyond:
            nearest = (max if side is min else min)(beyond)
            ends = sorted([edge, math.sqrt(nearest * side(kept))])
            ax.axvspan(*ends, color=style.QUIET, alpha=0.15,
                       linewidth=0, zorder=0)  # fmt: skip


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        first, told = frame.iloc[0], []
        for name, own in frame.groupby("name", sort=False):
            chosen = own[own["is_chosen"] & (own["mark"] == spread.MEAN)]
            best = chosen.iloc[0] if len(chosen) else None
            words = "no setting without failures" if best is None else _choice(best)
            told.append(f"{short(str(name))}: {words}")
        title = ", ".join(short(part) for part in (first["ablation"], first["across"]) if part)
        parts.append(f" {title}: {'; '.join(told)}.")
    return "How each arm was tuned: the rate that was chosen, and its loss." + "".join(parts)


def _choice(best: pd.Series) -> str:
    at_edge = ", at an end of the grid" if best["is_at_edge"] else ""
    return f"{best['place']} with {best['value']:.3g}{at_edge}"
