"""One token to be found: a decoder reads a row and answers at its last position.

N: examples, W: tokens of a row with its answer, T: those that are read, W − 1.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import nn

from ablations.tasks.generated.rows import Generated, each_right, share_right
from ablations.tasks.task import Decode, Metric
from model.batch import IGNORE, Batch
from model.evaluating import evaluating
from model.generate import Question


class Lookup(Generated):
    """Rows end in the token that is to be said; nothing else is to be learned."""

    kind: ClassVar[str] = "decoder"
    metrics: ClassVar[dict[str, Metric]] = {
        "accuracy": Metric("right/question", "higher", "accuracy")
    }
    source_size = None
    writes = False

    def batch(self, rows_NW: np.ndarray) -> Batch:
        rows = torch.from_numpy(rows_NW)
        labels_NT = torch.full_like(rows[:, 1:], IGNORE)
        labels_NT[:, -1] = rows[:, -1]
        return Batch(labels_NT, inputs=rows[:, :-1])

    def questions(self, rows_NW: np.ndarray) -> list[list[int]]:
        return rows_NW[:, :-1].tolist()

    def truths(self, rows_NW: np.ndarray) -> list[list[int]]:
        return rows_NW[:, -1:].tolist()

    def answers(
        self, model: nn.Module, rows_NW: np.ndarray, device: torch.device | str, decode: Decode
    ) -> list[list[int]]:
        with evaluating(model), torch.inference_mode():
            logits_NTV = model(self.batch(rows_NW).to(device))
        return logits_NTV[:, -1:].argmax(dim=-1).tolist()

    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> dict[str, float]:
        return {"accuracy": share_right(outputs, truths)}

    def items(self, outputs: list[list[int]], truths: list[list[int]]) -> dict[str, list[float]]:
        return {"accuracy": each_right(outputs, truths)}

    def ask(self, text: str) -> Question:
        return Question(prompt=torch.tensor([self.read(text)]))
