"""Rows for people: columns that line up, whole where they are piped, cut where a terminal ends."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Sequence

from ablations.store.words import in_one_line

WIDEST = 80  # characters of a cell; longer names are cut


def print_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print rows under their headings; the columns named in `right` are aligned to the right."""
    from rich.cells import cell_len, set_cell_size

    told = [list(headings), *([_cut(in_one_line(cell)) for cell in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*told, strict=True)]
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    for row in told:
        cells = [
            " " * (width - cell_len(cell)) + cell
            if heading in right
            else set_cell_size(cell, width)
            for heading, cell, width in zip(headings, row, widths, strict=True)
        ]
        line = "  ".join(cells).rstrip()
        print(set_cell_size(line, shutil.get_terminal_size().columns) if is_terminal else line)


def _cut(cell: str) -> str:
    return cell if len(cell) <= WIDEST else f"{cell[: WIDEST - 1]}…"
