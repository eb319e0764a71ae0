"""The same ratio for every length and batch at once, as a map of colours and numbers."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from analysis import lines, style
from analysis.curves import curves
from analysis.evidence import Evidence
from analysis.names import short

CAPTION = (
    "Time over the control's by length and batch: blue where the variant is faster, orange where "
    "the control is. An empty field was not timed, or took too long."
)
MARGINS = style.Margins(left=0.56, right=0.12, above=0.36, below=0.36)
WHOLE = ("step_time",)  # times of whole models
CELL = 0.24  # inches
COLOURS = LinearSegmentedColormap.from_list("sides", [style.BLUE, "#f4f4f2", style.VERMILION])


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each variant that was timed at several lengths and batches."""
    frame = curves(evidence)
    is_whole = frame["metric"].isin(WHOLE) & ~frame["series"].str.contains("tokens")
    timed = frame[is_whole & frame["ratio"].notna() & (frame["label"] != frame["control"])].copy()
    timed["rest"] = timed["series"].str.replace(r"batch \d+,? ?", "", regex=True)
    panels = lines.by(timed, "ablation", "across", "metric", "rest", "label")
    return [
        panel
        for panel in panels
        if panel["batch"].nunique() > 1 and not panel.duplicated(["batch", "x"]).any()
    ]


def inches(frame: pd.DataFrame) -> float:
    return MARGINS.above + MARGINS.below + CELL * frame["batch"].nunique()


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    import seaborn as sns  # not before something is drawn: it loads pyplot

    table = frame.pivot(index="batch", columns="x", values="ratio").sort_index()
    logs = table.map(lambda value: math.nan if math.isnan(value) else math.log2(value))
    reach = max(1.0, float(logs.abs().max().max()))
    sns.heatmap(
        logs, ax=ax, cmap=COLOURS, vmin=-reach, vmax=reach, cbar=False, linewidths=0.5,
        annot=table.map(_word), fmt="", annot_kws={"size": style.SMALL, "color": "#000000"},
        xticklabels=[f"{x:g}" for x in table.columns],
        yticklabels=[f"{batch:g}" for batch in table.index],
    )  # fmt: skip
    ax.set_xlabel(frame["along"].iloc[0], labelpad=1)
    ax.set_ylabel("batch")
    ax.tick_params(length=0, labelsize=style.SMALL)
    ax.tick_params(axis="y", rotation=0)
    first = frame.iloc[0]
    words = [w for w in (first["ablation"], first["across"], first["rest"].strip(", ")) if w]
    timed = first["metric"].replace("_", " ")
    lines.head(ax, first["label"], f"{', '.join(words)}: {timed} over {first['control']}")
    return ax


def _word(ratio: float) -> str:
    return "" if math.isnan(ratio) else f"{ratio:.2g}"


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        first = frame.iloc[0]
        cells = [
            f"{row.ratio:.2g} at {row.along} {row.x:g} and batch {row.batch:g}"
            for row in frame.itertuples()
        ]
        parts.append(f"{short(first['name'])}: {'; '.join(cells)}.")
    return "Time over the control's by length and batch. " + " ".join(parts)
