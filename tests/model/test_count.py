"""Costs against counts on paper."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from model.build import build
from model.count import flops_per_token, parameters

D, HEADS, D_HEAD, DEPTH, V, S_V = 12, 2, 5, 3, 9, 11
W, F = HEADS * D_HEAD, 4 * D
NORM = 2 * D
SELF = (D * W + W) * 3 + (W * D + D)
FEED = (D * F + F) + (F * D + D)
LSTM = {"name": "recurrent", "d_model": 8, "depth": 2}


def transformer(**changes: Any) -> dict[str, Any]:
    sizes = {"d_model": D, "n_heads": HEADS, "d_head": D_HEAD, "depth": DEPTH, "max_len": 16}
    return {"name": "transformer", **sizes, **changes}


def on_meta(choice: dict[str, Any], source_size: int | None) -> torch.nn.Module:
    with torch.device("meta"):
        return build(choice, source_size, V, seed=None)


def test_a_decoder_has_the_parameters_of_its_matrices() -> None:
    by_hand = V * D + DEPTH * (SELF + FEED + 2 * NORM) + NORM + (D * V + V)
    assert parameters(on_meta(transformer(), None)) == by_hand


def test_a_tied_weight_counts_once() -> None:
    by_hand = V * D + DEPTH * (SELF + FEED + 2 * NORM) + NORM + V  # the output's bias is its own
    assert parameters(on_meta(transformer(tied="output"), None)) == by_hand


def test_an_encoder_decoder_has_a_second_stack_and_crosses_to_it() -> None:
    encoder = S_V * D + DEPTH * (SELF + FEED + 2 * NORM) + NORM
    decoder = V * D + DEPTH * (2 * SELF + FEED + 3 * NORM) + NORM
    built = on_meta(transformer(kind="encoder_decoder"), S_V)
    assert parameters(built) == encoder + decoder + D * V + V


def test_a_learned_position_adds_one_table_to_each_stack_and_post_norm_drops_the_last_norm() -> (
    None
):
    kind = "encoder_decoder"
    plain = parameters(on_meta(transformer(kind=kind), S_V))
    learned = parameters(on_meta(transformer(kind=kind, position="learned"), S_V))
    post = parameters(on_meta(transformer(kind=kind, residual="post"), S_V))
    assert learned - plain == 2 * 16 * D
    assert plain - post == 2 * NORM


def lstm_size(d_in: int, d_hidden: int) -> int:
    return 4 * (d_hidden * d_in + d_hidden * d_hidden + 2 * d_hidden)


def test_a_recurrent_model_has_the_parameters_of_its_gates() -> None:
    encoder = S_V * 8 + 2 * 2 * lstm_size(8, 4)
    decoder = V * 8 + 2 * lstm_size(8, 8)
    bridges = 2 * (8 * 16 + 16)  # hidden and cell of each layer
    by_hand = encoder + bridges + decoder + (16 * 8 + 8) + (8 * V + V)
    assert parameters(on_meta(LSTM, S_V)) == by_hand


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_a_decoder_costs_its_matrix_products_and_full_attention(path: str) -> None:
    length = 7
    products = 3 * D * W + W * D + 2 * D * F  # multiply-adds for each token
    mixing = 2 * length * W  # scores and values
    by_hand = 2 * (DEPTH * (products + mixing) + D * V)
    assert flops_per_token(on_meta(transformer(path=path), None), None, length) == by_hand


def test_an_encoder_decoder_costs_both_stacks_over_all_tokens() -> None:
    n, m = 7, 4  # target and source tokens
    around = W * D + 2 * D * F
    encoder = m * (3 * D * W + 2 * m * W + around)
    decoder = n * (3 * D * W + 2 * n * W + around) + n * (2 * D * W + 2 * m * W) + m * 2 * D * W
    by_hand = 2 * (DEPTH * (encoder + decoder) + n * D * V) / (n + m)
    counted = flops_per_token(on_meta(transformer(kind="encoder_decoder"), S_V), m, n)
    assert counted == pytest.approx(by_hand, rel=1e-12)


def test_a_recurrent_model_costs_its_gates_and_its_attention() -> None:
    n, m = 7, 4
    encoder = m * 2 * 2 * 4 * (8 * 4 + 4 * 4)  # layers, directions, gates
    decoder = n * 2 * 4 * (8 * 8 + 8 * 8)
    attention = n * 2 * m * 8
    bridges = 2 * 8 * 16  # once for each sequence
    by_hand = 2 * (encoder + bridges + decoder + attention + n * (16 * 8 + 8 * V)) / (n + m)
    assert flops_per_token(on_meta(LSTM, S_V), m, n) == pytest.approx(by_hand, rel=1e-12)


def test_counting_on_the_meta_device_allocates_no_weights() -> None:
    big = on_meta(transformer(d_model=4096, n_heads=32, d_head=128, depth=2), None)
    assert all(parameter.is_meta for parameter in big.parameters())
    assert flops_per_token(big, None, 2048) > 1e8
