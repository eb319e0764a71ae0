"""What training minimises.

N: labels, V: vocabulary.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from model.batch import IGNORE


def cross_entropy(
    logits: Tensor, labels: Tensor, smoothing: float = 0.0, over: str = "all"
) -> Tensor:
    """The summed loss in nats over all labels that count.

    The label has 1 − ε of the target, and ε is spread evenly `over` all words, the label among
    them (Szegedy et al. 2016), or over the `other` words alone. The caller divides by the number of
    labels in the whole batch.
    """
    if over == "other":
        # ε' spread over all V words gives each of the others ε'/V, which is to be ε / (V − 1).
        smoothing = smoothing * logits.shape[-1] / (logits.shape[-1] - 1)
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        labels.flatten(),
        ignore_index=IGNORE,
        reduction="sum",
        label_smoothing=smoothing,
    )
