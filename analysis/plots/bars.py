"""Bars from zero: what each piece of a model is worth, and which part of it costs how much."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from analysis.evidence import Evidence
from analysis.load import listed
from analysis.plots import canvas, forest, style
from analysis.plots.canvas import Panel
from analysis.units import after_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "What leaving out one piece costs, the dearest first: bar: mean; line: 95 % interval, from "
    "three seeds on; dots: seeds; orange: worse without it, blue: better, grey: not resolved. "
    "Or shares of the work, the time or the parameters by part of the model."
)
LADDERS = ("ladder",)  # questions that take one piece away at a time
SHARES = {
    "flops_share": "share of the FLOPs",
    "time_share": "share of the time of a forward pass",
    "preset_flops_share": "share of the FLOPs",
}
PARTS = {
    "mixing": style.INK,
    "projections": style.AMBER,
    "feedforward": style.TEAL,
    "head": style.PLUM,
    "embedding": "#8AB6D6",
    "positions": "#B9A3C9",
    "norms": style.TIE,
    "other": style.RULE,
}


def panels(evidence: Evidence) -> list[Panel]:
    return [*_ladders(evidence), *_shares(evidence)]


def _ladders(evidence: Evidence) -> list[Panel]:
    """The forest of such a question, turned so that more is a cost, the dearest first."""
    known, found = evidence.loaded.ablations, []
    for panel in forest.panels(evidence):
        first = panel.frame.iloc[0]
        if known[str(panel.ablation)]["name"] not in LADDERS:
            continue
        sign = 1 if first["better"] == "lower" else -1
        ends = sign * panel.frame[["low", "high"]]
        costs = panel.frame.assign(
            value=sign * panel.frame["value"], low=ends.min(axis=1), high=ends.max(axis=1),
            **{side: [[sign * x for x in each] for each in panel.frame[side]]
               for side in ("points", "lost")},
        ).sort_values("value", ascending=False, na_position="first", kind="stable")  # fmt: skip
        costs = costs.reset_index(drop=True)
        costs.attrs |= {**panel.frame.attrs, "bars": True, "sides": ("better", "worse")}
        costs.attrs["x_label"] = f"cost{after_heading(first['unit'])}"
        title = canvas.heading(panel.ablation, "what each piece is worth")
        subtitle = f"{first['metric_label']}: how much worse without it"
        found.append(replace(panel, kind="bars", frame=costs, title=title, subtitle=subtitle))
    return found


def _shares(evidence: Evidence) -> list[Panel]:
    frame, rows = evidence.loaded.readings, []
    for row in listed(frame[frame["metric"].isin(SHARES)]):
        part, at = row["at"].get("part"), row["at"].get("tokens_over_width")
        each = row["values"] if isinstance(row["values"], list) else [row["value"]]
        if part is None or at is None or any(value is None for value in each):
            continue
        told = {name: row[name] for name in ("ablation", "label", "across", "metric")}
        who = str(row["at"].get("preset", row["label"]))
        told |= {
            "whose": who,
            "name": part,
            "part": part,
            "x": at,
            "tick": f"{at:g} tokens a width",
        }
        rows.append({**told, "value": math.fsum(each) / len(each)})
    found = []
    keys = ["ablation", "label", "across", "metric", "whose"]
    for (name, _, across, metric, who), own in (
        pd.DataFrame(rows).dropna(subset="value").groupby(keys, sort=False) if rows else []
    ):
        found.append(
            Panel(
                kind="bars", ablation=str(name), frame=own.reset_index(drop=True), plot=plot_shares,
                title=canvas.heading(name, across, who), subtitle=f"{SHARES[metric]}, by part",
                size=(style.WIDTH, 2.5),
            )
        )  # fmt: skip
    return found


def plot_shares(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`part`, `x`, `value`: bars of shares on each other, their parts named beside the last."""
    import seaborn as sns

    known = [*PARTS, *dict.fromkeys(part for part in frame["part"] if part not in PARTS)]
    parts = [part for part in known if part in set(frame["part"])]
    places = sorted(set(frame["x"]))
    rows = frame.assign(place=frame["x"].map(places.index))
    sns.histplot(
        data=rows, x="place", weights="value", hue="part", hue_order=parts[::-1], multiple="stack",
        palette={part: PARTS.get(part, style.TIE) for part in parts}, discrete=True, shrink=0.75,
        alpha=1, linewidth=0.4, edgecolor="white", legend=False, ax=ax,
    )  # fmt: skip
    last = rows[rows["place"] == len(places) - 1].set_index("part")["value"]
    height, top = 0.0, -1.0
    for part in parts:
        share = float(last.get(part, 0.0))
        at = max(height + share / 2, top + 0.085)
        ax.text(1.02, at, f"{part} {share:.0%}", transform=ax.get_yaxis_transform(), va="center",
                size=style.NOTE, color=style.INK)  # fmt: skip
        ax.plot(1.0, at, "s", ms=3.5, color=PARTS.get(part, style.TIE), clip_on=False,
                transform=ax.get_yaxis_transform())  # fmt: skip
        height, top = height + share, at
    ax.set_xticks(range(len(places)), [f"{x:g}" for x in places])
    ax.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    ax.set_ylim(0, 1)
    ax.set_xlabel("tokens, in widths of the model")
    ax.set_ylabel("")
    return ax
