"""Rows for people: columns that line up, whole where they are piped, cut where a terminal ends."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from ablations.store.words import in_one_line


def print_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print rows under their headings; columns named in `right` end where their headings do."""
    lines = aligned(headings, rows, right)
    if sys.stdout is None or not sys.stdout.isatty():
        print("\n".join(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for number, line in enumerate(lines):
        text = Text(line, style="bold" if number == 0 else "", no_wrap=True, overflow="ellipsis")
        console.print(text)


def aligned(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> list[str]:
    """The lines of a table, the first with its headings."""
    from rich.cells import cell_len

    shown = [list(headings), *([in_one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]

    def padded(cell: str, heading: str, width: int) -> str:
        room = " " * (width - cell_len(cell))
        return room + cell if heading in right else cell + room

    return ["  ".join(map(padded, row, headings, widths)).rstrip() for row in shown]
