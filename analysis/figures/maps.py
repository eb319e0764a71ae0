"""Where a trained model looks: the weights of each head in one example, layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import insets, lines, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name, printable, short
from analysis.scores import FINE

CAPTION = (
    "Attention weights of the control's first seed in one example of test: a row is a query, a "
    "column a key, a picture a head; on one scale, from 0 (white) to 1 (darkest)."
)
MARGINS = style.Margins(left=0.08, right=0.08, above=0.32, below=0.06)
WEIGHTS = ("attention",)  # metrics
ACROSS = 4  # heads beside each other
CELL = 0.1  # inches: the height of a query
NARROWEST, WIDEST = 0.085, 0.2  # inches: between two names of keys, and a column at most
WORD = 0.46  # inches: the longest name of a token
LETTERS = 6.0  # points
GAP, OVER = 0.07, 0.17  # inches: between heads, and for the line over them
TRIAL = ["ablation", "label", "across", "seed"]
COLUMNS = [*TRIAL, "name", "example", "layer", "head", "i", "query", "j", "key", "weight"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel a layer, of each question's first control that was looked into."""
    loaded = evidence.loaded
    frame = loaded.readings
    shown = frame[
        frame["metric"].isin(WEIGHTS)
        & (frame["status"] == FINE)
        & frame["values"].notna()
        & (frame["label"] == frame["ablation"].map(lambda name: loaded.ablations[name]["control"]))
    ]
    found = []
    for _, own in shown.groupby("ablation", sort=False):
        rows = listed(own)
        first = rows[0]
        for row in rows:
            same = all(row[name] == first[name] for name in ("across", "seed"))
            if same and row["at"]["example"] == first["at"]["example"]:
                found.append(_panel(row))
    return found


def _panel(row: dict[str, object]) -> pd.DataFrame:
    """A row for each head, query and key."""
    at, axes, values = row["at"], row["axes"], row["values"]
    assert isinstance(at, dict)
    assert isinstance(axes, dict)
    heads, queries, keys = axes["head"], axes["query"], axes["key"]
    weights_HTS = np.array(values, dtype=float)
    told = {name: row[name] for name in TRIAL}
    told["name"] = cell_name(str(row["label"]), str(row["across"]))
    told |= {"example": at["example"], "layer": str(at["layer"])}
    rows = [
        {**told, "head": heads[h], "i": i, "query": _token(queries[i]), "j": j,
         "key": _token(keys[j]), "weight": weight}
        for (h, i, j), weight in np.ndenumerate(weights_HTS)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def _token(word: object) -> str:
    text = str(printable(str(word)))
    return text if text.strip() else "␣"


def _words(frame: pd.DataFrame, side: str, index: str) -> list[str]:
    names = frame.drop_duplicates(index).sort_values(index)[side]
    return [style.fit(name, WORD, LETTERS) for name in names]


def _longest(words: list[str]) -> float:
    return max(style.width(word, LETTERS) for word in words)


@dataclass(frozen=True)
class Layout:
    """Where the heads of a layer stand, in inches."""

    left: float
    wide: float
    tall: float
    rows: int
    step: int
    """Of the keys every so many is named, as there is room for."""
    turned: bool
    """Whether names of keys stand upright: where they are wider than their columns."""
    below: float


def _layout(queries: list[str], keys: list[str], heads: int) -> Layout:
    left, across = _longest(queries) + 0.08, min(ACROSS, heads)
    room = style.WIDTH - MARGINS.left - MARGINS.right - left - GAP * (across - 1)
    wide = min(room / across, WIDEST * len(keys))
    step = math.ceil(NARROWEST * len(keys) / wide)
    longest = _longest(keys[::step])
    turned = longest > wide / len(keys) * step
    below = 0.08 + (longest if turned else LETTERS / 72)
    return Layout(left, wide, CELL * len(queries), math.ceil(heads / ACROSS), step, turned, below)


def inches(frame: pd.DataFrame) -> float:
    queries, keys = _words(frame, "query", "i"), _words(frame, "key", "j")
    layout = _layout(queries, keys, frame["head"].nunique())
    return MARGINS.above + layout.rows * (OVER + layout.tall) + layout.below + MARGINS.below


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    ax.set_axis_off()
    queries, keys = _words(frame, "query", "i"), _words(frame, "key", "j")
    heads = list(dict.fromkeys(frame["head"]))
    layout = _layout(queries, keys, len(heads))
    for number, head in enumerate(heads):
        row, column = divmod(number, ACROSS)
        where = layout.left + column * (layout.wide + GAP), OVER + row * (layout.tall + OVER)
        inset = insets.place(ax, *where, layout.wide, layout.tall)
        own = frame[frame["head"] == head].pivot(index="i", columns="j", values="weight")
        inset.pcolormesh(own.to_numpy(), cmap=insets.COLOURS, vmin=0, vmax=1)
        inset.invert_yaxis()
        insets.title(inset, f"head {head}", layout.wide)
        beside = queries if column == 0 else []
        below = keys[:: layout.step] if number + ACROSS >= len(heads) else []
        turn = 90 if layout.turned else 0
        inset.set_yticks([i + 0.5 for i in range(len(beside))], beside, fontsize=LETTERS)
        places = [j * layout.step + 0.5 for j in range(len(below))]
        inset.set_xticks(places, below, fontsize=LETTERS, rotation=turn)
    first = frame.iloc[0]
    where_from = f"seed {first['seed']}, example {first['example']}"
    told = f"{where_from}: queries down, keys across; {first['name']}"
    lines.head(ax, f"{first['ablation']}: {_layer(first['layer'])}", told)
    return ax


def _layer(name: str) -> str:
    """`decoder block 0, to the source` for `decoder.blocks.0.cross`."""
    words = {".blocks.": " block ", ".mixer": ", to itself", ".cross": ", to the source"}
    for part, word in words.items():
        name = name.replace(part, word)
    return name


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        first, told = frame.iloc[0], []
        for head, own in frame.groupby("head", sort=False):
            most = own.loc[own["weight"].idxmax()]
            mean = own.groupby("i")["weight"].max().mean()
            told.append(
                f"head {head} most from {short(most['query'], 20)} to {short(most['key'], 20)} "
                f"({most['weight']:.2f}), of a query's strongest key {mean:.2f} on average"
            )
        whose = f"{short(first['ablation'])}, {short(first['name'])}"
        subject = f"{whose}: {short(_layer(first['layer']))}"
        parts.append(f"{subject}; {'; '.join(told)}.")
    return "Attention weights. " + " ".join(parts)
