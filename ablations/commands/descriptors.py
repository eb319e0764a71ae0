"""The three descriptors that every program takes to be open."""

from __future__ import annotations

import os


def hold_standard_descriptors() -> None:
    """Lead those that are closed nowhere, here and in every process that this one starts.

    The next file to be opened would take the place of one that is closed, and then what some
    library prints would be written into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            if nowhere != number:
                os.close(nowhere)
            os.set_inheritable(number, True)
