"""The contracts of figures: what holds for every file of analysis/figures.

Each takes a subject and fails with an AssertionError that says what a figure owes, and where.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pandas as pd
from figure_subjects import Subject, Written, called, nothing, sweep, written

from analysis import figures, style
from analysis.evidence import Evidence
from analysis.names import short

Check = Callable[[Subject], None]

SMALLEST = 5  # points, below which a column of print is not read
SHAPES = {"svg", "defs", "style", "g", "path", "use", "clipPath", "rect", "pattern"}
HOSTILE = {
    "a tag and three hundred letters": "<script>alert(1)</script>" + "abc " * 75,
    "line breaks": "one\ntwo\r\nthree",
    "mathematics": r"$\frac$",
    "emoji and right to left": "🙂🙃 smile שלום עולם",
}


def declares_what_it_owes(subject: Subject) -> None:
    owed = figures.FigureFile
    functions = [name for name, value in vars(owed).items() if inspect.isfunction(value)]
    for name in (*owed.__annotations__, *(f for f in functions if not f.startswith("_"))):
        assert hasattr(subject.module, name), (
            f"figure {subject.name!r} has no {name}: declare it in {subject.file}"
        )
        if name in functions:
            given = [*inspect.signature(getattr(subject.module, name)).parameters]
            wanted = [*inspect.signature(getattr(owed, name)).parameters][1:]
            assert given == wanted, (
                f"figure {subject.name!r}: {name}({', '.join(given)}) is called with "
                f"({', '.join(wanted)}): name them so in {subject.file}"
            )


def explains_its_marks(subject: Subject) -> None:
    caption = subject.module.CAPTION
    assert isinstance(caption, str), f"the CAPTION of {subject.file} is no text"
    assert len(caption) > 20, f"the CAPTION of {subject.file} explains nothing: {caption!r}"
    assert caption.endswith("."), f"the CAPTION of {subject.file} is no sentence: {caption!r}"


def leaves_room_for_its_axis(subject: Subject) -> None:
    room = subject.module.MARGINS
    assert isinstance(room, style.Margins), f"the MARGINS of {subject.file} are no style.Margins"
    assert min(vars(room).values()) >= 0, f"a margin of {subject.file} is negative: {room}"
    for frame in panels(subject):
        box = (
            style.WIDTH - room.left - room.right,
            subject.module.inches(frame) - room.above - room.below,
        )
        assert min(box) > 0, f"the MARGINS of {subject.file} leave {box} inches for the axis"


def leaves_the_evidence_as_it_was(subject: Subject) -> None:
    evidence = copy.deepcopy(sweep())
    before = copy.deepcopy(state(evidence))
    frames = subject.module.panels(evidence)
    shown = copy.deepcopy(frames)
    written(figures.lay_out(subject.module, frames))
    subject.module.describe(frames)
    for kept, now in zip((*before, *shown), (*state(evidence), *frames), strict=True):
        try:
            pd.testing.assert_frame_equal(kept, now)
        except AssertionError as error:
            raise AssertionError(
                f"drawing changed the numbers: let {subject.file} work on a copy\n{error}"
            ) from None


def state(evidence: Evidence) -> list[pd.DataFrame]:
    loaded = evidence.loaded
    return [evidence.contrasts, evidence.speeds, loaded.cells, loaded.readings]


def draws_the_same_bytes_again(subject: Subject) -> None:
    first, again = (style.svg(subject.compose(sweep())) for _ in range(2))
    assert first == again, f"drawn twice it differs: {subject.file} uses chance, a clock or an id"


def stays_on_its_canvas(subject: Subject) -> None:
    figure = subject.compose(sweep())
    assert_inside(subject, figure.bbox, written(figure))
    around = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    out = max(-around.x0, -around.y0, around.x1 - width, around.y1 - height)
    assert out < 0.01, (
        f"a mark lies {out:.2f} inches outside: see limits and clip_on in {subject.file}"
    )


def assert_inside(subject: Subject, canvas: Any, found: list[Written]) -> None:
    for each in found:
        box = each.box
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= canvas.x1 and box.y1 <= canvas.y1
        assert inside, (
            f"{each.words[:60]!r} leaves the canvas: cut it with style.fit or widen the MARGINS "
            f"of {subject.file}"
        )


def is_legible_at_column_width(subject: Subject) -> None:
    figure = subject.compose(sweep())
    found = written(figure)
    assert found, f"{subject.file} writes nothing: who should know what it shows?"
    for each in found:
        points = each.text.get_fontsize()
        assert points >= SMALLEST, (
            f"{each.words[:60]!r} is written in {points} points in {subject.file}: "
            f"{SMALLEST} are the least at column width"
        )


def shows_nothing_of_nothing(subject: Subject) -> None:
    for planned in (False, True):
        found = len(subject.module.panels(nothing(planned)))
        assert found == 0, (
            f"{found} panels of a folder without records: let panels() of {subject.file} "
            "leave out what has no numbers"
        )


def takes_any_label_for_text(subject: Subject) -> None:
    for kind, label in HOSTILE.items():
        try:
            figure = subject.compose(called(label))
            found, svg = written(figure), style.svg(figure)
        except Exception as error:
            raise AssertionError(
                f"{subject.file} cannot draw a label with {kind} ({error}): pass it to style.fit"
            ) from error
        assert_inside(subject, figure.bbox, found)
        tags = {element.tag.split("}")[-1] for element in ElementTree.fromstring(svg).iter()}
        assert tags <= SHAPES, f"a label with {kind} became {tags - SHAPES} in {subject.file}"
        assert not any("\n" in each.words for each in found), (
            f"a label with {kind} takes several lines: pass it to style.fit in {subject.file}"
        )
        words = style.fit(label, 5)[:4]
        shown = [each for each in found if words in each.words]
        assert shown, f"a label with {kind} is not shown as text by {subject.file}"
        for each in shown:
            assert not each.text.get_parse_math(), (
                f"a label with {kind} is set as mathematics: leave parse_math alone in "
                f"{subject.file}"
            )


def tells_of_every_variant(subject: Subject) -> None:
    frames = panels(subject)
    told = subject.module.describe(frames)
    for frame in frames:
        assert "name" in frame, (
            f"a panel of {subject.file} has no column 'name', which says whom it draws"
        )
        for name in frame["name"]:
            assert short(name) in told, (
                f"{short(name)!r} is drawn but not told: name it in describe() of {subject.file}"
            )


def panels(subject: Subject) -> list[pd.DataFrame]:
    frames = subject.module.panels(sweep())
    assert frames, f"{subject.file} finds nothing to draw in a finished sweep"
    return frames


CHECKS: tuple[Check, ...] = (
    declares_what_it_owes,
    explains_its_marks,
    leaves_room_for_its_axis,
    leaves_the_evidence_as_it_was,
    draws_the_same_bytes_again,
    stays_on_its_canvas,
    is_legible_at_column_width,
    shows_nothing_of_nothing,
    takes_any_label_for_text,
    tells_of_every_variant,
)
