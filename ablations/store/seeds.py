"""Which seeds are for what: none that chose a setting, or a question, decides anything."""

from __future__ import annotations

from collections.abc import Sequence

TUNING = (100, 101)
"""Of trials that choose among settings; nothing of theirs is reported."""
DECIDING = tuple(range(200, 210))
"""Of verdicts, in the order in which they are looked at. Those below were seen while questions
were made; those beyond would let someone go on until the answer is the one they like."""
LOOKS = (3, 5, 10)
"""After how many of them a claim about a level is looked at."""


def deciding(first: int) -> tuple[int, ...]:
    """The ten that decide a question whose regime was changed: they begin here."""
    return tuple(seed + first - DECIDING[0] for seed in DECIDING)


def moved(seeds: Sequence[int], first: int) -> list[int]:
    """Deciding seeds as a question numbers them; others are nobody's."""
    own = (deciding(first)[DECIDING.index(s)] if s in DECIDING else s for s in seeds)
    return list(dict.fromkeys(own))
