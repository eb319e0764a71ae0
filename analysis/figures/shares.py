"""Which part of a model the work and the time go to, as the input grows."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis import lines, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short

CAPTION = (
    "Shares by part against the length of the input, told in widths of the model: of the FLOPs, as "
    "counted, or of the time of a forward pass, mean over processes. mixing: where tokens meet; "
    "projections: the linear maps before and after it."
)
MARGINS = style.Margins(left=0.56, right=0.12, above=0.36, below=0.78)
PLOT = 1.5
SHARES = {
    "flops_share": "share of the FLOPs",
    "time_share": "share of the time",
    "preset_flops_share": "share of the FLOPs",
}
LOOKS = {
    "mixing": (style.VERMILION, ""),
    "projections": (style.BLUE, "///"),
    "feedforward": (style.SKY, ""),
    "head": ("#E69F00", "..."),
    "embedding": ("#CC79A7", ""),
    "positions": ("#009E73", ""),
    "norms": ("#999999", "\\\\\\"),
    "other": ("#dddddd", ""),
}


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    frame = evidence.loaded.readings
    rows = []
    for row in listed(frame[frame["metric"].isin(SHARES)]):
        part, at = row["at"].get("part"), row["at"].get("tokens_over_width")
        each = row["values"] if isinstance(row["values"], list) else [row["value"]]
        if part is None or at is None or any(value is None for value in each):
            continue
        mean = math.fsum(each) / len(each)
        if math.isnan(mean):
            continue
        told = {name: row[name] for name in ("ablation", "label", "across", "metric")}
        who = str(row["at"].get("preset", row["label"]))
        rows.append({**told, "name": who, "part": part, "x": at, "share": mean})
    columns = ["ablation", "label", "across", "metric", "name", "part", "x", "share"]
    whole = pd.DataFrame(rows, columns=columns)
    keys = ["ablation", "label", "across", "metric", "name"]
    return [panel.copy() for _, panel in whole.groupby(keys, sort=False)]


def inches(frame: pd.DataFrame) -> float:
    return MARGINS.above + PLOT + MARGINS.below


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    table = frame.pivot_table(index="x", columns="part", values="share").fillna(0.0).sort_index()
    parts = [part for part in LOOKS if part in table]
    bottom = [0.0] * len(table)
    for part in parts:
        colour, hatch = LOOKS[part]
        ax.bar(
            range(len(table)), table[part], bottom=bottom, width=0.72, color=colour, hatch=hatch,
            edgecolor="white", linewidth=0.3,
        )  # fmt: skip
        bottom = [low + share for low, share in zip(bottom, table[part], strict=True)]
    ax.set_xticks(range(len(table)), [f"{x:g}" for x in table.index])
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_ylim(0, 1)
    ax.set_xlim(-0.6, len(table) - 0.4)
    ax.spines["left"].set_visible(True)
    ax.tick_params(axis="y", labelsize=style.SMALL)
    ax.set_xlabel("tokens / d_model", labelpad=1)
    handles = [Patch(facecolor=LOOKS[p][0], hatch=LOOKS[p][1], edgecolor="white", label=p)
               for p in parts]  # fmt: skip
    figure = ax.get_figure(root=True)
    assert figure is not None
    low = ax.get_position().y0 - 0.36 / figure.get_figheight()
    ax.legend(
        handles=handles, loc="upper left", ncols=4, frameon=False, fontsize=style.SMALL,
        bbox_to_anchor=(0.02, low), bbox_transform=figure.transFigure, borderaxespad=0.0,
        handlelength=1.2, columnspacing=0.9, labelspacing=0.3, borderpad=0.0,
    )  # fmt: skip
    first = frame.iloc[0]
    lines.head(ax, str(first["name"]), f"{first['ablation']}: {SHARES[first['metric']]}, by part")
    return ax


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        first = frame.iloc[0]
        cells = [f"{r.part} {r.share:.0%} at {r.x:g}" for r in frame.itertuples()]
        parts.append(f"{short(str(first['name']))}, {SHARES[first['metric']]}: {'; '.join(cells)}.")
    return "Shares by part. " + " ".join(parts)
