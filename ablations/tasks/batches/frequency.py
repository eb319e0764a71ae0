"""What is known of a label before anything is read: how frequent it is."""

from __future__ import annotations

import torch
from torch import Tensor

from model.batch import EOS


def unigram_loss(train: Tensor, asked: Tensor, size: int) -> float:
    """Nats per label where each is as likely as in train, counted once more than seen (add-one).

    PAD and BOS, which nothing has to predict, are left out wherever they stand.
    """
    known, wanted = (
        torch.bincount(labels.flatten(), minlength=size)[EOS:].double() for labels in (train, asked)
    )
    return float(-(wanted * ((known + 1) / (known + 1).sum()).log()).sum() / wanted.sum())
