"""Whether a language model knows the order of its past, or only what was in it.

B: windows, L: tokens that a window reads, N: tokens of the test text and BOS.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ablations.measure import MEASURE, Measure, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from ablations.tasks.text import Text
from model.batch import Batch
from model.evaluating import evaluating
from model.loss import cross_entropy

WINDOWS = 4096
BATCH_TOKENS = 8192
SEED = 0  # of the permutations: the same for every model


@MEASURE.register("shuffled")
class Shuffled(Measure):
    """The perplexity of a window's next token when its past is shuffled, over that when it is not.

    exp(loss after a shuffled past − loss after the past as it is). The token read last stays where
    it is: whoever reads the past as a bag, beside that token, has a ratio of 1, and whoever uses
    order has more (as Khandelwal et al. 2018 shuffle what an LSTM reads).
    """

    quantities: ClassVar = {
        "shuffled_ratio": Quantity("1", "lower", "perplexity after a shuffled past")
    }

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        at: dict[str, float | str] = {"step": step}
        value, reason = None, None
        if not isinstance(task, Text):
            reason = "shuffled reads the past of running text: choose the task text"
        else:
            stream_N = task.windows("test").stream_N
            trained = task.windows("train").length
            window_BL = windows(stream_N, trained)
            if window_BL.shape[1] < 4:  # two to shuffle, one that stays, and the target
                tokens = f"test has {len(stream_N) - 1} tokens in windows of {trained}"
                reason = f"{tokens}: there is no past to shuffle; choose a length of at least 3"
            else:
                kept, shuffled = (
                    loss(model, each_BL, device) for each_BL in (window_BL, shuffle(window_BL))
                )
                value = float(torch.tensor(shuffled - kept, dtype=torch.float64).exp())
        return Taken([Reading("shuffled_ratio", "1", value, "test", at, reason=reason)])


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
