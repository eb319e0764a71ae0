"""Times to read: single points, and curves along a length."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from analysis.curves import crossings, curves, exponents, on_curves
from analysis.evidence import Evidence
from analysis.lines import duration
from analysis.load import listed
from analysis.names import short
from analysis.sentences import count, number
from analysis.tables.cells import memory, times, with_interval

KEYS = ["ablation", "across", "label", "metric", "series"]


def curve_views(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Each timed curve to read: a variant a row, a length a column, and how it grows."""
    frame = curves(evidence)
    frame = frame[frame["log_seconds"].map(len).gt(0) | frame["reason"].ne("")]
    frame = frame[frame["metric"].isin(set(evidence.speeds["metric"]))]
    grows, crosses = _by_place(exponents(frame)), _by_place(crossings(frame))
    keys = [key for key in KEYS if key != "label"]
    found = {}
    for place, panel in frame.groupby(keys, sort=False):
        title = ", ".join(part for part in (place[0], place[1], place[3]) if part)
        label = evidence.loaded.ablations[place[0]]["metrics"].get(place[2], {}).get("label")
        lines_ = []
        for variant, points in panel.groupby("label", sort=False):
            line = {"variant": short(str(variant))}
            for x in sorted(set(panel["x"])):
                own = points[points["x"] == x]
                line[f"{panel['along'].iloc[0]} {x:g}"] = _curve_cell(listed(own))
            mine = (*place[:2], variant, *place[2:])
            line["exponent"] = _exponent_cell(grows.get(mine))
            line["changes places at"] = _crossing_cell(crosses.get(mine))
            lines_.append(line)
        found[f"{title}: {label or place[2]}"] = pd.DataFrame(lines_).fillna("")
    return found


def _curve_cell(rows: list[dict[str, Any]]) -> str:
    """`1.2 ms (0.54 ×)`, or why there is no time."""
    if not rows:
        return ""
    row = rows[0]
    if math.isnan(row["value"]):
        return str(row["reason"]).partition(":")[0]
    ratio = "" if math.isnan(row["ratio"]) else f" ({row['ratio']:.2f} ×)"
    return f"{duration(row['value'])}{ratio}"


def _by_place(frame: pd.DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The first row of each curve."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in listed(frame):
        found.setdefault(tuple(row[key] for key in KEYS), row)
    return found


def _exponent_cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else with_interval(row["exponent"], row["low"], row["high"])


def _crossing_cell(row: dict[str, Any] | None) -> str:
    """Between which lengths, where that is shown; an end that no length closes stays open."""
    if row is None:
        return ""
    if not row["changes"]:
        return "not shown"
    ends = ["…" if math.isinf(e) or e == 0 else f"{e:.0f}" for e in (row["low"], row["high"])]
    return " to ".join(ends)


def speed_view(speeds: pd.DataFrame) -> pd.DataFrame:
    """Every timed point to read; several machines get a column that keeps them apart."""
    apart = speeds["machine"].nunique() > 1
    elsewhere = (speeds["against"] != speeds["control"]).any()
    lines = [
        {
            "ablation": row["ablation"],
            "variant": short(row["name"]),
            "timed": row["metric"].replace("_", " "),
            "at": row["at"],
            **({"against": row["against"]} if elsewhere else {}),
            **({"machine": row["machine"]} if apart else {}),
            "seconds": number(row["seconds"]),
            "tokens/s": count(row["tokens_per_second"]),
            "time against control": times(row["ratio"], row["low"], row["high"]),
            "noise floor": ""
            if math.isnan(row["floor"])
            else f"± {100 * (row['floor'] - 1):.2g} %",
            "processes": str(row["n"]),
            "peak memory": memory(row["peak_memory"], row["control_peak_memory"]),
            "verdict": row["reason"] or row["verdict"],
        }
        for row in listed(speeds)
    ]
    return pd.DataFrame(lines)


def singles(evidence: Evidence) -> pd.DataFrame:
    """The timed points that belong to no curve."""
    return evidence.speeds[~on_curves(evidence)]
