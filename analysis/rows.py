"""Labelled rows under headings: the ladder that forest plots are drawn on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes

from analysis import style

PITCH = 0.165  # inches between two rows
GAP = 0.5  # rows between two groups
MARGINS = style.Margins(left=1.22, right=0.36, above=0.40, below=0.40)
"""Room for labels, the column of n, a panel's title and its axis, for figures made of rows."""


@dataclass
class LabelledRow:
    """One variant: its label, a remark under it, what stands in the right-hand column."""

    label: str
    count: str
    data: dict[str, Any]
    remark: str = ""
    y: float = 0.0


@dataclass
class Group:
    """Rows that share a control, under a heading that names it."""

    heading: str
    control: str
    detail: str = ""
    rows: list[LabelledRow] = field(default_factory=list)
    y: float = 0.0

    def spans(self) -> list[tuple[float, float]]:
        """Stretches without headings or remarks, where a line crosses no text."""
        stretches: list[tuple[float, float]] = []
        for row in self.rows:
            top, bottom = row.y - 0.5, row.y + 0.5
            if stretches and stretches[-1][1] == top:
                stretches[-1] = (stretches[-1][0], bottom)
            else:
                stretches.append((top, bottom))
        return stretches


def arrange(groups: Sequence[Group]) -> float:
    """Give every heading and row its place, downwards from 0; returns how many rows it takes."""
    y = 0.0
    for group in groups:
        group.y = y
        y += 1 + bool(group.detail)
        for row in group.rows:
            row.y = y
            y += 1 + bool(row.remark)
        y += GAP
    return y - GAP


def inches(groups: Sequence[Group], margins: style.Margins) -> float:
    """Height of the panel that holds these groups."""
    return arrange(groups) * PITCH + margins.above + margins.below


def label(
    ax: Axes, groups: Sequence[Group], title: str, left: str, right: str, count: str = "n"
) -> None:
    """Write headings, labels, remarks and counts around an axis whose x limits are set."""
    height = arrange(groups)
    ax.set_ylim(height - 0.4, -0.6)
    ax.set_yticks([])
    figure = ax.get_figure(root=True)
    assert figure is not None
    width = figure.get_figwidth()
    box = ax.get_position()
    margin, plot, beyond = box.x0 * width - 0.04, box.width * width, (1 - box.x1) * width
    for group in groups:
        whole = margin + plot
        heading = style.fit(group.heading, margin, weight="bold")
        _write(ax, group.y, margin, heading, weight="bold")
        indent = style.width(heading, weight="bold") + 0.06
        control = style.fit(f"against {group.control}", whole - indent)
        _write(ax, group.y, margin - indent, control, color=style.QUIET)
        if group.detail:
            detail = style.fit(group.detail, whole, style.SMALL)
            _write(ax, group.y + 1, margin, detail, color=style.QUIET, size=style.SMALL)
        for row in group.rows:
            _write(ax, row.y, margin - 0.08, style.fit_name(row.label, margin - 0.16))
            _count(ax, row.y, beyond, row.count)
            if row.remark:
                remark = style.fit(row.remark, whole - 0.16, style.SMALL)
                _write(ax, row.y + 0.88, margin - 0.16, remark, color=style.QUIET, size=style.SMALL)
    above = {"weight": "bold", "size": style.TITLE}
    fitted = style.fit(title, margin + plot + beyond - 0.04, style.TITLE, "bold")
    _head(ax, 0, (-margin * 72, 17), fitted, ha="left", **above)
    quiet = {"color": style.QUIET, "size": style.SMALL}
    _head(ax, 0, (0, 6), f"← {left}", ha="left", **quiet)
    _head(ax, 1, (0, 6), f"{right} →", ha="right", **quiet)
    _head(ax, 1, (beyond * 72 - 3, 6), count, ha="right", **quiet)


def _head(ax: Axes, x: float, offset: tuple[float, float], text: str, **look: Any) -> None:
    ax.annotate(
        text,
        (x, 1),
        xycoords="axes fraction",
        xytext=offset,
        textcoords="offset points",
        annotation_clip=False,
        **look,
    )


def _write(ax: Axes, y: float, left: float, text: str, **look: Any) -> None:
    ax.annotate(
        text,
        (0, y),
        xycoords=ax.get_yaxis_transform(),
        xytext=(-left * 72, 0),
        textcoords="offset points",
        va="center_baseline",
        annotation_clip=False,
        **look,
    )


def _count(ax: Axes, y: float, right: float, text: str) -> None:
    ax.annotate(
        text,
        (1, y),
        xycoords=ax.get_yaxis_transform(),
        xytext=(right * 72 - 3, 0),
        textcoords="offset points",
        ha="right",
        va="center_baseline",
        color=style.QUIET,
        size=style.SMALL,
        annotation_clip=False,
    )
