"""Score against cost of every variant scored on the same data, with the Pareto front."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from ablations.store.record import TRAINED
from analysis.contrasts import Evidence
from analysis.load import VARIANT
from analysis.plots import canvas, style
from analysis.plots.canvas import Panel
from analysis.wording import after_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COST = "work of training"
FEWEST = 4  # variants
KEYS = ["task", "metric_title", "split", "unit", "better", "data"]


def panels(evidence: Evidence) -> list[Panel]:
    """A panel for each task and score, for the data that most variants share."""
    found, seen = [], set()
    groups = _variants(evidence).groupby(KEYS, sort=False)
    for (task, label, _, unit, better, data), own in sorted(groups, key=lambda each: -len(each[1])):
        too_few = own["value"].notna().sum() < FEWEST or own["cost"].nunique() < 2
        if (task, label) in seen or too_few:
            continue
        seen.add((task, label))
        frame = own.reset_index(drop=True).assign(is_front=_front(own))
        found.append(
            Panel(
                kind="pareto", experiment=str(frame["experiment"].iloc[0]), frame=frame, plot=plot,
                title=canvas.heading(task, f"{label} against {COST}"),
                subtitle=f"{label}{after_heading(unit)}; {better} is better",
                note=f"{len(frame)} variants on data {data}; {canvas.counted(frame)}",
                size=(style.WIDTH, 2.9),
            )
        )  # fmt: skip
    return found


def _variants(evidence: Evidence) -> pd.DataFrame:
    """Every trained variant; of equal settings the one with the most seeds."""
    records, rows = evidence.loaded.records, []
    compared = set(evidence.contrasts["experiment"])
    for row in evidence.variants.to_dict("records"):
        record = records.get(row["trial"])
        if record is None or not record.trained or row["experiment"] not in compared:
            continue
        train = record.config["train"]
        tokens = train.get("steps", math.nan) * train.get("batch_tokens", math.nan)
        outcomes = row["outcomes"].values()
        rows.append(
            {
                **row,
                **{"n": row["mean_n"], "value": row["mean"], "points": [*row["scores"].values()]},
                **{"low": row["mean_low"], "high": row["mean_high"]},
                "is_broken": any(outcome in TRAINED[1:] for outcome in outcomes),
                "cost": 3.0 * row["flops_per_token"] * tokens,
                "data": str(record.data.get("sha256", ""))[:8],
            }
        )
    columns = [*KEYS, *VARIANT, "name", "n", "value", "low", "high", "points", "is_broken", "cost"]
    frame = pd.DataFrame(rows, columns=[*columns, "settings"])
    frame = frame[(frame["cost"] > 0) & (frame["data"] != "")]
    most = frame.sort_values("n", ascending=False, kind="stable")
    return most.drop_duplicates(["settings", "split", "metric_title"]).sort_index()


def _front(own: pd.DataFrame) -> list[bool]:
    """Which variants beat everything cheaper; one with failed seeds is never on the front."""
    sign = 1 if own["better"].iloc[0] == "lower" else -1
    rows = own.reset_index(drop=True)
    ranked = rows[~rows["is_broken"].astype(bool) & rows["value"].notna()]
    ranked = ranked.assign(rank=sign * ranked["value"]).sort_values(["cost", "rank"], kind="stable")
    before = ranked["rank"].cummin().shift(fill_value=math.inf)
    front = set(ranked.index[ranked["rank"] < before])
    return [index in front for index in rows.index]


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Draw `cost`, `value`, `low`, `high`, `is_front`, `is_broken` and `name`."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    front = frame[frame["is_front"]].sort_values("cost")
    span = max(frame["cost"].max() / frame["cost"].min(), 1.5)
    ax.set_xscale("log")
    ax.set_xlim(frame["cost"].min() / span**0.08, frame["cost"].max() * span**0.08)
    for row in frame[frame["value"].notna()].to_dict("records"):
        colour, cost = style.INK if row["is_front"] else style.TIE, row["cost"]
        points = row["points"]
        ax.plot([cost] * 2, [row["low"], row["high"]], lw=0.8, alpha=0.8, color=colour, zorder=1)
        ax.plot([cost] * len(points), points, "o", ms=1.8, mew=0, alpha=0.5, color=colour, zorder=2)
        ax.plot(cost, row["value"], "o", ms=3.8, mew=0.8, color=colour, zorder=4,
                mfc="white" if row["is_broken"] else colour)  # fmt: skip
    ax.step(front["cost"], front["value"], where="post", color=style.INK, lw=0.9, zorder=3)
    for cost in frame[frame["value"].isna()]["cost"]:
        ax.plot(cost, 0.98, "x", ms=4, mew=0.9, color=style.TIE,
                transform=ax.get_xaxis_transform())  # fmt: skip
    canvas.scale_values(ax, "", log=False)
    short = span < 4
    ticks = MaxNLocator(3, steps=[1, 2, 5, 10]) if short else LogLocator(10, numticks=5)
    ax.xaxis.set_major_locator(ticks)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: canvas.amount(x, "FLOP")))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(COST)
    named = front.assign(name=front["experiment"] + ": " + front["name"])
    canvas.legend(ax, canvas.with_looks(named, [style.BASELINE] * len(named)))
    return ax
