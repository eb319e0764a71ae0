"""Names of chapters and variants, and how to write users' names and errors in a sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

CHAPTERS = {
    "positions": "Positions",
    "norm": "Norm placement",
    "heads": "Heads",
    "scale": "√d scaling",
    "smoothing": "Label smoothing",
    "rnn": "RNN in its place",
    "speed": "Speed",
    "training": "Training",
    "lectures": "What else the lectures say",
}
"""Folder of a chapter → its title, in the order of the page."""
AXES = tuple(CHAPTERS)[:6]


def place_of(variant: str, factors: Mapping[str, str]) -> str:
    """A variant with its levels of the factors, as users type it: `post:6`."""
    return ":".join((variant, *factors.values()))


def quoted(name: str) -> str:
    """The name, in quotes if it has commas or spaces around it."""
    return f"'{name}'" if "," in name or name != name.strip() else name


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def nearest_label(word: str, labels: Iterable[str]) -> str:
    """A hint for a misspelt label: the nearest right one, or all of them."""
    labels = list(labels)
    close = difflib.get_close_matches(word, labels, n=1, cutoff=0.5)
    return f"Did you mean '{close[0]}'?" if close else f"Choose from: {listed(labels)}."


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def in_one_line(text: str) -> str:
    """The text in one line, without characters that a terminal cannot show."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
