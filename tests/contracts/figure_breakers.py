"""Figures that each break one contract, to prove that the contract can fail.

Each starts as a copy of the forest, is called `ladder`, and is changed in one thing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from figure_checks import (
    Check,
    declares_what_it_owes,
    draws_the_same_bytes_again,
    explains_its_marks,
    is_legible_at_column_width,
    leaves_room_for_its_axis,
    leaves_the_evidence_as_it_was,
    shows_nothing_of_nothing,
    stays_on_its_canvas,
    takes_any_label_for_text,
    tells_of_every_variant,
)

from analysis import style
from analysis.figures import forest

Breaker = Callable[[Any], None]
BROKEN: list[tuple[Check, Breaker, str]] = []


def breaks(check: Check, sentence: str) -> Callable[[Breaker], Breaker]:
    """Enter a change after which a figure must fail `check` with these words."""

    def enter(breaker: Breaker) -> Breaker:
        BROKEN.append((check, breaker, sentence))
        return breaker

    return enter


def drawing_also(figure: Any, more: Callable[[Any, Any], Any]) -> None:
    def draw(frame: Any, ax: Any) -> Any:
        forest.draw(frame, ax)
        more(frame, ax)
        return ax

    figure.draw = draw


@breaks(
    declares_what_it_owes,
    "figure 'ladder' has no CAPTION: declare it in analysis/figures/ladder.py",
)
def has_no_caption(figure: Any) -> None:
    del figure.CAPTION


@breaks(
    declares_what_it_owes,
    "figure 'ladder' has no MARGINS: declare it in analysis/figures/ladder.py",
)
def has_no_margins(figure: Any) -> None:
    del figure.MARGINS


@breaks(
    declares_what_it_owes,
    "figure 'ladder' has no describe: declare it in analysis/figures/ladder.py",
)
def has_no_words(figure: Any) -> None:
    del figure.describe


@breaks(
    declares_what_it_owes,
    r"figure 'ladder': draw\(ax, frame\) is called with \(frame, ax\): name them so",
)
def takes_its_axis_first(figure: Any) -> None:
    figure.draw = lambda ax, frame: forest.draw(frame, ax)


@breaks(explains_its_marks, "explains nothing")
def has_an_empty_caption(figure: Any) -> None:
    figure.CAPTION = "Results."


@breaks(leaves_room_for_its_axis, "are no style.Margins")
def has_margins_in_a_tuple(figure: Any) -> None:
    figure.MARGINS = (1.2, 0.4, 0.4, 0.4)


@breaks(leaves_room_for_its_axis, "inches for the axis")
def is_all_margin(figure: Any) -> None:
    figure.MARGINS = style.Margins(left=3.0, right=0.5, above=0.4, below=0.4)


@breaks(leaves_the_evidence_as_it_was, "let analysis/figures/ladder.py work on a copy")
def adds_to_its_frame(figure: Any) -> None:
    drawing_also(figure, lambda frame, ax: frame.insert(0, "order", 0))


@breaks(leaves_the_evidence_as_it_was, "drawing changed the numbers")
def writes_into_the_evidence(figure: Any) -> None:
    def panels(evidence: Any) -> Any:
        evidence.speeds["order"] = 0
        return forest.panels(evidence)

    figure.panels = panels


@breaks(draws_the_same_bytes_again, "uses chance, a clock or an id")
def dates_itself(figure: Any) -> None:
    clock = itertools.count()
    drawing_also(figure, lambda frame, ax: ax.set_title(f"drawn at {next(clock)}"))


@breaks(stays_on_its_canvas, "'far out on the left' leaves the canvas")
def writes_beside_the_page(figure: Any) -> None:
    drawing_also(
        figure, lambda frame, ax: ax.text(-1.5, 0, "far out on the left", transform=ax.transAxes)
    )


@breaks(stays_on_its_canvas, "a mark lies 0.[0-9]+ inches outside")
def marks_beside_the_page(figure: Any) -> None:
    drawing_also(
        figure,
        lambda frame, ax: ax.plot(1.5, 0.5, "o", transform=ax.transAxes, clip_on=False),
    )


@breaks(is_legible_at_column_width, "'too small' is written in 4.0 points")
def whispers(figure: Any) -> None:
    drawing_also(figure, lambda frame, ax: ax.text(0.01, 0, "too small", fontsize=4))


@breaks(is_legible_at_column_width, "writes nothing")
def is_silent(figure: Any) -> None:
    figure.draw = lambda frame, ax: ax.set_axis_off()


@breaks(shows_nothing_of_nothing, "panels of a folder without records")
def draws_empty_panels(figure: Any) -> None:
    figure.panels = lambda evidence: [evidence.contrasts]


def writing(figure: Any, letters: int | None = None, **look: Any) -> None:
    """Also the first name of a frame, as it is."""
    drawing_also(figure, lambda frame, ax: ax.text(0, 0, frame["name"].iloc[0][:letters], **look))


@breaks(takes_any_label_for_text, "is set as mathematics")
def sets_labels_as_mathematics(figure: Any) -> None:
    writing(figure, 7, parse_math=True)


@breaks(takes_any_label_for_text, "leaves the canvas")
def cuts_no_label(figure: Any) -> None:
    writing(figure)


@breaks(takes_any_label_for_text, "takes several lines")
def keeps_line_breaks(figure: Any) -> None:
    writing(figure, 5)


@breaks(takes_any_label_for_text, "cannot draw a label with emoji")
def asks_for_glyphs_that_no_font_has(figure: Any) -> None:
    writing(figure, 2)


@breaks(takes_any_label_for_text, "is not shown as text")
def numbers_its_rows(figure: Any) -> None:
    nobody = {"name": "variant", "ablation": "question", "control": "control"}
    figure.draw = lambda frame, ax: forest.draw(frame.assign(**nobody), ax)


@breaks(tells_of_every_variant, "is drawn but not told")
def describes_only_the_best(figure: Any) -> None:
    figure.describe = lambda frames: f"{frames[0]['name'].iloc[0]} is best."


@breaks(tells_of_every_variant, "has no column 'name'")
def draws_strangers(figure: Any) -> None:
    figure.panels = lambda evidence: [
        frame.rename(columns={"name": "who"}) for frame in forest.panels(evidence)
    ]
    figure.describe = lambda frames: "A ladder."
