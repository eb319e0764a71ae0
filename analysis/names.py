"""Names made safe to print: they come from users and may hold anything, at any length."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from typing import Any


def short(text: str, most: int = 80) -> str:
    """A name that a sentence can carry: names of any length are allowed."""
    return text if len(text) <= most else text[: most - 1] + "…"


def choose(word: str, known: Sequence[str], kind: str) -> None:
    """Accept a known word; answer any other with the nearest one."""
    if word not in known:
        near = difflib.get_close_matches(word[:100], known, n=1, cutoff=0.0)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no {kind} {word[:60]!r}{hint}")


def asked(entry: dict[str, Any]) -> str:
    """A question as a page asks it; where arms are tuned, it says so."""
    question = str(entry["question"])
    return f"{question} (each arm tuned)" if entry["arms"] == "tuned" else question


def cell_name(label: str, across: str) -> str:
    """A label at its crossing: `1 head [data=3k]`; the label alone where nothing is crossed."""
    return f"{label} [{across}]" if across else label


def printable(value: Any) -> Any:
    """The same text without control characters or lone surrogates, which no page can hold."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_visible, value))
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [printable(item) for item in value]
    return value


def _visible(character: str) -> str:
    return character if character.isprintable() or character.isspace() else "\ufffd"


def safe(name: str) -> str:
    """A name as a file's or an anchor's: letters, digits and dashes, and no two names alike."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    if plain and plain == name:
        return plain
    return f"{plain or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


UNITLESS = frozenset({"", "1", "fraction", "ratio"})


def after_number(unit: str) -> str:
    """A unit as it is written behind a number, ` nats/token`; a share or a ratio has none."""
    return "" if unit in UNITLESS else f" {unit}"


def after_heading(unit: str) -> str:
    """` (nats/token)` behind a column's or an axis' heading, or nothing."""
    return "" if unit in UNITLESS else f" ({unit})"
