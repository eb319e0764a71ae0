"""Rows for people: columns that line up, whole where they are piped, cut where a terminal ends."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from ablations.store.words import in_one_line

WIDEST = 80  # characters of a cell; longer names are cut
PIPED = 10_000  # columns where nobody looks


def print_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print rows under their headings; the columns named in `right` are aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(
            in_one_line(heading),
            justify="right" if heading in right else "left",
            no_wrap=True,
            max_width=WIDEST,
        )
    for row in rows:
        table.add_row(*map(in_one_line, row))
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = None if is_terminal else PIPED
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    with console.capture() as made:
        console.print(table)
    print("\n".join(line.rstrip() for line in made.get().splitlines()))
