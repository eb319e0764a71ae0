"""Batches of like length: what an epoch holds, what a step is made of, what decides the order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ablations.tasks import batching
from ablations.tasks.batching import Padded
from ablations.tasks.g2p import G2P
from ablations.tasks.task import Budget
from model.batch import BOS, EOS, IGNORE, PAD, Batch


def test_seed_name_and_epoch_decide_the_order_and_each_changes_it(some: Padded) -> None:
    def order(seed: int, name: str) -> list[int]:
        steps = islice(some.steps(seed, name, Budget(300, 2)), 240)
        return [row for step in steps for batch in rows(step) for row in batch]

    first = order(1, "g2p")
    assert order(1, "g2p") == first
    for other in (order(2, "g2p"), order(1, "text"), first[2000:]):
        assert sum(a == b for a, b in zip(first, other, strict=False)) < 0.05 * len(other)


FIRST = EOS + 1
Steps = Iterator[tuple[Batch, ...]]


def made(lengths: list[tuple[int, int]], has_source: bool = True) -> Padded:
    """Examples of given source and target length, each with a first token of its own."""
    targets = [
        [BOS, index + FIRST, *[FIRST] * (target - 1), EOS]
        for index, (_, target) in enumerate(lengths)
    ]
    sources = [
        [index + FIRST, *[FIRST] * (source - 1), EOS] for index, (source, _) in enumerate(lengths)
    ]
    return Padded(sources if has_source else None, targets)


def rows(step: tuple[Batch, ...]) -> list[list[int]]:
    """Which examples are in each batch of a step."""
    return [(batch.labels[:, 0] - FIRST).tolist() for batch in step]


def epoch(steps: Steps, size: int) -> list[tuple[Batch, ...]]:
    """Steps until so many examples have come."""
    taken: list[tuple[Batch, ...]] = []
    count = 0
    while count < size:
        taken.append(next(steps))
        count += sum(map(len, rows(taken[-1])))
    assert count == size, "an epoch ends where a step ends"
    return taken


@pytest.fixture(scope="module")
def words() -> Padded:
    return G2P(G2P.Config(valid_words=10, test_words=10)).pairs("train")


@pytest.fixture(scope="module")
def some() -> Padded:
    draw = random.Random(0)
    return made([(draw.randint(1, 15), draw.randint(1, 15)) for _ in range(2000)])


LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=60)
BUDGETS = st.builds(Budget, tokens=st.integers(1, 400), micro_batches=st.integers(1, 5))


@given(LENGTHS, BUDGETS, st.booleans())
def test_every_example_comes_once_an_epoch(
    lengths: list[tuple[int, int]], budget: Budget, has_source: bool
) -> None:
    steps = made(lengths, has_source).steps(0, "any", budget)
    for _ in range(3):
        seen = [row for step in epoch(steps, len(lengths)) for batch in rows(step) for row in batch]
        assert sorted(seen) == list(range(len(lengths)))


@pytest.mark.parametrize("budget", [Budget(2100, 2), Budget(4200, 4)], ids=str)
def test_less_than_a_twentieth_of_a_step_is_padding_and_it_goes_from_short_to_long(
    words: Padded, budget: Budget
) -> None:
    real = held = 0
    for step in islice(words.steps(0, "g2p", budget), 300):
        assert len(step) == budget.micro_batches
        lengths = [(batch.source != PAD).sum(dim=1) for batch in step]
        assert all(shorter.max() <= longer.min() for shorter, longer in pairwise(lengths))
        assert budget.micro_batches < 4 or lengths[0].max() < lengths[-1].min()
        for batch in step:
            # Not inputs != PAD: the EOS of a shorter word stands there and is padding too.
            real += int((batch.source != PAD).sum()) + batch.tokens
            held += batch.source.numel() + batch.labels.numel()
    assert 1 - real / held < 0.05
    assert held / 300 == pytest.approx(budget.tokens, rel=0.05)


@given(LENGTHS, st.integers(1, 400))
def test_by_length_has_every_row_once_from_short_to_long(
    lengths: list[tuple[int, int]], tokens: int
) -> None:
    batches = made(lengths).by_length(tokens)
    order = [row for rows_B in batches for row in rows_B.tolist()]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[row][0] for row in order] == sorted(source for source, _ in lengths)


@given(LENGTHS, BUDGETS, st.booleans())
def test_a_batch_holds_its_examples_and_lengths_only_where_something_is_padded(
    lengths: list[tuple[int, int]], budget: Budget, has_source: bool
) -> None:
    for step in epoch(made(lengths, has_source).steps(0, "any", budget), len(lengths)):
        for batch, chosen in zip(step, rows(step), strict=True):
            sides = [(batch.inputs, batch.lengths, [lengths[row][1] + 1 for row in chosen])]
            if has_source:
                real = [lengths[row][0] + 1 for row in chosen]
                sides.append((batch.source, batch.source_lengths, real))
            else:
                assert batch.source is batch.source_lengths is None
            for tokens, said, real in sides:
                assert tokens.shape == (len(chosen), max(real))
                assert (said is None) == (len(set(real)) == 1)
                assert said is None or said.tolist() == real
            read = cast(Tensor, batch.inputs).tolist()
            for row, labels, inputs in zip(chosen, batch.labels.tolist(), read, strict=True):
                asked = [row + FIRST, *[FIRST] * (lengths[row][1] - 1), EOS]
                assert labels == asked + [IGNORE] * (len(labels) - len(asked))
                assert inputs[: len(asked)] == [BOS, *asked[:-1]]


def test_evaluation_batches_made_in_inference_mode_serve_a_backward_pass() -> None:
    padded = made([(2, 3), (3, 2)])
    with torch.inference_mode():
        ((_, batch),) = padded.asked
    assert batch.source is not None
    torch.nn.Embedding(9, 2)(batch.source).sum().backward()


def test_a_vocabulary_of_more_than_a_byte_keeps_its_ids() -> None:
    pairs = Padded([[70_000, EOS], [3, EOS]], [[BOS, 255, EOS], [BOS, 256, 257, EOS]])
    batch = pairs.batch(torch.tensor([0, 1]))
    assert batch.source.tolist() == [[70_000, EOS], [3, EOS]]
    assert batch.labels.tolist() == [[255, EOS, IGNORE], [256, 257, EOS]]
    assert batch.labels.dtype == batch.source.dtype == torch.int64


def test_every_so_many_th_example_is_read_whatever_the_batches() -> None:
    rows = torch.arange(30)[:, None].expand(30, 4)
    whole = [Batch(rows[a:b], inputs=rows[a:b]) for a, b in ((0, 7), (7, 9), (9, 30))]
    assert sum(batch.tokens for batch in batching.some(whole, 1000)) == 120
    chosen = torch.cat([batch.labels[:, 0] for batch in batching.some(whole, 40)])
    assert chosen.tolist() == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]
