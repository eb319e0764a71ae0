"""Batches of padded examples of similar length, or of windows of a stream.

N: examples or tokens of the stream, B: examples of a batch, S: source positions, T: target
positions, of a window with the token before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from ablations.tasks.task import Budget, Decode, Task
from model.batch import BOS, EOS, PAD, Batch, cross_entropy
from model.generate import Generator, Question
from model.layers import evaluating


def summed_loss(model: nn.Module, batches: Iterable[Batch], device: torch.device | str) -> float:
    """Unsmoothed nats of all labels."""
    total = 0.0
    with evaluating(model), torch.inference_mode():
        for batch in batches:
            moved = batch.to(device)
            total += float(cross_entropy(model(moved), moved.labels))
    return total


class PaddedTask(Task):
    """A task whose examples are pairs of token sequences."""

    name: ClassVar[str]

    def sequences(self, split: str) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]:
        """The sources and the targets of a split."""
        raise NotImplementedError

    @cached_property
    def _pairs(self) -> dict[str, Padded]:
        return {}

    def pairs(self, split: str) -> Padded:
        """The examples of a split, as tensors."""
        if split not in self._pairs:
            self._pairs[split] = Padded(*self.sequences(split), self.per)
        return self._pairs[split]

    @cached_property
    def taught(self) -> Padded:
        return self.pairs("train")

    def steps(self, seed: int, budget: Budget, start: int = 0) -> Iterator[tuple[Batch, ...]]:
        return self.taught.steps(seed, self.name, budget, start)

    def evaluation_batches(self, split: str) -> list[Batch]:
        return [batch for _, batch in self.pairs(split).asked]


def unigram_loss(train: Tensor, asked: Tensor, size: int) -> float:
    """Nats per label of the unigram distribution of train, with add-one smoothing.

    PAD and BOS, which nothing has to predict, are left out everywhere.
    """
    known, wanted = (
        torch.bincount(labels.flatten(), minlength=size)[EOS:].double() for labels in (train, asked)
    )
    return float(-(wanted * ((known + 1) / (known + 1).sum()).log()).sum() / wanted.sum())


# Batches that are cut from one sorted pool: enough for little padding (under 5 % on words).
POOL = 100
EVALUATION_TOKENS = 8192  # of a batch


class Padded:
    """Sources and targets as token ids, BOS and EOS included; a decoder's task has no sources.

    Where a label is `per` sequence, a target is BOS and one class.
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]] | None,
        targets: Sequence[Sequence[int]],
        per: str = "token",
    ) -> None:
        assert len(targets) > 0
        assert sources is None or len(sources) == len(targets)
        self.per = per
        self.target_NT, self.lengths_N = _pad(targets)
        self.source_NS = self.source_lengths_N = None
        rank_N = cost_N = self.lengths_N
        if sources is not None:
            self.source_NS, self.source_lengths_N = _pad(sources)
            rank_N = _snake(self.source_lengths_N, self.lengths_N)
            cost_N = self.lengths_N + self.source_lengths_N
        self._rank_N, self._cost_N = rank_N.numpy(), cost_N.numpy() - 1  # of BOS … EOS one is read

    def __len__(self) -> int:
        return len(self.lengths_N)

    def batch(self, rows_B: Tensor) -> Batch:
        """These examples, padded to the longest of them."""
        target_BT, lengths_B = _trim(self.target_NT, self.lengths_N, rows_B)
        if self.source_NS is None or self.source_lengths_N is None:
            return Batch.shifted(target_BT, lengths_B)
        source_BS, source_lengths_B = _trim(self.source_NS, self.source_lengths_N, rows_B)
        if self.per == "sequence":
            return Batch(target_BT[:, 1], source=source_BS, source_lengths=source_lengths_B)
        return Batch.shifted(target_BT, lengths_B, source_BS, source_lengths_B)

    def by_length(self, tokens: int) -> list[Tensor]:
        """The rows of every batch when all are sorted by length, about so many tokens in each."""
        order_N = np.argsort(self._rank_N, kind="stable")
        return [torch.from_numpy(rows_B) for rows_B in self._cut(order_N, tokens, 1)]

    @cached_property
    def asked(self) -> list[tuple[Tensor, Batch]]:
        """Every example once, for evaluation: the rows of each batch, and the batch, made once."""
        with torch.inference_mode(False):  # a later caller may need gradients
            return [(rows_B, self.batch(rows_B)) for rows_B in self.by_length(EVALUATION_TOKENS)]

    def answers(
        self, model: nn.Module, device: torch.device | str, decode: Decode, longest: int
    ) -> list[list[int]]:
        """The model's answer to each source, in the order of the examples."""
        answers: list[list[int]] = [[]] * len(self)
        for rows_B, batch in self.asked:
            given = batch.to(device)
            question = Question(given.source, given.source_lengths)
            written = decode(cast(Generator, model), question, longest)
            for row, answer in zip(rows_B.tolist(), written, strict=True):
                answers[row] = answer.tokens
        return answers

    def steps(
        self, seed: int, name: str, budget: Budget, start: int = 0
    ) -> Iterator[tuple[Batch, ...]]:
        """Epoch after epoch, each shuffled by sha256 of the seed, the name and its number.

        A shuffled pool is sorted and cut; each step takes one batch from the short ones, one from
        the next … and one from the long ones, so that steps are alike, and no batch mixes lengths.
        """
        epoch = 0
        while True:
            generator = _generator(seed, name, epoch)
            order_N = generator.permutation(len(self))
            size = max(1, round(POOL * budget.batch_tokens / self._cost_N.mean()))
            pools = np.array_split(order_N, max(1, round(len(self) / size)))
            for pool in pools:
                ranked = pool[np.argsort(self._rank_N[pool], kind="stable")]
                batches = self._cut(ranked, budget.batch_tokens, budget.micro_batches)
                steps = -(-len(batches) // budget.micro_batches)
                strata = [batches[index : index + steps] for index in range(0, len(batches), steps)]
                shuffled = [generator.permutation(len(stratum)) for stratum in strata]
                for step in range(steps):
                    if start > 0:
                        start -= 1
                        continue
                    yield tuple(
                        self.batch(torch.from_numpy(stratum[order[step]]))
                        for stratum, order in zip(strata, shuffled, strict=True)
                        if step < len(order)
                    )
            epoch += 1

    def _cut(self, rows: np.ndarray, tokens: int, parts: int) -> list[np.ndarray]:
        """Runs of rows with about so many tokens each; if possible a multiple of `parts` runs."""
        spent = np.cumsum(self._cost_N[rows])
        steps = max(1, round(int(spent[-1]) / (tokens * parts)))
        share = spent[-1] / (steps * parts)
        ends = np.searchsorted(spent, share * np.arange(1, steps * parts) - share / 2**20) + 1
        return [run for run in np.split(rows, ends) if len(run)]


def _generator(seed: int, name: str, epoch: int) -> np.random.Generator:
    digest = sha256(f"{seed} {name} {epoch}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _snake(first_N: Tensor, second_N: Tensor) -> Tensor:
    """A rank by the first length, then the second, upwards and downwards in turn.

    Where the first length goes up by one, the second does not fall back to its shortest: a batch
    that lies across that border has less to pad.
    """
    turn = int(second_N.max()) + 1
    return first_N * turn + torch.where(first_N % 2 == 0, second_N, turn - 1 - second_N)


def _pad(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """A padded row for each sequence, in the smallest integer type, and the lengths."""
    lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
    flat = np.fromiter(chain.from_iterable(sequences), np.int32, lengths.sum())
    tokens = np.full((len(lengths), lengths.max()), PAD, np.uint8 if flat.max() < 256 else np.int32)
    tokens[np.arange(lengths.max()) < lengths[:, None]] = flat
    return torch.from_numpy(tokens), torch.from_numpy(lengths)


def _trim(tokens_NL: Tensor, lengths_N: Tensor, rows_B: Tensor) -> tuple[Tensor, Tensor | None]:
    """These rows, trimmed to the longest; no lengths if all are equally long."""
    lengths_B = lengths_N[rows_B]
    shortest, longest = (int(length) for length in lengths_B.aminmax())
    tokens_BL = tokens_NL[rows_B, :longest].long()
    return tokens_BL, None if shortest == longest else lengths_B


class Windows:
    """Windows of `length` tokens, in each of which every token is predicted from those before it;
    of the whole stream, where it is shorter.

    A window reads the token before its first one too, so that no token is left out; before the very
    first comes BOS.
    """

    def __init__(self, ids: Sequence[int], length: int) -> None:
        assert len(ids) > 0
        self.stream_N = torch.tensor([BOS, *ids], dtype=torch.int32)
        self.tokens = len(ids)
        self.length = min(length, len(ids))

    @cached_property
    def asked(self) -> list[Batch]:
        """Every token once, for evaluation; the last window holds what is left over."""
        whole, left_over = divmod(self.tokens, self.length)
        starts_N = self.length * torch.arange(whole)
        with torch.inference_mode(False):  # a later caller may need gradients
            batches = [
                self._batch(starts_B, self.length)
                for starts_B in starts_N.split(max(1, EVALUATION_TOKENS // self.length))
            ]
            if left_over:
                batches.append(self._batch(torch.tensor([whole * self.length]), left_over))
        return batches

    def steps(
        self, seed: int, name: str, budget: Budget, start: int = 0
    ) -> Iterator[tuple[Batch, ...]]:
        """Epoch after epoch, each with its own order of windows and its own place for the first.

        That place is up to a window from the start of the stream, so that borders move; what lies
        before it and after the last whole window, less than two windows, is left out in that epoch.
        """
        count = max(1, self.tokens // self.length - 1)
        places = min(self.length, self.tokens - count * self.length + 1)
        part = max(1, budget.batch_tokens // self.length)
        steps = -(-count // (part * budget.micro_batches))
        epoch, first = divmod(start, steps)
        while True:
            generator = _generator(seed, name, epoch)
            place = int(generator.integers(places))
            starts_N = torch.from_numpy(place + self.length * generator.permutation(count))
            for starts_B in starts_N.split(part * budget.micro_batches)[first:]:
                yield tuple(self._batch(each_B, self.length) for each_B in starts_B.split(part))
            epoch, first = epoch + 1, 0

    def _batch(self, starts_B: Tensor, length: int) -> Batch:
        window_BT = self.stream_N[starts_B[:, None] + torch.arange(length + 1)]
        return Batch.shifted(window_BT.long())


def some(batches: Sequence[Batch], tokens: int) -> list[Batch]:
    """Every n-th example, so that about so many tokens are left, of all lengths."""
    whole = sum(x.numel() for b in batches for x in (b.inputs, b.source) if x is not None)
    every = max(1, whole // tokens)
    chosen, seen = [], 0
    for batch in batches:
        first = -seen % every
        if first < len(batch.labels):
            chosen.append(batch.map(lambda x, first=first: x[first::every]))  # type: ignore[misc]
        seen += len(batch.labels)
    return chosen
