"""Bars from zero: what each piece of a model is worth, and which part of it costs how much."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis.evidence import Evidence
from analysis.load import listed
from analysis.plots import canvas, style
from analysis.plots.canvas import Panel
from analysis.plots.forest import COLOURS, beside, linear_to, without_thin_intervals
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
    known, frame, found = evidence.loaded.ablations, evidence.contrasts, []
    is_ladder = [known[name]["name"] in LADDERS for name in frame["ablation"]]
    asked = frame[pd.Series(is_ladder, index=frame.index, dtype=bool)]
    for (name, across), own in asked.groupby(["ablation", "across"], sort=False):
        if not (own["n"] > 0).any():
            continue
        first = own.iloc[0]
        sign = 1 if first["better"] == "lower" else -1
        ends = (sign * own[["low", "high"]]).apply(sorted, axis=1, result_type="expand")
        costs = own.assign(
            value=sign * own["difference"], low=ends[0], high=ends[1],
            points=[[sign * value for value in values] for values in own["differences"]],
            beside=[beside(row, is_even=True) for row in listed(own)],
        )  # fmt: skip
        costs = without_thin_intervals(costs).sort_values(
            "value", ascending=False, na_position="first", kind="stable"
        )
        costs = costs.reset_index(drop=True)
        costs.attrs["linear_to"] = linear_to(costs["value"])
        costs.attrs["x_label"] = f"cost: {first['metric_label']}{after_heading(first['unit'])}"
        note = canvas.counted(costs)
        if costs.attrs["linear_to"]:
            note += f"; logarithmic beyond ± {costs.attrs['linear_to']:.2g}"
        found.append(
            Panel(
                kind="bars", ablation=str(name), frame=costs, plot=plot_ladder, note=note,
                title=canvas.heading(name, across, "what each piece is worth"),
                subtitle=f"{first['metric_label']}: how much worse without it",
                size=(style.WIDTH, 1.2 + 0.19 * len(costs)),
            )
        )  # fmt: skip
    return found


def plot_ladder(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`label`, `value`, `low`, `high`, `points`, `mark`: a bar each, downwards."""
    import seaborn as sns

    from analysis.plots.forest import scale_differences

    rows = frame.assign(place=[str(i) for i in range(len(frame))])
    palette = {place: COLOURS.get(mark, style.TIE) for place, mark in zip(
        rows["place"], rows["mark"], strict=True)}  # fmt: skip
    scale_differences(frame, ax)
    sns.barplot(
        data=rows, x="value", y="place", hue="place", palette=palette, errorbar=None, width=0.65,
        alpha=0.45, legend=False, ax=ax,
    )  # fmt: skip
    for y, row in enumerate(listed(rows)):
        colour = palette[row["place"]]
        ax.plot([row["low"], row["high"]], [y, y], color=colour, lw=style.BAR, zorder=4)
        for value in row["points"]:
            ax.plot(value, y + 0.18, "o", ms=style.SEED, mew=0, alpha=0.75, color=colour, zorder=5)
        if row["beside"]:
            ax.text(1.02, y, canvas.cut(row["beside"], 24), transform=ax.get_yaxis_transform(),
                    size=style.NOTE, color=style.TEXT, va="center")  # fmt: skip
    ax.axvline(0, color=style.INK, linewidth=0.9)
    ax.set_yticks(range(len(rows)), [canvas.cut(label, 22) for label in rows["label"]])
    ax.tick_params(axis="y", labelcolor=style.INK)
    ax.set_xlabel(frame.attrs.get("x_label", ""))
    ax.set_ylabel("")
    return ax


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
