"""Numbers and names as text."""

from __future__ import annotations

import math

from analysis.names import short

OPEN, CLOSE = "\x02", "\x03"  # around a name: no name that was read holds one


def named(name: str) -> str:
    """A name in a sentence, marked: the page sets it as code, so that `none` is no pronoun."""
    return f"{OPEN}{short(name)}{CLOSE}"


def plain(text: str) -> str:
    """A sentence for the terminal: its names in quotation marks."""
    return text.replace(OPEN, "“").replace(CLOSE, "”")


def joined(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: float, half_width: float = math.nan) -> str:
    """A number with as many digits as its interval supports; three digits without one.

    Half the interval's width gives two digits below 3 and one from there on, as in the Particle
    Data Group's tables.
    """
    if math.isnan(value):
        return ""
    scale = half_width / 3 if half_width > 0 else abs(value) / 100
    decimals = math.ceil(-math.log10(scale) - 1e-9) if 0 < scale < math.inf else 0
    if not -6 <= decimals <= 6 or abs(value) >= 1e6:
        return f"{value:.3g}".replace("-", "−")
    text = f"{value:.{max(0, decimals)}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def bounds(low: float, high: float) -> str:
    """`0.35 to 0.47`, or nothing where there is no interval."""
    if math.isnan(low):
        return ""
    half = (high - low) / 2
    return f"{number(low, half)} to {number(high, half)}"


def count(value: float) -> str:
    """A large count: `241 k`, `1.40 M`."""
    if math.isnan(value):
        return ""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """`100 µs`, `10 ms`, `41 s`, `12 min`, `3.4 h`."""
    for unit, size, least in (("h", 3600, 6000), ("min", 60, 100), ("s", 1, 0.999)):
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 0.999e-3 else f"{seconds * 1e6:.3g} µs"
