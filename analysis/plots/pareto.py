"""Score against cost: every variant of a task that was scored on the same data, and the front."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from ablations.store.record import TRAINED
from analysis.contrasts import Evidence
from analysis.load import listed
from analysis.names import after_heading, cell_name
from analysis.plots import canvas, style
from analysis.plots.canvas import Panel
from analysis.scores import scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Score against what it cost, of all variants that were trained and scored on the same data, "
    "whichever question asked. Dot: mean over seeds; bar: 95 % interval, from three on. The "
    "line is the front: nothing else is both cheaper and better, by the means. Hollow: some seeds "
    "failed, so it is not on the front. Cost: FLOPs of training, tuning not counted."
)
COST = "work of training"
FEWEST = 4  # variants
ARM = ["ablation", "label", "across"]
KEYS = ["task", "metric_label", "split", "unit", "better", "data"]


def panels(evidence: Evidence) -> list[Panel]:
    """A panel for each task and score: of the data that most variants were trained on."""
    found, seen = [], set()
    groups = _arms(evidence).groupby(KEYS, sort=False)
    for (task, label, _, unit, better, data), own in sorted(groups, key=lambda each: -len(each[1])):
        too_few = own["value"].notna().sum() < FEWEST or own["cost"].nunique() < 2
        if (task, label) in seen or too_few:
            continue
        seen.add((task, label))
        frame = own.reset_index(drop=True).assign(is_front=_front(own))
        found.append(
            Panel(
                kind="pareto", ablation=str(frame["ablation"].iloc[0]), frame=frame, plot=plot,
                title=canvas.heading(task, f"{label} against {COST}"),
                subtitle=f"{label}{after_heading(unit)}; {better} is better",
                note=f"{len(frame)} variants on data {data}; {canvas.counted(frame)}",
                size=(style.WIDTH, 2.9),
            )
        )  # fmt: skip
    return found


def _arms(evidence: Evidence) -> pd.DataFrame:
    """Every variant that was trained, once: of equal settings that of most seeds."""
    cells = evidence.loaded.cells
    first = {tuple(cell[key] for key in ARM): cell for cell in listed(cells.drop_duplicates(ARM))}
    lost = cells[cells["outcome"].isin(TRAINED[1:])][ARM]
    broke = set(map(tuple, lost.to_numpy()))
    rows = []
    for row in listed(evidence.contrasts):
        for label, side in ((row["control"], "control_"), (row["label"], "")):
            arm = (row["ablation"], label, row["across"])
            record = arm in first and evidence.loaded.records.get(first[arm]["trial"])
            if not record or not record.trained:
                continue
            n, train = row[f"{side or 'mean_'}n"], record.config["train"]
            low, high = (row[f"{side or 'mean_'}{end}"] for end in ("low", "high"))
            tokens = train.get("steps", math.nan) * train.get("batch_tokens", math.nan)
            rows.append(
                {
                    **{key: row[key] for key in (*KEYS[:-1], "ablation", "across")},
                    **{"label": label, "name": cell_name(label, row["across"]), "n": n},
                    "value": row[f"{side}mean"],
                    "low": low if n >= canvas.LEAST else math.nan,
                    "high": high if n >= canvas.LEAST else math.nan,
                    "is_broken": arm in broke,
                    "cost": 3.0 * row[f"{side}flops_per_token"] * tokens,
                    "points": list(
                        scores(evidence.loaded, *arm, row["metric"], row["split"], {}).values()
                    ),
                    "data": str(record.data.get("sha256", ""))[:8],
                    "settings": first[arm]["settings"],
                }
            )
    columns = [*KEYS, *ARM, "name", "n", "value", "low", "high", "points", "is_broken", "cost"]
    frame = pd.DataFrame(rows, columns=[*columns, "settings"])
    frame = frame[(frame["cost"] > 0) & (frame["data"] != "")]
    most = frame.sort_values("n", ascending=False, kind="stable")
    return most.drop_duplicates(["settings", "split", "metric_label"]).sort_index()


def _front(own: pd.DataFrame) -> list[bool]:
    """Cheapest first, each better than all before it; a mean of survivors is no mean."""
    sign = 1 if own["better"].iloc[0] == "lower" else -1
    rows = own.reset_index(drop=True)
    ranked = rows[~rows["is_broken"].astype(bool) & rows["value"].notna()]
    ranked = ranked.assign(rank=sign * ranked["value"]).sort_values(["cost", "rank"], kind="stable")
    before = ranked["rank"].cummin().shift(fill_value=math.inf)
    front = set(ranked.index[ranked["rank"] < before])
    return [index in front for index in rows.index]


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`cost`, `value`, `low`, `high`, `is_front`, `is_broken`, `name`."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    known, front = frame[frame["value"].notna()], frame[frame["is_front"]].sort_values("cost")
    span = max(frame["cost"].max() / frame["cost"].min(), 1.5)
    ax.set_xscale("log")
    ax.set_xlim(frame["cost"].min() / span**0.08, frame["cost"].max() * span**0.08)
    _points(known, ax)
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
    looks = {"colour": style.INK, "marker": "o", "dash": [style.SOLID] * len(front)}
    names = front["ablation"] + ": " + front["name"]
    canvas.name_lines(ax, front.assign(name=names, **looks), 1.7)
    return ax


def _points(known: pd.DataFrame, ax: Axes) -> None:
    import seaborn as sns

    for row in listed(known):
        colour: dict[str, Any] = {"color": style.INK if row["is_front"] else style.TIE}
        ax.plot([row["cost"]] * 2, [row["low"], row["high"]], lw=0.8, alpha=0.8, zorder=1, **colour)
        ax.plot([row["cost"]] * len(row["points"]), row["points"], "o", ms=1.8, mew=0, alpha=0.5,
                zorder=2, **colour)  # fmt: skip
    whole = known[~known["is_broken"].astype(bool)]
    colours = {True: style.INK, False: style.TIE}
    sns.scatterplot(
        data=whole, x="cost", y="value", hue="is_front", palette=colours, s=16, linewidth=0,
        legend=False, ax=ax, zorder=4,
    )  # fmt: skip
    broken = known[known["is_broken"].astype(bool)]
    ax.plot(broken["cost"], broken["value"], "o", ms=3.6, mew=0.8, mfc="white", color=style.TIE)
