"""The largest differences of the six axes on one page, in per cent of the baseline."""

from __future__ import annotations

import pandas as pd

from analysis import stats
from analysis.contrasts import Evidence
from analysis.load import Row
from analysis.plots import canvas, forest
from analysis.plots.canvas import Panel

CAPTION = (
    "What changing one piece does to a score: the largest differences of each axis, in per cent of "
    "the baseline. Large dot: mean; bar: 95 % interval; small dots: seeds. Orange: worse, blue: "
    "better, hollow: a tie or not resolved. Linear up to ± 10 %, logarithmic beyond."
)
AXES = {
    "position": "Positions",
    "norm": "Norm",
    "heads": "Heads",
    "scale": "√d scaling",
    "smoothing": "Label smoothing",
    "recurrent": "RNN instead",
}
"""What a claim's id begins with, and what its axis is called."""
MOST = 6  # rows of an axis


def panels(evidence: Evidence) -> list[Panel]:
    frame = pd.DataFrame([row for axis in AXES for row in _rows(evidence, axis)])
    if frame.empty:
        return []
    frame.attrs |= {"linear_to": 10.0, "letters": 46, "sides": ("lower", "higher")}
    frame.attrs["x_label"] = "per cent of the baseline; linear to ± 10, logarithmic beyond"
    return [
        Panel(
            kind="overview", experiment=None, frame=frame, plot=forest.plot,
            title="Change one piece of a transformer and train it again",
            subtitle="change of the score; orange: worse, blue: better, hollow: not resolved",
            note=f"{canvas.counted(frame)}; the {MOST} largest differences of each axis",
            size=(8.0, 1.4 + 0.18 * (len(frame) + frame["group"].nunique())),
        )
    ]  # fmt: skip


def _rows(evidence: Evidence, axis: str) -> list[Row]:
    """The largest differences of the experiments about an axis, a variant of a task once."""
    about = [
        name
        for name, entry in evidence.loaded.experiments.items()
        if any(claim["id"].split(".")[0] == axis for claim in entry["claims"])
    ]
    frame = evidence.contrasts
    is_shown = frame["experiment"].isin(about) & frame["trained"] & (frame["n"] >= stats.LEAST)
    rows: dict[tuple[str, str], Row] = {}
    for row in frame[is_shown & (frame["baseline_mean"] > 0)].to_dict("records"):
        share = 100 / row["baseline_mean"]
        value = share * row["difference"]
        own = {key: row[key] for key in ("experiment", "variant", "n", "mark", "baseline")}
        own |= {"value": value, "low": share * row["low"], "high": share * row["high"], "lost": []}
        own["points"] = [share * each for each in row["differences"]]
        own["beside"] = "tie" if row["mark"] == "tie" else f"{value:+.0f} %".replace("-", "−")
        name = f"{row['name']}, {row['metric_title']}"
        before = rows.get((name, row["task"]))
        if before is None or abs(before["value"]) < abs(value):
            rows[name, row["task"]] = {**own, "name": name}
    found = sorted(rows.values(), key=lambda row: -abs(row["value"]))[:MOST]
    baselines = "; ".join(dict.fromkeys(row["baseline"] for row in found))
    return [{**row, "group": f"{AXES[axis]}, over {baselines}"} for row in found]
