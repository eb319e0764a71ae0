"""A beam search stops only where nothing that still grows can win."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.batch import BOS, EOS
from model.generate import Decoding, Question, beam

SIZE = 6
A, B, C = 3, 4, 5  # words
Logs = Callable[[tuple[int, ...]], list[float]]  # of the next token, after these


class Toy(nn.Module):
    """A generator whose probabilities are written down for every beginning of an answer."""

    def __init__(self, logs: Logs) -> None:
        super().__init__()
        self.logs = logs

    def begin(self, sequences: int, *_: Any) -> Decoding:
        return Decoding(0, (torch.zeros(sequences, 0, dtype=torch.long),))

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        said = torch.cat((decoding.states[0], tokens_BT), dim=1)
        rows = [self.logs(tuple(row[1:])) for row in said.tolist()]  # without BOS
        logits = torch.tensor(rows, dtype=torch.float64)[:, None]
        return logits, Decoding(said.shape[1], (said,))


def found(logs: Logs, max_new: int, width: int, power: float) -> list[tuple[list[int], float]]:
    (answers,) = beam(Toy(logs), Question(prompt=torch.tensor([[BOS]])), max_new, width, power)
    return [(answer.tokens, answer.log_probability) for answer in answers]


def written(shares: dict[tuple[int, ...], dict[int, float]]) -> Logs:
    """Probabilities after each beginning; what is not written is as good as impossible."""

    def logs(said: tuple[int, ...]) -> list[float]:
        after = shares.get(said, {EOS: 1.0})
        left = (1 - sum(after.values())) / (SIZE - len(after))
        values = [after.get(token, max(left, 1e-12)) for token in range(SIZE)]
        return torch.tensor(values, dtype=torch.float64).log().tolist()

    return logs


def slow(logs: Logs, max_new: int, width: int, power: float) -> list[tuple[list[int], float]]:
    """To the very end, whatever has ended: of the best 2 · width steps, ends end, others go on."""
    growing: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    ended: list[tuple[float, tuple[int, ...], float]] = []
    for length in range(1, max_new + 1):
        steps = [
            (value + log_p, said, token)
            for said, value in growing
            for token, log_p in enumerate(logs(said))
        ]
        best = sorted(steps, reverse=True)[: 2 * width]
        ended += [(value / length**power, said, value) for value, said, t in best if t == EOS]
        growing = [((*said, t), value) for value, said, t in best if t != EOS][:width]
    ended += [(value / max_new**power, said, value) for said, value in growing]
    return [(list(said), value) for _, said, value in sorted(ended, reverse=True)[:width]]


def drawn(seed: int) -> Logs:
    """Random probabilities, in which to end is as likely as to go on."""

    @functools.cache
    def logs(said: tuple[int, ...]) -> list[float]:
        source = random.Random(f"{seed} {said}")
        scores = [source.gauss(0, 2) + (1.5 if token == EOS else 0) for token in range(SIZE)]
        return torch.tensor(scores, dtype=torch.float64).log_softmax(-1).tolist()

    return logs


def test_to_stop_early_loses_nothing() -> None:
    for power in [0.0, 0.6, 1.0, 2.0]:
        for width in [1, 2, 3]:
            for seed in range(10):
                for max_new in (1, 4, 7):
                    answers = found(drawn(seed), max_new, width, power)
                    by_hand = slow(drawn(seed), max_new, width, power)
                    assert [tokens for tokens, _ in answers] == [tokens for tokens, _ in by_hand]
                    values = [value for _, value in by_hand]
                    assert [value for _, value in answers] == pytest.approx(values)


def test_a_search_that_cannot_win_any_more_is_given_up() -> None:
    """Else to stop early would be never to stop."""
    asked: list[tuple[int, ...]] = []
    logs = written({(): {EOS: 0.9, A: 0.05, B: 0.05}, **{(A,) * n: {A: 0.9} for n in range(1, 50)}})

    def counted(said: tuple[int, ...]) -> list[float]:
        asked.append(said)
        return logs(said)

    assert found(counted, 50, width=1, power=0.0)[0][0] == []
    assert max(map(len, asked)) <= 1
