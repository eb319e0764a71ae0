"""How the learning rate moves over training, where a question compares schedules."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ablations.store.identity import freeze
from analysis import lines
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import Loaded, listed
from analysis.names import cell_name, short

CAPTION = (
    "The learning rate at each step, as it was recorded while an arm was trained: of its seed that "
    "went furthest. Of questions whose arms have different schedules."
)
MARGINS = lines.MARGINS
ARM = ["ablation", "across", "label"]
MARKERS = 6  # on a line, so that lines are told apart without colour
COLUMNS = [*ARM, "name", "along", "x", "value", "reason"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing with more than one schedule."""
    loaded = evidence.loaded
    asked = [name for name in loaded.ablations if len(_schedules(loaded, name)) > 1]
    frame = loaded.readings
    told = (frame["metric"] == "rate") & frame["ablation"].isin(asked) & frame["value"].notna()
    reach = frame[told].groupby([*ARM, "seed"], sort=False)["step"].max().reset_index()
    furthest = reach.sort_values("step", ascending=False, kind="stable").drop_duplicates(ARM)
    rates = frame[told].merge(furthest[[*ARM, "seed"]], on=[*ARM, "seed"])
    rows = [
        {**{name: row[name] for name in ARM}, "name": cell_name(row["label"], row["across"]),
         "along": "steps", "x": float(row["step"]), "value": float(row["value"]), "reason": ""}
        for row in listed(rates)
    ]  # fmt: skip
    found = with_looks(pd.DataFrame(rows, columns=COLUMNS), evidence)
    return lines.by(found, "ablation", "across")


def _schedules(loaded: Loaded, ablation: str) -> set[str]:
    """Every schedule among the arms of a question, whatever its peak."""
    trials = loaded.cells[loaded.cells["ablation"] == ablation]["trial"]
    records = [loaded.records[trial] for trial in trials if trial in loaded.records]
    return {freeze(record.config["train"].get("schedule")) for record in records}


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    scales = lines.Scales("linear", "linear", lambda value: f"{value:g}")
    lines.place(frame, ax)
    arms = list(frame.groupby("label", sort=False))
    for index, (_, own) in enumerate(arms):
        each = -(-len(own) // MARKERS)
        # Markers take turns, so that arms of one schedule do not hide each other.
        turn = index * each // len(arms)
        lines.line(own.sort_values("x"), ax, "value", markevery=(turn, each))
    ax.set_ylim(bottom=0)
    ax.set_ylabel("")
    lines.ticks(ax, [float(frame["x"].min()), float(frame["x"].max())], scales)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    lines.legend(frame, ax)
    ax.set_xlabel("steps", labelpad=1)
    first = frame.iloc[0]
    title = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, title, "learning rate")
    return ax


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        told = []
        for name, own in frame.groupby("name", sort=False):
            peak = own.loc[own["value"].idxmax()]
            ends = own.sort_values("x").iloc[[0, -1]]["value"].tolist()
            told.append(
                f"{short(str(name))}: from {ends[0]:.2g} over {peak['value']:.2g} at step "
                f"{peak['x']:g} to {ends[1]:.2g}"
            )
        parts.append(f" {short(frame['ablation'].iloc[0])}: {'; '.join(told)}.")
    return "Learning rates by step." + "".join(parts)
