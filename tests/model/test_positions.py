"""Every position scheme against its formula, and what sets the schemes apart."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import pytest
import torch
from slow_formulas import assert_equals as assert_near
from slow_formulas import random as drawn
from slow_formulas import randomised as moved
from slow_formulas import sinusoid
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from model.batch import Batch
from model.build import build
from model.mixers import MIXER, Context
from model.positions import POSITION


def test_past_its_last_position_a_scheme_says_what_to_do_or_goes_on() -> None:
    for name in POSITION.components:
        model, given = whole(name, max_len=6, depth=1), tokens(1, 7)
        if name not in ("learned", "binary"):
            assert model(Batch(labels=given, inputs=given)).isfinite().all()
            continue
        _, decoding = model.step(given[:, :6], model.begin(1, 9, None, None))
        for past in (
            lambda model=model, given=given: model(Batch(labels=given, inputs=given)),
            lambda model=model, given=given, after=decoding: model.step(given[:, 6:], after),
        ):
            with pytest.raises(ValueError, match="asked for 7: the model needs max_len=7"):
                past()


SIZES = {"d_model": 16, "n_heads": 2, "depth": 3, "max_len": 32}
RELATIVE: list[Any] = [
    *("none", "rotary", "alibi", {"name": "shaw", "clip": 3}, {"name": "shaw", "shared": True}),
    {"name": "rotary", "pairing": "neighbours"},
    {"name": "rotary", "fraction": 0.5, "theta": 100.0},
    {"name": "t5", "n_buckets": 8, "max_distance": 6},
    {"name": "t5", "shared": False},
]


def whole(choice: Any, kind: str = "decoder", **changes: Any) -> Any:
    written = {"name": "transformer", "kind": kind, **SIZES, "position": choice, **changes}
    return moved(build(written, 11 if "encoder" in kind else None, 9, seed=0))


def tokens(count: int, length: int) -> Tensor:
    return torch.randint(3, 9, (count, length), generator=torch.Generator().manual_seed(1))


# At the input.

AT = [0, 1, 6, 19, 31]
APPENDED = {"join": "concat"}
BY_HAND: list[tuple[dict[str, Any], Callable[[int], list[float]]]] = [
    ({"name": "index"}, lambda p: [p / 32]),
    ({"name": "index", "scale": False}, lambda p: [p]),
    ({"name": "index", **APPENDED}, lambda p: [p / 32]),
    ({"name": "binary"}, lambda p: [int(digit) for digit in f"{p:05b}"]),
    ({"name": "binary", **APPENDED}, lambda p: [int(digit) for digit in f"{p:05b}"]),
    ({"name": "sinusoidal"}, lambda p: sinusoid(p, 16)),
    ({"name": "sinusoidal", **APPENDED}, lambda p: sinusoid(p, 4)),
    ({"name": "sinusoidal", **APPENDED, "width": 5}, lambda p: sinusoid(p, 5)),
    ({"name": "sinusoidal", "base": 50.0}, lambda p: sinusoid(p, 16, 50.0)),
]


def test_positions_are_added_as_the_formula_says() -> None:
    for choice, formula in BY_HAND:
        scheme = POSITION.build(choice, **SIZES)
        x_BTD = drawn(2, len(AT), 16 - scheme.width)
        for row, vectors in zip(scheme.embed(x_BTD, torch.tensor(AT)), x_BTD.tolist(), strict=True):
            for answer, vector, position in zip(row, vectors, AT, strict=True):
                place = formula(position)
                both = [v + p for v, p in zip_longest(vector, place, fillvalue=0.0)]
                assert_near(answer, vector + place if "join" in choice else both)


def test_a_sinusoid_keeps_the_phase_of_far_positions_in_single_precision() -> None:
    scheme = POSITION.build("sinusoidal", d_model=7)
    far = scheme.embed(torch.zeros(1, 1, 7), torch.tensor([1_000_003]))[0, 0]
    exact = torch.tensor(sinusoid(1_000_003, 7), dtype=torch.float32)
    torch.testing.assert_close(far, exact, rtol=1e-6, atol=1e-6)


def test_learned_takes_the_row_of_its_table() -> None:
    for options in [{}, {"join": "concat", "width": 3}]:
        scheme = moved(POSITION.build({"name": "learned", **options}, **SIZES))
        rows = scheme.table.weight[AT]
        x_BTD = drawn(2, len(AT), 16 - scheme.width)
        told = torch.stack([torch.cat((x, rows), -1) if scheme.width else x + rows for x in x_BTD])
        assert_near(scheme.embed(x_BTD, torch.tensor(AT)), told)


def test_at_every_layer_means_before_every_block() -> None:
    for name in ["sinusoidal", "learned", "index", "binary"]:
        model = whole({"name": name, "every_layer": True}, embedding_scale=False)
        stack, given, at = model.decoder, tokens(2, 6), torch.arange(6)
        context = Context(at, causal=True)
        told_TD = stack.embedding.position.embed(torch.zeros(1, 6, 16).double(), at)[0]
        x_BTD = stack.embedding.tokens(given)
        for block in stack.blocks:
            x_BTD, _ = block(x_BTD + told_TD, context)
        assert_near(stack(given, context)[0], stack.norm(x_BTD))


# Queries and keys.


def test_rotary_turns_each_pair_by_its_own_angle() -> None:
    for pairing in ["halves", "neighbours"]:
        for fraction in [1.0, 0.75, 0.25]:
            choice = {"name": "rotary", "pairing": pairing, "fraction": fraction, "theta": 500.0}
            scheme, width = POSITION.build(choice, d_head=8), int(8 * fraction)
            q, k, at = drawn(2, 4, 5, 8), drawn(2, 2, 5, 8, seed=1), [0, 1, 2, 7, 4000]
            for before, after in zip((q, k), scheme.rotate(q, k, torch.tensor(at)), strict=True):
                expected = before.clone()
                for b, h, t in torch.cartesian_prod(*map(torch.arange, before.shape[:3])).tolist():
                    for i in range(width // 2):
                        pair = (i, i + width // 2) if pairing == "halves" else (2 * i, 2 * i + 1)
                        number = complex(*(before[b, h, t, d].item() for d in pair))
                        turned = number * cmath.exp(1j * at[t] * 500.0 ** (-2 * i / width))
                        for d, part in zip(pair, (turned.real, turned.imag), strict=True):
                            expected[b, h, t, d] = part
                assert_near(after, expected)


def test_rotary_keeps_the_phase_of_far_positions_in_single_precision() -> None:
    scheme, at = POSITION.build("rotary", d_head=8), torch.tensor([1_000_003])
    q = drawn(1, 1, 1, 8)
    exact, _ = scheme.rotate(q, q, at)
    single, _ = scheme.rotate(q.float(), q.float(), at)
    torch.testing.assert_close(single.double(), exact, rtol=1e-6, atol=1e-6)


# Scores.


SLOPES: dict[int, list[float]] = {
    8: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256],
    6: [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8],
    1: [1 / 256],
    12: [*(2.0**-n for n in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


def test_alibi_falls_with_the_distance_on_both_sides_by_the_slopes_of_the_paper() -> None:
    queries, keys = [3, 4, 9], [0, 3, 5, 12]
    for n_heads, slopes in SLOPES.items():
        scheme = POSITION.build("alibi", n_heads=n_heads).double()
        expected = [[[-slope * abs(i - j) for j in keys] for i in queries] for slope in slopes]
        assert_near(scheme.bias(torch.tensor(queries), torch.tensor(keys)), expected)


def test_attention_with_shaw_is_attention_to_keys_plus_a_vector() -> None:
    for path, causal in [("explicit", True), ("explicit", False), ("fused", True)]:
        mixer = whole({"name": "shaw", "clip": 3}, path=path).decoder.blocks[0].mixer
        x_BTD = drawn(1, 6, 16)
        q, k, v = ([p[0, t].view(2, 8) for t in range(6)] for p in mixer.project(x_BTD))
        rows = []
        for t in range(6):
            heads = []
            for h in range(2):
                seen = range(t + 1 if causal else 6)
                vectors = [mixer.position.table.weight[max(-3, min(3, s - t)) + 3] for s in seen]
                scores = [q[t][h] @ (k[s][h] + vectors[s]) / math.sqrt(8) for s in seen]
                total = sum(score.exp() for score in scores)
                heads.append(sum(score.exp() / total * v[s][h] for s, score in enumerate(scores)))
            rows.append(mixer.out(torch.cat(heads)))
        y_BTD, _ = mixer(x_BTD, Context(torch.arange(6), causal=causal))
        assert_near(y_BTD[0], torch.stack(rows).detach())


def test_layers_share_a_table_or_have_their_own() -> None:
    for name in ["t5", "shaw"]:
        for shared, count in ((True, 1), (False, 3)):
            stack = whole({"name": name, "shared": shared}).decoder
            assert len({id(block.mixer.position.table.weight) for block in stack.blocks}) == count


def test_a_fixed_bias_stays_on_the_fast_kernel() -> None:
    model, given = whole("alibi").float(), tokens(2, 6)
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert model(Batch(labels=given, inputs=given)).isfinite().all()


# Whole models.


def answers_when_shifted(choice: Any, *shifts: int) -> list[Tensor]:
    """What the decoder's stack says when every token stands so much further on."""
    stack, given = whole(choice).decoder, tokens(2, 8)
    contexts = [Context(torch.arange(8) + shift, causal=True) for shift in shifts]
    return [stack(given, context)[0].detach() for context in contexts]


def test_relative_schemes_do_not_see_a_shift() -> None:
    for choice in RELATIVE:
        here, near, far = answers_when_shifted(choice, 0, 1, 1000)
        assert_near(near, here)
        assert_near(far, here)


SEES_ORDER = {"window", "convolution", "rnn", "gru", "lstm", "mingru"}


def test_a_permutation_of_the_source_permutes_the_memory_unless_something_sees_order() -> None:
    """With one of these mixers or any scheme; the order is neither turned nor shifted."""
    order = torch.tensor([2, 0, 3, 1, 4])
    source = torch.tensor([[3, 4, 5, 6, 7]])
    for position, mixer in [
        *(("none", name) for name in MIXER.components),
        *((name, "attention") for name in POSITION.components),
    ]:
        written = {"name": "window", "reach": 2} if mixer == "window" else mixer
        model = whole(position, "encoder_decoder", mixer=written)
        memory, moved_memory = (model.encode(each, None) for each in (source, source[:, order]))
        distance = (moved_memory - memory[:, order]).abs().max()
        sees = position != "none" or mixer in SEES_ORDER
        assert distance > 1e-6 if sees else distance < 1e-9, (position, mixer)
