"""What was read off models at several depths, widths, lengths or shares of heads: its mean."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis import lines, stats
from analysis.curves import walked, with_looks
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name
from analysis.scores import FINE
from analysis.units import after_heading

CAPTION = (
    "What was read at several places along one coordinate: the mean over seeds, with a 95 % "
    "interval (Student's t) where there are three or more. A cross at the top: a seed had no "
    "number there. Of more than twelve panels, those that claims are about are shown."
)
MARGINS = lines.MARGINS
HEADINGS = {
    "depth": "depth, in blocks",
    "d_head": "width of a head",
    "past": "length, in trained lengths",
    "removed": "share of heads removed",
    "source": "source tokens, at most",
}
STRAIGHT = ("past", "removed")  # coordinates that are not doubled from place to place
SEEDS = 3  # for an interval
MOST = 12  # panels
CELL = ["ablation", "label", "across", "metric", "split", "unit"]
PANEL = ["ablation", "across", "metric", "split", "along", "series"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    frame = with_looks(_points(evidence), evidence)
    known = evidence.loaded.ablations
    frame["heading"] = [
        known[row["ablation"]]["metrics"].get(row["metric"], {}).get("label")
        or row["metric"].replace("_", " ")
        for row in listed(frame)
    ]
    found = [each for each in lines.by(frame, *PANEL) if each["x"].nunique() > 1]
    if len(found) > MOST:
        found = [each for each in found if _is_claimed(evidence, each)] or found
    return found[:MOST]


def _points(evidence: Evidence) -> pd.DataFrame:
    """One row for each place of a curve: mean, interval, and why there is none."""
    places = [*PANEL, "label", "x"]
    seen = pd.DataFrame(_readings(evidence), columns=[*places, "unit", "seed", "step", "value",
                                                      "reason"])  # fmt: skip
    seen = seen.sort_values("step", kind="stable").drop_duplicates([*places, "seed"], keep="last")
    rows = []
    for _, own in seen.sort_index().groupby(places, sort=False):
        first, lost = own.iloc[0], own[own["value"].isna()]
        mean = stats.mean_of(own["value"].to_numpy(float))
        low, high = mean.ends() if mean.n >= SEEDS else (math.nan, math.nan)
        rows.append(
            {
                **first[[*places, "unit"]].to_dict(),
                "name": cell_name(first["label"], first["across"]),
                **{"value": mean.value, "low": low, "high": high, "n": mean.n},
                "reason": "" if lost.empty else str(lost["reason"].iloc[0]),
            }
        )
    return pd.DataFrame(rows, columns=[*places, "unit", "name", *("value", "low", "high", "n"),
                                       "reason"])  # fmt: skip


def _readings(evidence: Evidence) -> list[dict[str, Any]]:
    """Every number that was neither timed nor is one of an array, at such a place."""
    frame = evidence.loaded.readings
    single = frame["values"].isna() & frame["samples"].isna() & frame["session"].isna()
    found = []
    for row in listed(frame[single & (frame["status"] == FINE)]):
        at = {name: value for name, value in row["at"].items() if name != "step"}
        told = {k: f"{k}: {v}" if isinstance(v, str) else v for k, v in at.items()}
        place = walked(told, HEADINGS)
        if place is None or isinstance(place["x"], str):
            continue
        value = math.nan if row["value"] is None else float(row["value"])
        step = row["at"].get("step", math.inf)
        split = row["split"] if isinstance(row["split"], str) else ""
        own = {name: row[name] for name in (*CELL, "seed", "reason")}
        found.append({**own, **place, "split": split, "step": step, "value": value})
    return found


def _is_claimed(evidence: Evidence, frame: pd.DataFrame) -> bool:
    first = frame.iloc[0]
    claims = evidence.loaded.ablations[first["ablation"]]["claims"]
    return any(told["metric"] == first["metric"] for each in claims for told in each["predicts"])


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    first = frame.iloc[0]
    scales = lines.Scales(
        "linear" if first["along"] in STRAIGHT else "log",
        "log" if _spans_a_decade(frame["value"].dropna()) else "linear",
        lambda value: f"{value:g}".replace("-", "−"),
    )
    lines.draw(frame, ax, "value", ("low", "high"), scales)
    ax.set_xlabel(HEADINGS[first["along"]], labelpad=1)
    lines.head(ax, _title(frame), first["heading"] + after_heading(first["unit"]))
    return ax


def _spans_a_decade(values: pd.Series) -> bool:
    return bool(values.min() > 0 and values.max() > 10 * values.min())


def describe(frames: list[pd.DataFrame]) -> str:
    return "Means over seeds along a coordinate. " + lines.told(frames, _subject, "value")


def _subject(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return f"{_title(frame)}, {first['heading']} by {HEADINGS[first['along']]}"


def _title(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return ", ".join(part for part in (first["ablation"], first["across"], first["series"]) if part)
