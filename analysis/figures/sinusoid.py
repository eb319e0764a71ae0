"""What positions look like to a model: the sinusoids, and how alike any two positions are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis import insets, lines, style
from analysis.evidence import Evidence
from analysis.figures.heat import COLOURS
from analysis.load import listed
from analysis.names import cell_name, short
from analysis.scores import FINE
from analysis.sentences import number

CAPTION = (
    "Vectors of positions. Of sinusoids first the vectors themselves, from their formula: a row is "
    "a position, a column a dimension (of more than 32, pairs at equal steps). Then for each arm "
    "the cosine between any two positions: of sinusoids exact, of others in the first stack of the "
    "first seed that ended well. One scale: blue −1, white 0, orange +1."
)
MARGINS = style.Margins(left=0.3, right=0.08, above=0.32, below=0.2)
SIMILARITY = "position_similarity"
ABOUT = (SIMILARITY, "offset_residual")  # metrics of questions about such vectors
SINUSOIDS = "sinusoidal"  # the part's name in a recorded config
VECTORS, COSINES = "vectors", "cosines"
MOST = 32  # positions, and dimensions
ACROSS = 3  # pictures beside each other
GAP, OVER, BETWEEN = 0.1, 0.28, 0.16  # inches: across, for two lines over each, down
ARM = ["ablation", "across", "label"]
COLUMNS = [*ARM, "name", "picture", "told", "i", "j", "value"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing that is about vectors of positions."""
    loaded = evidence.loaded
    asked = loaded.readings[loaded.readings["metric"].isin(ABOUT)]
    rows = []
    for name in dict.fromkeys(asked["ablation"]):
        own = asked[(asked["ablation"] == name) & (asked["status"] == FINE)]
        for arm in listed(own.drop_duplicates(["across", "label"])):
            model = loaded.records[arm["trial"]].config["model"]
            rows += _of_formula(arm, model) or _of_reading(own, arm)
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return [own.copy() for _, own in frame.groupby(["ablation", "across"], sort=False)]


def _of_formula(arm: Mapping[str, Any], model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Both pictures of sinusoids; nothing of any other scheme."""
    scheme = model.get("position") or {}
    if scheme.get("name") != SINUSOIDS:
        return []
    vectors_TW = sinusoids(width_of(scheme, model["d_model"]), scheme["base"])
    unit_TW = vectors_TW / np.linalg.norm(vectors_TW, axis=1, keepdims=True)
    shown_TW = vectors_TW[:, _dimensions(vectors_TW.shape[1])]
    return [
        *_picture(arm, VECTORS, f"base {scheme['base']:g}", shown_TW),
        *_picture(arm, COSINES, "exact", unit_TW @ unit_TW.T),
    ]


def width_of(scheme: Mapping[str, Any], d_model: int) -> int:
    """All of the token's vector where they are added, a part of it where they are appended."""
    if scheme.get("join", "add") == "add":
        return d_model
    return scheme.get("width") or max(1, d_model // 4)


def sinusoids(width: int, base: float) -> NDArray[np.float64]:
    """p[2i] = sin(pos / base^(2i/w)), p[2i+1] = cos of the same (Vaswani et al. 2017, 3.5)."""
    pairs = np.arange(math.ceil(width / 2))
    angles_TF = np.arange(MOST)[:, None] / base ** (2 * pairs / width)
    return np.stack([np.sin(angles_TF), np.cos(angles_TF)], axis=-1).reshape(MOST, -1)[:, :width]


def _dimensions(width: int) -> list[int]:
    if width <= MOST:
        return list(range(width))
    pairs = np.linspace(0, width // 2 - 1, MOST // 2).round().astype(int)
    return [int(2 * pair + side) for pair in pairs for side in (0, 1)]


def _of_reading(own: pd.DataFrame, arm: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The similarity in the first stack of this arm, where it has vectors of positions."""
    is_its = (own["metric"] == SIMILARITY) & (own["trial"] == arm["trial"]) & own["values"].notna()
    for row in listed(own[is_its])[:1]:
        told = f"seed {row['seed']}"
        return _picture(arm, COSINES, told, np.array(row["values"], dtype=float)[:MOST, :MOST])
    return []


def _picture(
    arm: Mapping[str, Any], picture: str, told: str, values: NDArray[np.float64]
) -> list[dict[str, Any]]:
    known = {name: arm[name] for name in ARM}
    known |= {"name": cell_name(arm["label"], arm["across"]), "picture": picture, "told": told}
    return [{**known, "i": i, "j": j, "value": v} for (i, j), v in np.ndenumerate(values)]


def inches(frame: pd.DataFrame) -> float:
    rows = math.ceil(len(_pictures(frame)) / ACROSS)
    return MARGINS.above + rows * (OVER + _side()) + (rows - 1) * BETWEEN + MARGINS.below


def _pictures(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(zip(frame["label"], frame["picture"], strict=True)))


def _side() -> float:
    room = style.WIDTH - MARGINS.left - MARGINS.right
    return (room - GAP * (ACROSS - 1)) / ACROSS


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    ax.set_axis_off()
    side = _side()
    for index, (label, picture) in enumerate(_pictures(frame)):
        row, column = divmod(index, ACROSS)
        where = column * (side + GAP), OVER + row * (side + OVER + BETWEEN)
        inset = insets.place(ax, *where, side, side)
        own = frame[(frame["label"] == label) & (frame["picture"] == picture)]
        table = own.pivot(index="i", columns="j", values="value")
        inset.pcolormesh(table.to_numpy(float), cmap=COLOURS, vmin=-1, vmax=1)
        inset.invert_yaxis()
        _ticks(inset, table.shape, beside=column == 0)
        insets.title(inset, str(label), side, above=9)
        insets.title(inset, f"{picture}, {own['told'].iloc[0]}", side, quiet=True)
    first = frame.iloc[0]
    words = [part for part in (first["ablation"], first["across"]) if part]
    lines.head(ax, ", ".join(words), "positions down; across dimensions (vectors) or positions")
    return ax


def _ticks(inset: Axes, shape: tuple[int, ...], beside: bool) -> None:
    """The first and the last, inside the picture's own width and height."""
    rows, columns = shape
    inset.set_xticks([0.5, columns - 0.5], ["0", str(columns - 1)])
    inset.set_yticks([0.5, rows - 0.5], ["0", str(rows - 1)] if beside else ["", ""])
    for text, side in zip(inset.get_xticklabels(), ("left", "right"), strict=True):
        text.set(horizontalalignment=side)
    for text, side in zip(inset.get_yticklabels(), ("top", "bottom"), strict=True):
        text.set(verticalalignment=side)


def describe(frames: list[pd.DataFrame]) -> str:
    """Of each arm how alike a position is to the next, and to the furthest shown."""
    parts = []
    for frame in frames:
        told = []
        for name, own in frame[frame["picture"] == COSINES].groupby("name", sort=False):
            steps = own["j"] - own["i"]
            near, far = (own[steps == step]["value"].mean() for step in (1, steps.max()))
            told.append(
                f"{short(str(name))}: cosine {number(near)} one position on, {number(far)} "
                f"{steps.max()} positions on"
            )
        parts.append(f" {short(frame['ablation'].iloc[0])}: {'; '.join(told)}.")
    return "How alike the vectors of positions are." + "".join(parts)
