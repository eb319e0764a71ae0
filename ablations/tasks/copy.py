"""Write the string itself."""

from __future__ import annotations

import numpy as np

from ablations.tasks.generated.strings import Strings
from ablations.tasks.task import TASK


@TASK.register("copy")
class Copy(Strings):
    """The string itself."""

    name = "copy"

    def answer(self, rows_NL: np.ndarray) -> np.ndarray:
        return rows_NL
