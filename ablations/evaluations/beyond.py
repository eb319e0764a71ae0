"""How a language model uses its past: longer than in training, or in another order.

B: windows, L: tokens that a window reads, N: tokens of the test text and BOS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Evaluation, Measured, Metric
from ablations.store.words import first_line
from ablations.tasks.task import Task
from ablations.tasks.text import Text
from model.batch import Batch, cross_entropy
from model.layers import evaluating

BANDS = {1.0: 1, 1.5: 1, 4.0: 4}
"""End of a band in trained lengths → half lengths in it."""
LAST = max(BANDS)
TARGETS = 32768  # tokens that are predicted in each band, about
BATCH_TOKENS = 8192
Found = tuple[float | None, str | None]  # a value, or the reason why there is none


@MEASUREMENT.register("beyond")
class Beyond(Evaluation):
    """Bits per token where the past is (½, 1], (1, 1½] and (2, 4] times the trained length T, and
    the perplexity of the last two bands over that of the first: 2^(bits − bits of the first).

    Every band predicts the same tokens, each from as long a past as its band has: what differs is
    the past, not the text (extrapolation as Press et al. 2022 ask for it).
    """

    metrics: ClassVar = {
        "bits_at": Metric("bits/token", "lower", "bits past the trained length"),
        "perplexity_ratio": Metric(
            "1", "lower", "perplexity past the trained length, over that at its end"
        ),
    }

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        if not isinstance(task, Text):
            return self._nulls(step, "beyond reads on in running text: choose the task text")
        trained, stream_N = task.windows("train").length, task.windows("test").stream_N
        ends_B = stretches(len(stream_N), trained)
        if trained < 2 or not len(ends_B):
            least = f"choose a text of at least {4 * max(2, trained)}"
            return self._nulls(step, f"test has {len(stream_N) - 1} tokens: {least}")
        found: dict[float, Found] = {}
        for past, halves in BANDS.items():
            try:
                found[past] = bits(model, stream_N, ends_B, trained, past, halves, device), None
            except ValueError as error:  # longer than its positions reach
                found[past] = None, first_line(error)
        return self._measured(step, found)

    def _nulls(self, step: int, reason: str) -> Measured:
        return self._measured(step, dict.fromkeys(BANDS, (None, reason)))

    def _measured(self, step: int, found: Mapping[float, Found]) -> Measured:
        """The bits of each band; of all but the first, the ratio to it."""
        measurements = []
        (first, why), *_ = found.values()
        for past, (value, reason) in found.items():
            at = {"step": step, "past": past}
            measurements.append(self.measurement("bits_at", value, at, reason=reason))
            if past != min(BANDS):
                ratio = None if value is None or first is None else _power(2.0, value - first)
                because = reason or why
                measurements.append(self.measurement("perplexity_ratio", ratio, at, reason=because))
        return Measured(measurements)


def stretches(size: int, trained: int) -> Tensor:
    """The ends of disjoint stretches of two trained lengths, spread over the stream, with room for
    a window of four before each end. Empty if the stream is too short."""
    room = size - 1 - int(LAST * trained)
    if room < 0:
        return torch.arange(0)
    stretch = 4 * max(1, trained // 2)
    number = min(max(1, TARGETS // stretch), room // stretch + 1)
    return size - room + torch.arange(number) * room // max(1, number - 1)


@torch.inference_mode()
def bits(
    model: nn.Module,
    stream_N: Tensor,
    ends_B: Tensor,
    trained: int,
    past: float,
    halves: int,
    device: torch.device,
) -> float:
    """Bits per token of the stretches, in windows of `past` trained lengths; each predicts its last
    `halves` half lengths."""
    half = trained // 2
    length, targets = int(past * trained), halves * half
    ends_N = (ends_B[:, None] - torch.arange(0, 4 * half, targets)).flatten()
    windows_NL = stream_N[ends_N[:, None] + torch.arange(-length - 1, 0)].long()
    return nats(model, windows_NL, targets, device) / math.log(2) / (len(ends_B) * 4 * half)


@torch.inference_mode()
def nats(model: nn.Module, window_BL: Tensor, targets: int, device: torch.device) -> float:
    """Summed over the last `targets` tokens of every window."""
    total = 0.0
    with evaluating(model):
        for each_BL in window_BL.split(max(1, BATCH_TOKENS // (window_BL.shape[1] - 1))):
            batch = Batch.shifted(each_BL).to(device)
            total += float(cross_entropy(model(batch)[:, -targets:], batch.labels[:, -targets:]))
    return total


def _power(base: float, exponent: float) -> float:
    """base^exponent, or ∞ where a float would overflow."""
    return float(torch.tensor(base, dtype=torch.float64) ** exponent)


WINDOWS = 4096
SEED = 0  # of the permutations: the same for every model


@MEASUREMENT.register("shuffled")
class Shuffled(Evaluation):
    """The perplexity of a window's next token when its past is shuffled, over that when it is not.

    exp(loss after a shuffled past − loss after the past as it is). The token read last stays where
    it is. A model that reads the rest of the past as a bag has a ratio of 1, one that uses its
    order more (as Khandelwal et al. 2018 shuffle what an LSTM reads).
    """

    metrics: ClassVar = {"shuffled_ratio": Metric("1", "lower", "perplexity after a shuffled past")}

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        if not isinstance(task, Text):
            reason = "shuffled reads the past of running text: choose the task text"
            return self.nothing({"step": step}, reason)
        stream_N, trained = task.windows("test").stream_N, task.windows("train").length
        window_BL = windows(stream_N, trained)
        if window_BL.shape[1] < 4:  # two to shuffle, one that stays, and the target
            tokens = f"test has {len(stream_N) - 1} tokens in windows of {trained}"
            reason = f"{tokens}: there is no past to shuffle; choose a length of at least 3"
            return self.nothing({"step": step}, reason)
        before, after = (nats(model, each, 1, device) for each in (window_BL, shuffle(window_BL)))
        ratio = _power(math.e, (after - before) / len(window_BL))
        return Measured([self.measurement("shuffled_ratio", ratio, {"step": step})])


def windows(stream_N: Tensor, trained: int) -> Tensor:
    """B L+1: windows of the trained length and their targets, spread over the text after BOS."""
    length = min(trained, len(stream_N) - 2)
    room = len(stream_N) - 2 - length
    number = min(WINDOWS, room + 1)
    starts_B = 1 + torch.arange(number) * room // max(1, number - 1)
    return stream_N[starts_B[:, None] + torch.arange(length + 1)].long()


def shuffle(window_BL: Tensor) -> Tensor:
    """Each window with its past in another order, all but the token read last and the target."""
    generator = torch.Generator().manual_seed(SEED)
    past_BL = window_BL[:, :-2]
    order_BL = torch.rand(past_BL.shape, generator=generator).argsort(dim=1)
    return torch.cat((past_BL.gather(1, order_BL), window_BL[:, -2:]), dim=1)
