"""Quality against cost: every arm of a task that was scored on the same data, and the front."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from ablations.store.record import TRAINED
from analysis import lines, stats, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name, short
from analysis.sentences import number
from analysis.units import after_heading

CAPTION = (
    "Score against what it cost, for all arms that were trained and scored on the same data, "
    "whichever question asked: mean over seeds, with a 95 % interval where there are three or "
    "more. The line is the front: no other arm is both cheaper and better, by the means; arms on "
    "it are named, the others grey. Hollow: seeds broke down, so that its mean is of the rest; "
    "it is not on the front. A cross at the top: no seed ended well. Cost: FLOPs of "
    "training (three times the forward pass, over all tokens; tuning not counted), or the time of "
    "a training step where the same model was timed."
)
MARGINS = lines.MARGINS
FLOPS, SECONDS = "work of training", "time of a training step"
FEWEST = 4  # arms
ARM = ["ablation", "label", "across"]
KEYS = ["task", "metric_label", "split", "unit", "better", "data", "cost_of"]
COLUMNS = [*KEYS, *ARM, "name", "cost", "value", "low", "high", "n", "broke", "is_front"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each task, data, score and kind of cost."""
    arms = _arms(evidence)
    flops = arms.assign(cost_of=FLOPS)
    timed = arms.assign(cost_of=SECONDS, cost=arms["model"].map(_step_times(evidence)))
    frame = pd.concat([flops, timed[timed["cost"].notna()]])
    found = []
    for _, own in frame.groupby(KEYS, sort=False):
        if own["value"].notna().sum() < FEWEST or own["cost"].nunique() < 2:
            continue
        panel = own.assign(is_front=_front(own))[COLUMNS]
        if panel["is_front"].any():
            found.append(with_looks(panel.reset_index(drop=True), evidence))
    return found


def _arms(evidence: Evidence) -> pd.DataFrame:
    """Every arm that was trained, once: of equal settings that of most seeds."""
    rows = []
    first = listed(evidence.loaded.cells.drop_duplicates(ARM))
    settings = {tuple(cell[name] for name in ARM): cell for cell in first}
    cells = evidence.loaded.cells
    broken = cells[cells["outcome"].isin(TRAINED[1:])]
    broke = {tuple(cell[name] for name in ARM) for cell in listed(broken)}
    for row in listed(evidence.contrasts):
        told = {key: row[key] for key in ("ablation", "task", "metric_label", "split", "unit",
                                          "better", "across")}  # fmt: skip
        for label, side in ((row["control"], "control_"), (row["label"], "")):
            mean = row["control_mean" if side else "mean"]
            ends = ("control_low", "control_high") if side else ("mean_low", "mean_high")
            cell = settings.get((row["ablation"], label, row["across"]))
            record = cell and evidence.loaded.records.get(cell["trial"])
            if not cell or not record or not record.trained:
                continue
            n = row["control_n" if side else "mean_n"]
            low, high = (row[end] if n >= stats.LEAST else math.nan for end in ends)
            rows.append(
                {
                    **told,
                    **{"label": label, "name": cell_name(label, row["across"]), "n": n},
                    **{"value": mean, "low": low, "high": high},
                    "broke": (row["ablation"], label, row["across"]) in broke,
                    "cost": _work(record.config, row[f"{side}flops_per_token"]),
                    "data": str(record.data.get("sha256", ""))[:8],
                    "model": json.dumps([row["task"], record.config["model"]], sort_keys=True),
                    "settings": cell["settings"],
                }
            )
    columns = [*COLUMNS, "model", "settings"]
    frame = pd.DataFrame(rows, columns=[each for each in columns if each != "cost_of"])
    frame = frame[(frame["cost"] > 0) & (frame["data"] != "")]
    most = frame.sort_values("n", ascending=False, kind="stable")
    return most.drop_duplicates(["settings", "split", "metric_label"]).sort_index()


def _work(config: dict[str, Any], forward: float) -> float:
    """Three times the forward pass, over all tokens of all steps."""
    train = config["train"]
    return 3.0 * forward * train.get("steps", math.nan) * train.get("batch_tokens", math.nan)


def _step_times(evidence: Evidence) -> dict[str, float]:
    """Model → seconds of a training step, where most models were timed; of equal places the
    longest."""
    frame = evidence.speeds
    timed = frame[(frame["metric"] == "step_time") & frame["seconds"].notna()]
    timed = timed[timed["at"].str.contains("training")]
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in listed(timed):
        model = evidence.loaded.records[row["trial"]].config["model"]
        key = json.dumps([row["task"], model], sort_keys=True)
        found.setdefault((row["machine"], row["at"]), {}).setdefault(key, row["seconds"])
    return max(found.values(), key=lambda own: (len(own), max(own.values())), default={})


def _front(own: pd.DataFrame) -> list[bool]:
    """Cheapest first, each better than all before it; a mean of survivors is no mean."""
    sign = 1 if own["better"].iloc[0] == "lower" else -1
    best, front = math.inf, set()
    ranked = own[~own["broke"].astype(bool)]
    ranked = ranked.assign(rank=sign * ranked["value"]).dropna(subset="value")
    for index, row in ranked.sort_values(["cost", "rank"], kind="stable").iterrows():
        if row["rank"] < best:
            best = row["rank"]
            front.add(index)
    return [index in front for index in own.index]


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(_named(frame))


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """The arms of the front, as the legend names them: cheapest first."""
    front = frame[frame["is_front"]].sort_values("cost", kind="stable")
    return front.assign(label=front["ablation"] + ": " + front["name"])


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    front = _named(frame)
    lines.place(front, ax)
    ax.set_xscale("log")
    for row in listed(frame[frame["value"].notna() & ~frame["is_front"]]):
        _bar(ax, row, style.QUIET, 0.5)
        face = {"mfc": "none", "mew": 0.7} if row["broke"] else {"mew": 0}
        ax.plot(row["cost"], row["value"], "o", ms=2.6, color=style.QUIET, alpha=0.7, **face)
    ax.step(front["cost"], front["value"], where="post", color=style.INK, lw=0.8, zorder=2)
    for row in listed(front):
        _bar(ax, row, row["colour"], 0.9)
        ax.plot(
            row["cost"], row["value"], marker=row["marker"], ms=4.6, mew=0, color=row["colour"],
            zorder=4, linestyle="",
        )  # fmt: skip
    for row in listed(frame[frame["value"].isna()]):
        ax.plot(
            row["cost"], 0.97, marker="x", ms=4, mew=0.9, color=style.QUIET, linestyle="",
            transform=ax.get_xaxis_transform(), clip_on=False,
        )  # fmt: skip
    _axes(ax, frame)
    lines.legend(front.assign(dash=[()] * len(front)), ax)
    return ax


def _bar(ax: Axes, row: dict[str, Any], colour: str, width: float) -> None:
    if not math.isnan(row["low"]):
        ends = [row["low"], row["high"]]
        ax.plot([row["cost"]] * 2, ends, color=colour, lw=width, alpha=0.8, zorder=1)


def _axes(ax: Axes, frame: pd.DataFrame) -> None:
    first = frame.iloc[0]
    low, high = frame["cost"].min(), frame["cost"].max()
    span = max(high / low, 1.5)
    ax.set_xlim(low / span**0.07, high * span**0.07)
    word = lines.duration if first["cost_of"] == SECONDS else _flops
    ax.xaxis.set_major_locator(_ticks(span))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: word(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=2))
    ax.spines["left"].set_visible(True)
    ax.tick_params(axis="y", labelsize=style.SMALL)
    ax.set_xlabel(first["cost_of"], labelpad=1)
    told = f"{first['metric_label']}{after_heading(first['unit'])}, {first['better']} is better"
    lines.head(ax, f"{first['task']}, {len(frame)} arms on data {first['data']}", told)


def _ticks(span: float) -> Locator:
    """Even over a short range, else round numbers of each decade."""
    if span < 4:
        return MaxNLocator(4, steps=[1, 2, 5, 10])
    return LogLocator(10, (1.0, 2.0, 5.0) if span < 100 else (1.0,))


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        first = frame.iloc[0]
        front = [
            f"{short(row['name'])} {number(row['value'])} at {_cost(row)}"
            for row in listed(_named(frame))
        ]
        behind = [short(str(name)) for name in frame[~frame["is_front"]]["name"]]
        rest = f" Behind it: {', '.join(behind)}." if behind else ""
        subject = f"{first['metric_label']} on {first['task']} by {first['cost_of']}"
        parts.append(f"{subject}, the front: {'; '.join(front)}.{rest}")
    return "Score against cost. " + " ".join(parts)


def _cost(row: dict[str, Any]) -> str:
    seconds = row["cost_of"] == SECONDS
    return lines.duration(row["cost"]) if seconds else _flops(row["cost"])


def _flops(value: float) -> str:
    """`20 GFLOP`, `1.5 PFLOP`."""
    for unit, size in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {unit}FLOP"
    return f"{value:.3g} FLOP"
