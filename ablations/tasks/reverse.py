"""Write the string from its end to its start."""

from __future__ import annotations

import numpy as np

from ablations.tasks.generated.strings import Strings
from ablations.tasks.task import TASK


@TASK.register("reverse")
class Reverse(Strings):
    """The string from its end to its start."""

    name = "reverse"

    def answer(self, rows_NL: np.ndarray) -> np.ndarray:
        return rows_NL[:, ::-1]
