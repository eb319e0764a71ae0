"""What became of every claim, on one page: how far each finding lies inside its prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short
from analysis.predictions import Predicted
from analysis.sentences import number
from analysis.standing import standing
from analysis.verdicts import NOT_RUN, REFUTED, SUPPORTED, UNDECIDED, Verdict, verdicts

CAPTION = (
    "Every claim, a mark for each question that decides it. Across: how far the finding lies "
    "inside (right) or outside (left) what was predicted, margin included, counted in half-widths "
    "of its own interval: so it tells how sure a finding is, not how large. Inside the shaded band "
    "the interval still holds the edge of the prediction; of several predictions the one that "
    "stands worst is shown. Filled dot and ✓: supported; cross and ✗: refuted; hollow dot and ?: "
    "undecided, which Holm or a failed check may also leave outside the band; –: not run. Square "
    "at the end: counted or computed, with no luck in it; triangle: further out. Where there is no "
    "interval, it says in words what was seen."
)
MARGINS = style.Margins(left=1.2, right=0.42, above=0.44, below=0.5)
PITCH = 0.128  # inches between two rows
FAR = 6.0  # half-widths: as far as the axis goes
AXES = ("position", "norm", "heads", "scale", "smoothing", "recurrent")
TITLES = ("The six axes", "Costs, training and the rest")
COLOURS = {SUPPORTED: style.BLUE, REFUTED: style.VERMILION}
SIGNS = {SUPPORTED: "✓", REFUTED: "✗", UNDECIDED: "?", NOT_RUN: "–"}
COLUMNS = [
    *("name", "axis", "label", "ablation", "verdict", "standing", "is_fact", "words", "title"),
]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """The claims about the six axes, and the others; a row for each question that decides one."""
    found = verdicts(evidence.loaded)
    frame = pd.DataFrame([_row(evidence, each) for each in found], columns=COLUMNS)
    frame = frame.sort_values("axis", key=lambda axes: axes.map(_order), kind="stable")
    halves = [frame[frame["title"] == title].copy() for title in TITLES]
    return [half for half in halves if (half["verdict"] != NOT_RUN).any()]


def _order(axis: str) -> int:
    return AXES.index(axis) if axis in AXES else len(AXES)


def _row(evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
    axis, _, rest = verdict.id.partition(".")
    name = verdict.scope["question"]
    (claim,) = [c for c in evidence.loaded.ablations[name]["claims"] if c["id"] == verdict.id]
    predicted = [Predicted(evidence.loaded, name, plain) for plain in claim["predicts"]]
    stands = [
        standing(each.plain, each.better, found)
        for each, found in zip(predicted, verdict.evidence, strict=True)
    ]
    known = [each for each in stands if not math.isnan(each)]
    is_decided = verdict.verdict in (SUPPORTED, REFUTED)
    return {
        "name": verdict.id,
        "axis": axis,
        "label": rest or axis,
        "ablation": name,
        "verdict": verdict.verdict,
        "standing": min(known, default=math.nan) if verdict.verdict != NOT_RUN else math.nan,
        "is_fact": is_decided and all(each.is_counted for each in predicted),
        "words": _words(verdict),
        "title": TITLES[axis not in AXES],
    }


def _words(verdict: Verdict) -> str:
    """What was seen, where that is no number with an interval."""
    if verdict.verdict == NOT_RUN:
        return NOT_RUN
    shares = [each["shares"] for each in verdict.evidence if each["shares"]]
    if shares:
        return ", ".join(f"{name} {hits}/{n}" for name, (hits, n) in shares[-1].items())
    if verdict.reason or math.isnan(verdict.p):
        return verdict.reason or verdict.verdict
    return f"p = {number(verdict.p)}"


def inches(frame: pd.DataFrame) -> float:
    return MARGINS.above + PITCH * len(_lines(frame)) + MARGINS.below


def _lines(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame | None]]:
    """Downwards: each axis, and under it its claims with the rows of each."""
    found: list[tuple[str, pd.DataFrame | None]] = []
    for axis, group in frame.groupby("axis", sort=False):
        found.append((str(axis), None))
        found += [(str(own["label"].iloc[0]), own) for _, own in group.groupby("name", sort=False)]
    return found


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    lines = _lines(frame)
    ax.set_xlim(-FAR, FAR)
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.set_yticks([])
    ax.set_xticks([-5, -1, 0, 1, 5], ["−5", "−1", "0", "1", "5"])
    room = MARGINS.left - 0.06
    for y, (label, own) in enumerate(lines):
        if own is None:
            _write(ax, 0, y, -room, style.fit(label, room, weight="bold"), weight="bold")
            continue
        words = style.fit(label, room - 0.08, style.SMALL)
        _write(ax, 0, y, 0.08 - room, words, size=style.SMALL)
        rows = listed(own)
        _signs(ax, y, rows)
        marked = [row for row in rows if row["is_fact"] or not math.isnan(row["standing"])]
        if marked:
            shade: dict[str, Any] = {
                "color": style.QUIET,
                "alpha": 0.15,
                "linewidth": 0,
                "zorder": 0,
            }
            ax.fill_betweenx([y - 0.5, y + 0.5], -1, 1, **shade)
            ax.plot([0, 0], [y - 0.5, y + 0.5], color=style.INK, linewidth=0.6, zorder=1)
        for row in marked:
            _mark(ax, y, row)
        if not marked:
            _say(ax, y, next((row for row in rows if row["verdict"] != NOT_RUN), rows[0]))
    ax.set_xlabel("half-widths of the interval inside the prediction", labelpad=2)
    _heads(ax, frame["title"].iloc[0], room)
    return ax


def _mark(ax: Axes, y: float, row: Mapping[str, Any]) -> None:
    colour = COLOURS.get(row["verdict"], style.QUIET)
    look: dict[str, Any] = {"color": colour, "zorder": 3, "clip_on": False, "linestyle": ""}
    if row["is_fact"]:
        edge = FAR if row["verdict"] == SUPPORTED else -FAR
        ax.plot(edge, y, marker="s", ms=3.4, mew=0, **look)
        return
    at = row["standing"]
    face = colour if row["verdict"] in COLOURS else "none"
    if abs(at) > FAR:
        side = ">" if at > 0 else "<"
        ax.plot(math.copysign(FAR, at), y, marker=side, ms=3.8, mew=0.7, mfc=face, **look)
        return
    marker = "X" if row["verdict"] == REFUTED else "o"
    ax.plot(at, y, marker=marker, ms=3.8, mew=0.8 if face == "none" else 0, mfc=face, **look)


def _say(ax: Axes, y: float, row: Mapping[str, Any]) -> None:
    wide = style.WIDTH - MARGINS.left - MARGINS.right
    words = style.fit(row["words"], wide - 0.08, style.SMALL)
    colour = COLOURS.get(row["verdict"], style.QUIET)
    _write(ax, 0, y, 0.05, words, size=style.SMALL, color=colour)


def _signs(ax: Axes, y: float, rows: list[dict[str, Any]]) -> None:
    """A sign for each question, from the right."""
    for place, row in enumerate(reversed(rows)):
        colour = COLOURS.get(row["verdict"], style.QUIET)
        right = MARGINS.right - 0.07 - 0.085 * place
        sign = SIGNS[row["verdict"]]
        _write(ax, 1, y, right, sign, size=style.SMALL, color=colour, ha="center")


def _heads(ax: Axes, title: str, room: float) -> None:
    quiet: dict[str, Any] = {"color": style.QUIET, "size": style.SMALL}
    told: tuple[tuple[float, float, float, str, dict[str, Any]], ...] = (
        (0, -room, 19, title, {"weight": "bold", "size": style.TITLE}),
        (0, 0.0, 6, "← against it", quiet),
        (1, 0.0, 6, "for it →", {**quiet, "ha": "right"}),
        (1, MARGINS.right - 0.04, 6, "verdict", {**quiet, "ha": "right"}),
    )
    for x, inches_, points, words, look in told:
        ax.annotate(
            words, (x, 1), xycoords="axes fraction", xytext=(72 * inches_, points),
            textcoords="offset points", annotation_clip=False, **look,
        )  # fmt: skip


def _write(ax: Axes, x: float, y: float, right: float, words: str, **look: Any) -> None:
    """At the height of a row, so many inches right of an edge of the axis."""
    ax.annotate(
        words, (x, y), xycoords=ax.get_yaxis_transform(), xytext=(72 * right, 0),
        textcoords="offset points", va="center_baseline", annotation_clip=False, **look,
    )  # fmt: skip


def describe(frames: list[pd.DataFrame]) -> str:
    told = [
        f"{short(row['name'])} ({short(row['ablation'])}): {row['verdict']}{_where(row)}."
        for frame in frames
        for row in listed(frame)
    ]
    return "What became of every claim. " + " ".join(told)


def _where(row: Mapping[str, Any]) -> str:
    if row["is_fact"] or row["verdict"] == NOT_RUN:
        return ", counted or computed" if row["is_fact"] else ""
    if math.isnan(row["standing"]):
        return f", {short(row['words'])}"
    side = "inside" if row["standing"] >= 0 else "outside"
    return f", {number(abs(row['standing']))} half-widths {side} its prediction"
