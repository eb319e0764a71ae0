"""Rows for people: columns that line up, whole where they are piped, cut where a terminal ends."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from ablations.store.words import in_one_line

WIDEST = 80  # characters of a cell; longer names are cut


def print_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print rows under their headings; the columns named in `right` are aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(
            heading,
            justify="right" if heading in right else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        cells = [in_one_line(cell) for cell in row]
        cells = [cell if len(cell) <= WIDEST else f"{cell[: WIDEST - 1]}…" for cell in cells]
        table.add_row(*map(Text, cells))
    console = Console(width=None if is_terminal else 1_000_000)
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))
