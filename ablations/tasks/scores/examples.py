"""Which answers a record shows."""

from __future__ import annotations

from collections.abc import Sequence

EXAMPLES = 6  # of the right answers, and as many of the wrong


def some_of_each(right: Sequence[bool]) -> list[int]:
    """Where the first right and the first wrong ones are; if one kind is short, the other fills
    in."""
    kinds = [[index for index, each in enumerate(right) if each is kind] for kind in (True, False)]
    left_over = [max(0, EXAMPLES - len(kind)) for kind in reversed(kinds)]
    return sorted(
        index
        for kind, extra in zip(kinds, left_over, strict=True)
        for index in kind[: EXAMPLES + extra]
    )
