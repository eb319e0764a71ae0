"""Values over two coordinates: attention, loss surfaces, positions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.contrasts import Evidence
from analysis.load import FINE, VARIANT, Loaded, Row
from analysis.plots import canvas, style
from analysis.plots.canvas import FACET, Panel
from analysis.wording import after_heading, printable, variant_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.2  # inches
MOST = 32  # positions
SIGNED = (style.BETTER, "#F1F1EE", style.WORSE)
AMOUNTS = ("#F7F7F5", "#8FB1DA", style.BETTER, "#0B2038")


def panels(evidence: Evidence) -> list[Panel]:
    return [panel for of in (_attention, _surfaces, _positions) for panel in of(evidence.loaded)]


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Draw `value` by `row` and `column`."""
    import seaborn as sns
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    given = frame.attrs
    table = frame.pivot(index="row", columns="column", values="value").sort_index().astype(float)
    colours = LinearSegmentedColormap.from_list("", SIGNED if given["signed"] else AMOUNTS)
    scale = (LogNorm if given.get("log") else Normalize)(given["least"], given["most"])
    sns.heatmap(table, ax=ax, cmap=colours, norm=scale, cbar=False)
    rows = frame.drop_duplicates("row").set_index("row").loc[table.index, "row_name"]
    columns = frame.drop_duplicates("column").set_index("column").loc[table.columns, "column_name"]
    sides = ((ax.xaxis, columns, given.get("factors", 12)), (ax.yaxis, rows, given.get("down", 16)))
    for axis, names, most in sides:  # at most so many names, evenly
        step = max(1, math.ceil((len(names) - 1) / (most - 1)))
        axis.set_ticks(np.arange(len(names))[::step] + 0.5, list(names)[::step])
    ax.tick_params(length=0, labelsize=style.NOTE)
    ax.tick_params(axis="x", rotation=90 if given.get("turned") else 0)
    ax.tick_params(axis="y", rotation=0)
    ax.set(xlabel="", ylabel="")
    return ax


def _panel(
    experiment: object, cells: list[Row], title: str, subtitle: str, note: str, **attrs: Any
) -> Panel:
    """A picture for each facet, all on one scale."""
    frame = pd.DataFrame(cells)
    frame.attrs |= {"signed": False, **attrs}
    facets = frame[FACET].nunique()
    across = canvas.abreast(facets)
    side = (style.WIDTH - 0.3) / across / frame["column"].nunique()
    each = max(frame["row"].nunique() * min(CELL, side), 0.5) + (0.3 if facets > 1 else 0.1)
    return Panel(
        kind="heatmap", experiment=str(experiment), frame=frame, plot=plot, title=title,
        subtitle=subtitle, note=note, size=(style.WIDTH, math.ceil(facets / across) * each + 1.15),
    )  # fmt: skip


def _arrays(loaded: Loaded, metric: str) -> pd.DataFrame:
    frame = loaded.measurements
    return frame[(frame["metric"] == metric) & frame["values"].notna()]


def _attention(loaded: Loaded) -> list[Panel]:
    """The baseline's attention in one example, for the last layer of each stack and kind."""
    shown, found = _arrays(loaded, "attention"), []
    baselines = shown["experiment"].map({k: e["baseline"] for k, e in loaded.experiments.items()})
    shown = shown[(shown["status"] == FINE) & (shown["variant"] == baselines)]
    for name, own in shown.groupby("experiment", sort=False):
        first = own.iloc[0]
        same = own[(own["factors"] == first["factors"]) & (own["seed"] == first["seed"])]
        last: dict[tuple[str, ...], Row] = {}
        for row in same[same["example"] == first["example"]].to_dict("records"):
            stack, *_, kind = str(row["coordinates"]["layer"]).split(".")
            last[stack, kind] = row
        for row in last.values():
            axes = row["axes"]
            queries, keys = (
                [canvas.cut(printable(str(word)), 6) or "␣" for word in axes[side]]
                for side in ("query", "key")
            )
            cells = [
                {"name": f"head {axes['head'][h]}, {queries[i]} on {keys[j]}", "row": i,
                 "column": j, "row_name": queries[i], "column_name": keys[j], "value": weight,
                 FACET: f"head {axes['head'][h]}"}
                for (h, i, j), weight in np.ndenumerate(np.array(row["values"], dtype=float))
            ]  # fmt: skip
            found.append(
                _panel(
                    name, cells,
                canvas.heading(name, f"attention, layer {row['coordinates']['layer']}"),
                    f"{row['variant']}: a row is a query, a column a key",
                    f"seed {row['seed']}, one example; white 0, darkest 1", least=0.0, most=1.0,
                    turned=True,
                )
            )  # fmt: skip
    return found


def _surfaces(loaded: Loaded) -> list[Panel]:
    """The loss around trained weights, along two random directions; the baseline first."""
    found = []
    for (name, across), own in _arrays(loaded, "surface").groupby(
        ["experiment", "factors"], sort=False
    ):
        baseline = loaded.experiments[name]["baseline"]
        order = own.assign(late=(own["variant"] != baseline) + 2 * (own["status"] != FINE))
        first = order.sort_values("late", kind="stable").drop_duplicates("variant")
        cells: list[Row] = []
        for row in first.to_dict("records"):
            who = row["variant"] if row["status"] == FINE else f"{row['variant']} ({row['status']})"
            cells += _cells(row, row["axes"]["x"], row["axes"]["y"], who)
        known = [cell["value"] for cell in cells if math.isfinite(cell["value"])]
        if known:
            low, high = min(known), max(known)
            bent = loaded.of_metric(name, "curvature")
            means = bent[bent["factors"] == across].groupby("variant", sort=False)["value"].mean()
            curvature = ", ".join(f"{canvas.cut(k, 20)} {v:.3g}" for k, v in means.dropna().items())
            found.append(
                _panel(
                    name, cells, canvas.heading(name, across, "loss around trained weights"),
                    f"loss{after_heading(first['unit'].iloc[0])}, along two random directions",
                    f"first seed; white {low:.3g}, darkest {high:.3g}; mean curvature: {curvature}",
                    log=low > 0 and high > 10 * low, factors=3, down=3, least=low,
                    most=high if high > low else low + 1,
                )
            )  # fmt: skip
    return found


def _positions(loaded: Loaded) -> list[Panel]:
    """The cosine between any two positions, for each variant's first seed."""
    shown, places = _arrays(loaded, "position_similarity"), list(range(MOST))
    shown = shown[shown["status"] == FINE].drop_duplicates(VARIANT)
    return [
        _panel(
            name,
            [
                cell
                for row in own.to_dict("records")
                for cell in _cells(row, places, places, row["variant"])
            ],
            canvas.heading(name, across, "similarity of positions"),
            "cosine between the vectors of two positions",
            "first seed; blue −1, white 0, orange +1",
            signed=True, least=-1.0, most=1.0, factors=5, down=5,
        )
        for (name, across), own in shown.groupby(["experiment", "factors"], sort=False)
    ]  # fmt: skip


def _cells(row: Row, across: list[Any], down: list[Any], facet: str) -> list[Row]:
    """A cell for each number of a matrix; None is an empty cell."""
    values = np.array(row["values"], dtype=float)[: len(across), : len(down)]
    who = variant_name(row["variant"], row["factors"])
    return [
        {"name": f"{who} at {across[i]:.2g}, {down[j]:.2g}", "row": j, "column": i,
         "row_name": canvas.number(down[j]), "column_name": canvas.number(across[i]),
         "value": value, FACET: facet}
        for (i, j), value in np.ndenumerate(values)
    ]  # fmt: skip
