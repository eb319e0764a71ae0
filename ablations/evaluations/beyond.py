"""How a language model uses its past: longer than in training, or in another order.

B: windows, L: tokens that a window reads, N: tokens of the test text and BOS.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Evaluation, Measured, Metric
from ablations.tasks.task import Task
from ablations.tasks.text import Text
from model.batch import Batch, cross_entropy
from model.layers import evaluating

BANDS = {1.0: 1, 1.5: 1, 4.0: 4}
"""Where a band ends, in trained lengths, and how many halves of one it holds."""
LAST = max(BANDS)
TARGETS = 32768  # tokens that are predicted in each band, about
BATCH_TOKENS = 8192


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
        trained = task.windows("train").length
        stream_N = task.windows("test").stream_N
        ends_B = stretches(len(stream_N), trained)
        if trained < 2 or not len(ends_B):
            tokens = f"test has {len(stream_N) - 1} tokens"
            least = 4 * max(2, trained)
            return self._nulls(step, f"{tokens}: choose a text of at least {least}")
        found: list[tuple[float, float | None, str | None]] = []
        for past, halves in BANDS.items():
            try:
                value = bits(model, stream_N, ends_B, trained, past, halves, device)
                found.append((past, value, None))
            except ValueError as error:  # longer than its positions reach
                found.append((past, None, str(error).splitlines()[0][:200]))
        _, first, why = found[0]
        measurements = []
        for past, bits_at, reason in found:
            at: dict[str, float | str] = {"step": step, "past": past}
            measurements.append(self.measurement("bits_at", bits_at, at, reason=reason))
            if past != found[0][0]:
                ratio = _ratio(bits_at, first)
                measurements.append(
                    self.measurement("perplexity_ratio", ratio, at, reason=reason or why)
                )
        return Measured(measurements)

    def _nulls(self, step: int, reason: str) -> Measured:
        """Null for every band, and the reason."""
        first, *later = BANDS
        where = [("bits_at", first), *((name, past) for past in later for name in self.metrics)]
        return Measured(
            [
                self.measurement(name, None, {"step": step, "past": past}, reason=reason)
                for name, past in where
            ]
        )


def stretches(size: int, trained: int) -> Tensor:
    """Ends, in the stream, of stretches of two trained lengths, spread over it and apart: with what
    stands before them each fills a window of four. None where the stream is too short."""
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
    """Per token of the stretches, in windows of `past` trained lengths that each predict so many
    halves of one, their last."""
    half = trained // 2
    length, targets = int(past * trained), halves * half
    back = torch.arange(0, 4 * half, targets)
    total = 0.0
    with evaluating(model):
        for each_B in (ends_B[:, None] - back).flatten().split(max(1, BATCH_TOKENS // length)):
            window_BL = stream_N[each_B[:, None] + torch.arange(-length - 1, 0)]
            batch = Batch.shifted(window_BL.long()).to(device)
            total += float(cross_entropy(model(batch)[:, -targets:], batch.labels[:, -targets:]))
    return total / math.log(2) / (len(ends_B) * 4 * half)


def _ratio(bits: float | None, first: float | None) -> float | None:
    """2^(bits − first); as a tensor, which has an infinity where a float would overflow."""
    if bits is None or first is None:
        return None
    return float(torch.tensor(bits - first, dtype=torch.float64).exp2())


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
        kept, shuffled = (
            loss(model, each_BL, device) for each_BL in (window_BL, shuffle(window_BL))
        )
        ratio = float(torch.tensor(shuffled - kept, dtype=torch.float64).exp())
        return Measured([self.measurement("shuffled_ratio", ratio, {"step": step})])


def windows(stream_N: Tensor, trained: int) -> Tensor:
    """B L+1: what is read, as long as in training, and its target; spread over the text, each with
    another target, and none with BOS, whose place is the first."""
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


@torch.inference_mode()
def loss(model: nn.Module, window_BL: Tensor, device: torch.device) -> float:
    """Nats of the target of a window, on average."""
    total = 0.0
    with evaluating(model):
        for each_BL in window_BL.split(max(1, BATCH_TOKENS // window_BL.shape[1])):
            batch = Batch.shifted(each_BL).to(device)
            total += float(cross_entropy(model(batch)[:, -1], batch.labels[:, -1]))
    return total / len(window_BL)
