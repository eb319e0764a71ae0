"""What training minimises.

N: labels, V: vocabulary.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from model.batch import IGNORE


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The summed loss in nats over all labels that count.

    −(1 − ε) log p(label) − ε · mean over all words of log p(word) (Szegedy et al. 2016). The caller
    divides by the number of labels in the whole batch.
    """
    return F.cross_entropy(
        logits.flatten(0, -2),
        labels.flatten(),
        ignore_index=IGNORE,
        reduction="sum",
        label_smoothing=smoothing,
    )
