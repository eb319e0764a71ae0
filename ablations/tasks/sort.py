"""Write the symbols of a string in order."""

from __future__ import annotations

import numpy as np

from ablations.tasks.generated.strings import Strings
from ablations.tasks.task import TASK


@TASK.register("sort")
class Sort(Strings):
    """The symbols of the string, the smallest first."""

    name = "sort"

    def answer(self, rows_NL: np.ndarray) -> np.ndarray:
        return np.sort(rows_NL, axis=1)
