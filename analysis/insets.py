"""Small pictures side by side in one panel, of amounts that share one scale of colours."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from analysis import style

# Ever darker, so that it also reads in grey; blue, which every common eye sees.
COLOURS = LinearSegmentedColormap.from_list(
    "amounts", ["#f4f4f2", style.SKY, style.BLUE, "#001d33"]
)


def size(ax: Axes) -> tuple[float, float]:
    """Width and height of a panel's axis, in inches."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    return box.width * figure.get_figwidth(), box.height * figure.get_figheight()


def place(ax: Axes, left: float, top: float, width: float, height: float) -> Axes:
    """An axis inside a panel's, in inches from its upper left corner."""
    wide, tall = size(ax)
    box = (left / wide, 1 - (top + height) / tall, width / wide, height / tall)
    inset = ax.inset_axes(box)
    for spine in inset.spines.values():
        spine.set(visible=True, color=style.QUIET, linewidth=0.4)
    inset.tick_params(length=1.5, width=0.4, pad=1, labelsize=style.SMALL, color=style.QUIET)
    return inset


def title(inset: Axes, words: str, room: float, above: float = 0.0, quiet: bool = False) -> None:
    """A line over a picture, cut to so many inches, so many points above the one below it."""
    inset.annotate(
        style.fit(words, room, style.SMALL), (0, 1), xycoords="axes fraction",
        xytext=(0, 2 + above), textcoords="offset points", annotation_clip=False, ha="left",
        size=style.SMALL, color=style.QUIET if quiet else style.INK,
    )  # fmt: skip
