"""Batches, and the loss.

B: sequences, T: target positions, S: source positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2  # every vocabulary starts with these three
IGNORE = -100  # a label that no loss counts


@dataclass(frozen=True)
class Batch:
    """Padded on the right; a length of None means that nothing is padded.

    `source` feeds an encoder and `inputs` a decoder: an encoder-decoder reads both, the others one.
    `labels` are what the logits should say, IGNORE where nothing should be learned.
    """

    labels: Tensor  # B T, or B for one class a sequence
    inputs: Tensor | None = None  # B T
    lengths: Tensor | None = None  # B, of inputs
    source: Tensor | None = None  # B S
    source_lengths: Tensor | None = None  # B, of source
    segments: Tensor | None = None  # B S: the part of the source that a token belongs to

    def __post_init__(self) -> None:
        """Lengths that do not fit would end in NaN; on an accelerator they are not checked."""
        for name, lengths, tokens in (
            ("lengths", self.lengths, self.inputs),
            ("source_lengths", self.source_lengths, self.source),
        ):
            if lengths is None or lengths.device.type != "cpu":
                continue
            if tokens is None or len(lengths) != len(tokens):
                raise ValueError(f"{name} must go with as many sequences")
            if len(lengths) == 0:
                continue  # the model reports what is empty
            low, high = (int(end) for end in lengths.aminmax())
            if low < 1:
                raise ValueError(f"{name} holds {low}: a sequence needs at least one real token")
            if high > tokens.shape[1]:
                raise ValueError(f"{name} holds {high}: the sequences are {tokens.shape[1]} long")
        counts = [len(side) for side in (self.inputs, self.source) if side is not None]
        if len(set(counts)) > 1:
            raise ValueError(
                f"inputs and source hold {counts[0]} and {counts[1]} sequences: "
                "give each target its source"
            )
        shape = None if self.source is None else self.source.shape
        if self.segments is not None and self.segments.shape != shape:
            raise ValueError("segments must go with a source of the same shape")

    @classmethod
    def shifted(
        cls,
        target_BT: Tensor,
        lengths_B: Tensor | None = None,
        source_BS: Tensor | None = None,
        source_lengths_B: Tensor | None = None,
    ) -> Batch:
        """Targets shifted right: from each token of `target_BT` the model predicts the next."""
        inputs_BT, labels_BT = target_BT[:, :-1], target_BT[:, 1:]
        if lengths_B is not None:
            lengths_B = lengths_B - 1
            padded_BT = positions(labels_BT.shape[1], labels_BT) >= lengths_B[:, None]
            labels_BT = labels_BT.masked_fill(padded_BT, IGNORE)
        return cls(labels_BT, inputs_BT, lengths_B, source_BS, source_lengths_B)

    def to(self, device: torch.device | str) -> Batch:
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    @property
    def tokens(self) -> int:
        """How many labels the loss is averaged over."""
        return int((self.labels != IGNORE).sum())

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The same batch with every tensor changed."""
        each = {name: change(value) for name, value in vars(self).items() if value is not None}
        return replace(self, **each)


def positions(length: int, like: Tensor, start: int = 0) -> Tensor:
    """start, start + 1, … on the device of `like`."""
    return torch.arange(start, start + length, device=like.device)


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
