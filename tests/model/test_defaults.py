"""What a part does if nobody says otherwise, shown by what it does.

A default decides what a variant's bare name means: each is held against a formula of its own, so
that another default makes a test fail.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from given_weights import random, randomised, watched
from slow_formulas import gelu, sinusoid
from torch import Tensor

from model.batch import Batch
from model.build import build
from model.feedforward import FEEDFORWARD
from model.initialise import INITIAL
from model.norm import NORM
from model.positions import POSITION
from model.scale import SCALE

D_HEAD, N_HEADS, D = 8, 8, 64
FAR = torch.tensor([0, 1, 2, 7, 100, 5000])


def made(**changes: Any) -> Any:
    """Three layers in double precision, every weight random."""
    sizes = {"d_model": 8, "n_heads": 2, "depth": 3, "max_len": 128, "position": "none"}
    return randomised(build({"name": "transformer", **sizes, **changes}, 9, 9, seed=None))


def assert_close(actual: Tensor, expected: Any) -> None:
    truth = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.detach().double(), truth, rtol=1e-9, atol=1e-9)


def turned(vector: list[float], position: int) -> list[float]:
    """Dimension i and the one half a head further on turn by position / 10000^(2i / d_head)."""
    half = len(vector) // 2
    first, second = [], []
    for i in range(half):
        angle = position / 10_000 ** (2 * i / len(vector))
        a, b = vector[i], vector[i + half]
        first.append(a * math.cos(angle) - b * math.sin(angle))
        second.append(b * math.cos(angle) + a * math.sin(angle))
    return first + second


def test_rotary_turns_halves_of_the_whole_head_with_a_base_of_ten_thousand() -> None:
    q = random(1, 1, len(FAR), D_HEAD)
    rotated, _ = POSITION.build("rotary", d_head=D_HEAD).rotate(q, q, FAR)
    expected = [turned(q[0, 0, row].tolist(), at) for row, at in enumerate(FAR.tolist())]
    assert_close(rotated[0, 0], expected)


def test_sinusoids_have_a_base_of_ten_thousand_and_are_added_once_before_the_first_block() -> None:
    position = POSITION.build("sinusoidal", d_model=D)
    told = position.embed(torch.ones(1, len(FAR), D, dtype=torch.float64), FAR)
    expected = [[1 + number for number in sinusoid(at, D, 10_000.0)] for at in FAR.tolist()]
    assert_close(told[0], expected)
    assert not position.every_layer


def test_an_index_is_a_share_of_the_longest_length_in_one_dimension() -> None:
    told = POSITION.build("index", d_model=3, max_len=50).embed(
        torch.zeros(1, 2, 3, dtype=torch.float64), torch.tensor([1, 40])
    )
    assert_close(told[0], [[0.02, 0, 0], [0.8, 0, 0]])


def test_alibi_slopes_are_halved_from_head_to_head() -> None:
    """Eight heads: 1/2, 1/4 … 1/256 (Press et al. 2022)."""
    bias = POSITION.build("alibi", n_heads=N_HEADS).bias(torch.tensor([9]), torch.tensor([9, 4]))
    assert_close(bias[:, 0], [[0.0, -5 * 0.5 ** (head + 1)] for head in range(N_HEADS)])


def original_bucket(distance: int, causal: bool) -> int:
    """As T5's own code has it: 32 buckets, all alike from 128 on; half are the future's."""
    buckets, first = 32, 0
    back = -distance
    if causal:
        back = max(back, 0)
    else:
        buckets = 16
        if back < 0:
            first = 16
        back = abs(back)
    exact = buckets // 2
    if back < exact:
        return first + back
    log = exact + int(math.log(back / exact) / math.log(128 / exact) * (buckets - exact))
    return first + min(log, buckets - 1)


@pytest.mark.parametrize("causal", [True, False])
def test_t5_has_32_buckets_up_to_128_and_splits_them_where_it_sees_both_sides(
    causal: bool,
) -> None:
    position = POSITION.build("t5", n_heads=1, causal=causal)
    with torch.no_grad():
        position.table.weight.copy_(torch.arange(32.0)[:, None])  # a bucket is worth its number
    keys = torch.arange(600)
    bias = position.bias(torch.tensor([300]), keys)[0, 0]
    assert_close(bias, [float(original_bucket(key - 300, causal)) for key in keys.tolist()])


@pytest.mark.parametrize(("name", "is_one"), [("t5", True), ("shaw", False)])
def test_layers_share_t5s_table_and_have_shaws_vectors_each(name: str, is_one: bool) -> None:
    blocks = made(position=name).decoder.blocks
    tables = {block.mixer.position.table for block in blocks}
    assert len(tables) == (1 if is_one else len(blocks))


def test_shaws_distances_end_at_16() -> None:
    position = randomised(POSITION.build("shaw", d_head=D_HEAD))
    q = random(1, 1, 1, D_HEAD)
    scores = position.score(q, torch.tensor([50]), torch.arange(100))[0, 0, 0]
    rows = [min(max(key - 50, -16), 16) + 16 for key in range(100)]
    assert len(position.table.weight) == 33
    assert_close(scores, (position.table.weight[rows] @ q[0, 0, 0]).tolist())


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_window_reaches_sixteen(kind: str) -> None:
    """Causal: itself and fifteen before it; otherwise itself and sixteen to each side."""
    model = made(kind=kind, mixer="window", path="explicit")
    stack = model.decoder or model.encoder
    shown = watched(stack.blocks[0].mixer)
    tokens = torch.ones(1, 60, dtype=torch.long)
    model(Batch(tokens, tokens, source=tokens))
    seen = (shown[0][0, 0] > 0).tolist()
    before, after = (15, 0) if kind == "decoder" else (16, 16)
    assert seen == [[-before <= s - t <= after for s in range(60)] for t in range(60)]


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_convolution_has_three_taps_side_by_side_in_every_layer(kind: str) -> None:
    """Causal: two before and the token itself; otherwise one to each side."""
    model = made(kind=kind, mixer="convolution", residual="none", norm="none", feedforward="none")
    stack = model.decoder or model.encoder
    tokens = torch.ones(1, 20, dtype=torch.long)
    given: list[Tensor] = []
    stack.embedding.register_forward_hook(
        lambda _, __, x: given.append(x.detach().requires_grad_()) or given[-1]
    )
    logits = model(Batch(tokens, tokens, source=tokens))
    (grad,) = torch.autograd.grad(logits[0, 10].sum(), given[0])
    read = [at for at in range(20) if grad[0, at].any()]
    before, after = (6, 0) if kind == "decoder" else (3, 3)  # three layers, one step apart each
    assert read == list(range(10 - before, 10 + after + 1))


@pytest.mark.parametrize(("name", "eps"), [("layer", 1e-5), ("rms", 1e-6)])
def test_a_norm_of_something_tiny_shows_its_epsilon(name: str, eps: float) -> None:
    norm = randomised(NORM.build(name, d_model=4))
    torch.nn.init.ones_(norm.weight)
    if name == "layer":
        torch.nn.init.zeros_(norm.bias)
    x = [0.001, -0.001, 0.001, -0.001]  # of mean zero, and mean square one millionth
    size = math.sqrt(1e-6 + eps)
    assert_close(norm(torch.tensor([x], dtype=torch.float64))[0], [value / size for value in x])


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_a_norm_has_a_gain_and_only_the_layer_norm_a_bias(name: str) -> None:
    names = {key for key, _ in NORM.build(name, d_model=4).named_parameters()}
    assert names == ({"weight", "bias"} if name == "layer" else {"weight"})


@pytest.mark.parametrize("name", ["linear", "relu", "gelu", "swiglu", "geglu"])
def test_a_feedforward_is_four_times_as_wide_with_biases(name: str) -> None:
    part = FEEDFORWARD.build(name, d_model=6, feedforward_dropout=0.0)
    assert part.down.weight.shape == (6, 24)
    assert part.down.bias is not None
    assert (part.up if hasattr(part, "up") else part.into).bias is not None


def test_gelu_is_the_exact_one() -> None:
    part = FEEDFORWARD.build("gelu", d_model=6, feedforward_dropout=0.0)
    x = [-3.0, -1.0, -0.1, 0.5, 2.0]
    assert_close(part.activation(torch.tensor(x, dtype=torch.float64)), [gelu(v) for v in x])


def test_a_learned_scale_starts_at_one_over_the_root_of_the_head() -> None:
    model = build({"name": "transformer", "d_model": 32, "scale": "learned"}, None, 9, seed=0)
    scale = model.decoder.blocks[0].mixer.scale
    torch.testing.assert_close(scale.log.exp(), torch.full((4,), 8**-0.5))
    assert len(SCALE.build("learned", n_heads=3, d_head=4).log) == 3


def test_normal_first_values_deviate_by_two_hundredths() -> None:
    values = INITIAL.build("normal").weight((300, 300), torch.Generator().manual_seed(0))
    assert values.std().item() == pytest.approx(0.02, rel=0.01)


def test_attention_has_biases_and_keys_for_every_head() -> None:
    mixer = made().decoder.blocks[0].mixer
    assert mixer.project.weight.shape == (24, 8)
    assert mixer.project.bias is not None
    assert mixer.out.bias is not None
