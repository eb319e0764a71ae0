"""Numbers, names and units as text. Names come from users and may hold anything."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.store.words import nearest_label

OPEN, CLOSE = "\x02", "\x03"  # around a name; names that were read hold neither
UNITLESS = frozenset({"", "1", "fraction", "ratio"})

# --- names


def short(text: str, most: int = 80) -> str:
    """A name cut to at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def named(name: str) -> str:
    """Mark a name in a sentence; the page sets it as code, so that `none` is no pronoun."""
    return f"{OPEN}{short(name)}{CLOSE}"


def plain(text: str) -> str:
    """A sentence for the terminal, with marked names in quotation marks."""
    return text.replace(OPEN, "“").replace(CLOSE, "”")


def variant_name(label: str, across: str) -> str:
    """A variant with the levels of its factors: `1 head [data=3k]`."""
    return f"{label} [{across}]" if across else label


def title_of(metric: str, metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of a metric in a sentence or on an axis, by the metrics of its experiment."""
    return metrics.get(metric, {}).get("title") or metric.replace("_", " ")


def check_known(word: str, known: Sequence[str], kind: str) -> None:
    """Raise a ValueError that suggests the nearest known word."""
    if word not in known:
        raise ValueError(f"no {kind} {word[:60]!r}. {nearest_label(word[:100], known)}")


def printable(value: Any) -> Any:
    """The same text without control characters or lone surrogates, which no page can hold."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in value)
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


def safe(name: str) -> str:
    """A unique name for a file or an anchor: `positions--g2p`; with a digest if it is not plain."""
    parts = [re.sub(r"[^a-z0-9]+", "-", part).strip("-") for part in name.lower().split("/")]
    plain_name = "--".join(parts)
    if all(parts) and "/".join(parts) == name and len(name) <= 40:
        return plain_name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{plain_name[:40].strip('-') or 'x'}-{digest}"


def joined(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def first_few(words: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


# --- numbers


def number(value: float, half_width: float = math.nan) -> str:
    """A number with as many digits as its interval supports, or three without one.

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


def with_interval(mean: float, low: float, high: float) -> str:
    """`0.450 (0.434 to 0.467)`."""
    ends = f" ({bounds(low, high)})" if not math.isnan(low) else ""
    return "" if math.isnan(mean) else number(mean, (high - low) / 2) + ends


def times(ratio: float, low: float, high: float) -> str:
    """`1.12 × (1.10 to 1.14)`."""
    first, *ends = with_interval(ratio, low, high).split(" ", 1)
    return " ".join([first, "×", *ends]) if first else ""


def memory(own: float, baseline: float = math.nan) -> str:
    """`7 MiB (3.50 ×)`, with the ratio to the baseline's."""
    if math.isnan(own):
        return ""
    ratio = f" ({own / baseline:.2f} ×)" if baseline > 0 else ""
    return f"{own / 2**20:.3g} MiB{ratio}"


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


def plus_minus(share: float) -> str:
    """`± 1.2 %`."""
    return "" if math.isnan(share) else f"± {100 * share:.2g} %"


def after_number(unit: str) -> str:
    """` nats/token` behind a number; empty for shares and ratios."""
    return "" if unit in UNITLESS else f" {unit}"


def after_heading(unit: str) -> str:
    """` (nats/token)` behind a heading; empty for shares and ratios."""
    return "" if unit in UNITLESS else f" ({unit})"
