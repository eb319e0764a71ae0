"""What an output depends on: toys whose dependence is known, then models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import Tensor

from ablations.probes.dependence import (
    Future,
    Mixing,
    Permutation,
    future_gap,
    mixing_gap,
    others,
    permutation_gap,
)
from model.batch import BOS

CPU = torch.device("cpu")
ROUNDING, SEEN = 1e-12, 1e-3


def read(probe: Any, config: dict[str, Any], task: Any = TEXT) -> float:
    (measurement,) = probe().measure(config, task, CPU).measurements
    return float(measurement.value)


def encoder(**changes: Any) -> dict[str, Any]:
    return transformer(**{"kind": "encoder", "position": {"name": "none"}, "depth": 2, **changes})


# Toys: a token is a number, and so is the answer at it.

X = torch.tensor([[3, 5, 2, 9]])
OTHER = torch.tensor([[4, 8, 3, 2]])  # by 1, 3, 1 and −7


def itself(x_BT: Tensor) -> Tensor:
    return x_BT[..., None].double()


def summed(x_BT: Tensor) -> Tensor:
    """The sum of all up to here."""
    return itself(x_BT).cumsum(1)


def one_ahead(x_BT: Tensor) -> Tensor:
    return itself(x_BT).roll(-1, 1)


def placed(x_BT: Tensor) -> Tensor:
    """A token and a quarter for each place before it."""
    return itself(x_BT) + torch.arange(x_BT.shape[1])[:, None] / 4


def test_what_knows_its_place_is_off_by_how_far_it_was_moved() -> None:
    order = torch.tensor([3, 1, 0, 2])  # the last comes first, three places away
    assert permutation_gap(placed, X, order) == 3 / 4
    assert permutation_gap(placed, X, torch.arange(4)) == 0


def test_a_leak_of_the_future_is_as_large_as_the_change_of_what_leaks() -> None:
    assert future_gap(itself, X, OTHER) == future_gap(summed, X, OTHER) == 0
    assert future_gap(one_ahead, X, OTHER) == 7
    assert future_gap(lambda x: itself(x).flip(1), X, OTHER) == 7  # the first reads the last


def test_a_token_mixes_with_others_by_as_much_as_they_change_its_answer() -> None:
    assert mixing_gap(itself, X, OTHER) == mixing_gap(placed, X, OTHER) == 0
    assert mixing_gap(one_ahead, X, OTHER) == 7
    assert mixing_gap(summed, X, OTHER) == 1 + 3 + 1  # at the last, of the three before it


def test_every_other_token_is_another_token_of_the_vocabulary() -> None:
    draw = torch.Generator().manual_seed(0)
    for size in (3, 4, 13):
        x_1T = torch.randint(BOS, size, (1, 200), generator=draw)
        other_1T = others(x_1T, size, draw)
        assert (x_1T != other_1T).all()
        assert set(other_1T.unique().tolist()) == set(range(BOS, size))


# Models.


def test_an_encoder_is_blind_to_order_without_positions_and_without_a_mask() -> None:
    assert read(Permutation, encoder(), PAIRS) < ROUNDING
    assert read(Permutation, encoder(position={"name": "sinusoidal"}), PAIRS) > SEEN
    assert read(Permutation, encoder(position={"name": "alibi"}), PAIRS) > SEEN
    assert read(Permutation, encoder(causal_encoder=True), PAIRS) > SEEN
    assert read(Permutation, encoder(mixer={"name": "lstm"}), PAIRS) > SEEN


@pytest.mark.parametrize(("kind", "task"), [("decoder", TEXT), ("encoder_decoder", PAIRS)])
def test_minus_infinity_hides_the_future_and_zero_does_not(kind: str, task: Any) -> None:
    assert read(Future, transformer(kind=kind), task) < ROUNDING
    assert read(Future, transformer(kind=kind, mask={"name": "zero"}), task) > SEEN
    assert read(Future, transformer(kind=kind, causal_decoder=False), task) > SEEN


@pytest.mark.parametrize(
    ("mixer", "mixes"),
    [
        ({"name": "none"}, False),
        ({"name": "convolution", "kernel": 1}, False),  # a token, and no neighbour
        ({"name": "attention"}, True),
        ({"name": "rnn"}, True),
    ],
    ids=str,
)
def test_tokens_mix_in_the_mixer_alone(mixer: Any, mixes: bool) -> None:
    for kind, task in (("decoder", TEXT), ("encoder", PAIRS)):
        gap = read(Mixing, transformer(mixer, kind=kind, depth=2), task)
        assert gap > SEEN if mixes else gap < ROUNDING
