"""Names of chapters and variants, and how names from users are written in a sentence."""

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
    """A variant and its levels of the factors, as one types them: `post:6`."""
    return ":".join((variant, *factors.values()))


def quoted(name: str) -> str:
    """The name, in quotes where its own commas would read as those of a list."""
    return f"'{name}'" if "," in name or name != name.strip() else name


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def nearest_label(word: str, labels: Iterable[str]) -> str:
    """A hint for a misspelt label: the nearest right one, or all of them."""
    labels = list(labels)
    close = difflib.get_close_matches(word, labels, n=1, cutoff=0.5)
    return f"Did you mean '{close[0]}'?" if close else f"Choose from: {listed(labels)}."


def in_one_line(text: str) -> str:
    """What a terminal can show of a text, whatever it holds."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
