"""Every mixer but full attention: by hand, step by step, padded, and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from slow_formulas import (
    Matrix,
    Vector,
    affine,
    assert_equals,
    attention,
    calls,
    linear,
    random,
    randomised,
    sigmoid,
)
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from model.attention import MASK, PATH, SCALE, SIMILARITY
from model.batch import positions
from model.build import build
from model.mixers import MIXER, Context, Mixer
from model.mixers.attention import Scoring
from model.mixers.recurrences import scan
from model.positions import POSITION, Position

D, HEADS = 8, 2


def make(
    written: Any,
    causal: bool = True,
    layer: int = 0,
    position: Position | None = None,
    path: str = "explicit",
    max_len: int = 64,
) -> Any:
    """The mixer, in double precision, with no weight of zero or one."""
    sizes = {"d_model": D, "n_heads": HEADS, "d_head": D // HEADS, "max_len": max_len}
    mask = MASK.build("infinity")
    scoring = Scoring(
        position or POSITION.build("none"),
        SCALE.build("sqrt_d_head", **sizes),
        SIMILARITY.build("dot"),
        PATH.build(path, mask=mask),
    )
    where = {"layer": layer, "causal": causal, "cross": False}
    return randomised(MIXER.build(written, **sizes, **where, mask=mask, scoring=scoring))


def run(mixer: Mixer, x: Tensor, causal: bool, lengths: list[int] | None = None) -> Tensor:
    real = None if lengths is None else torch.tensor(lengths)
    y, state = mixer(x, Context(positions(x.shape[1], x), causal=causal, lengths=real))
    assert state is None
    return y


# What each mixer computes, one number at a time.


def window_by_hand(mixer: Any, x: Matrix, causal: bool) -> Matrix:
    projected = [linear(token, *affine(mixer.project)) for token in x]
    q, k, v = ([token[i : i + D] for token in projected] for i in (0, D, 2 * D))

    def sees(t: int, s: int) -> bool:
        return t - mixer.reach < s <= t if causal else abs(t - s) <= mixer.reach

    return [linear(y, *affine(mixer.out)) for y in attention(q, k, v, HEADS, sees)]


def convolution_by_hand(mixer: Any, x: Matrix, causal: bool, dilation: int) -> Matrix:
    weight, bias = affine(mixer.taps)
    kernel = len(weight[0]) // D
    own = kernel - 1 if causal else kernel // 2  # the tap that stands on the token itself
    answers = []
    for t in range(len(x)):
        answer = bias
        for tap in range(kernel):
            at = t + (tap - own) * dilation
            if 0 <= at < len(x):
                answer = linear(x[at], [row[tap * D : (tap + 1) * D] for row in weight], answer)
        answers.append(answer)
    return answers


def recurrence_by_hand(step: Callable[..., tuple[Vector, Vector]], layer: Any, x: Matrix) -> Matrix:
    """Each gate's W x + b and U h + c, one gate after the other, are what `step` is given."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    w, u, b, c = (getattr(layer, name).tolist() for name in names)
    size = len(u[0])
    hidden, cell = [0.0] * size, [0.0] * size
    answers = []
    for token in x:
        given, recalled = linear(token, w, b), linear(hidden, u, c)
        gates = [
            list(zip(given[i : i + size], recalled[i : i + size], strict=True))
            for i in range(0, len(w), size)
        ]
        hidden, cell = step(gates, hidden, cell)
        answers.append(hidden)
    return answers


def rnn_step(gates: Any, hidden: Vector, cell: Vector) -> tuple[Vector, Vector]:
    return [math.tanh(a + b) for a, b in gates[0]], cell


def gru_step(gates: Any, hidden: Vector, cell: Vector) -> tuple[Vector, Vector]:
    new = []
    for (ra, rb), (za, zb), (na, nb), h in zip(*gates, hidden, strict=True):
        stays = sigmoid(za + zb)
        new.append((1 - stays) * math.tanh(na + sigmoid(ra + rb) * nb) + stays * h)
    return new, cell


def lstm_step(gates: Any, hidden: Vector, cell: Vector) -> tuple[Vector, Vector]:
    shown, kept = [], []
    for (ia, ib), (fa, fb), (ga, gb), (oa, ob), c in zip(*gates, cell, strict=True):
        kept.append(sigmoid(fa + fb) * c + sigmoid(ia + ib) * math.tanh(ga + gb))
        shown.append(sigmoid(oa + ob) * math.tanh(kept[-1]))
    return shown, kept


def mingru_by_hand(layer: Any, x: Matrix) -> Matrix:
    size = layer.hidden_size
    hidden, answers = [0.0] * size, []
    for token in x:
        both = linear(token, *affine(layer.gates))
        gate = [sigmoid(value) for value in both[:size]]
        hidden = [(1 - z) * h + z * n for z, h, n in zip(gate, hidden, both[size:], strict=True)]
        answers.append(hidden)
    return answers


def both_ways(layer: Callable[[Any, Matrix], Matrix], mixer: Any, causal: bool, x: Matrix) -> Any:
    ahead = layer(mixer.ahead, x)
    if causal:
        return ahead
    back = layer(mixer.back, x[::-1])[::-1]
    return [a + b for a, b in zip(ahead, back, strict=True)]


def check_by_hand(mixer: Mixer, causal: bool, by_hand: Callable[[Matrix], Matrix]) -> None:
    """On a padded batch: each sequence is what the formula makes of its real tokens."""
    x, lengths = random(3, 7, D), [7, 1, 4]
    y = run(mixer, x, causal, lengths)
    for tokens, answer, length in zip(x, y, lengths, strict=True):
        assert_equals(answer[:length], by_hand(tokens[:length].tolist()))


def test_a_window_is_attention_to_the_neighbours_within_reach() -> None:
    for causal in [True, False]:
        for reach in [1, 2, 3, 6, 7, 20]:
            mixer = make({"name": "window", "reach": reach})
            check_by_hand(mixer, causal, partial(window_by_hand, mixer, causal=causal))


def test_a_convolution_sums_what_its_taps_read() -> None:
    """Taps are never further apart than the longest sequence."""
    for causal in [True, False]:
        for layer in [None, 0, 1, 2, 30]:
            for kernel in [1, 2, 3, 4]:
                written = {"name": "convolution", "kernel": kernel, "dilated": layer is not None}
                mixer = make(written, causal, layer=3 if layer is None else layer, max_len=20)
                dilation = 1 if layer is None else min(kernel**layer, 20)
                by_hand = partial(convolution_by_hand, mixer, causal=causal, dilation=dilation)
                check_by_hand(mixer, causal, by_hand)
            assert_equals(
                run(mixer, random(1, 21, D), causal)[0],
                by_hand(random(1, 21, D)[0].tolist()),
            )


STEPS = {"rnn": rnn_step, "gru": gru_step, "lstm": lstm_step}


def test_a_recurrent_mixer_is_its_equations() -> None:
    layers = {name: partial(recurrence_by_hand, step) for name, step in STEPS.items()}
    choices = [({"name": name, "form": form}, layers[name])
               for name in STEPS for form in ("kernel", "steps")]  # fmt: skip
    for written, layer in [*choices, ({"name": "mingru"}, mingru_by_hand)]:
        for causal in [True, False]:
            mixer = make(written, causal)
            check_by_hand(mixer, causal, partial(both_ways, layer, mixer, causal))


# Windows against full attention, and states against one pass.


class Banded(Position):
    """A scheme, and −∞ on what stands out of a window's reach."""

    def __init__(self, scheme: Position, reach: int, causal: bool) -> None:
        super().__init__()
        self.scheme, self.reach, self.causal = scheme, reach, causal

    def rotate(self, q: Tensor, k: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        return self.scheme.rotate(q, k, at)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        before = queries[:, None] - keys
        near = (before >= 0) & (before < self.reach) if self.causal else before.abs() <= self.reach
        band = torch.zeros(HEADS, *near.shape, dtype=torch.float64).masked_fill(~near, -math.inf)
        bias = self.scheme.bias(queries, keys)
        return band if bias is None else band + bias

    def score(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        return self.scheme.score(q, queries, keys)


class Absolute(Position):
    """A bias and scores that depend on where both stand, not only on how far apart."""

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        assert len(queries) > 0
        assert queries.min() >= 0
        assert keys.min() >= 0
        assert (keys.diff() == 1).all()
        heads = torch.arange(1, HEADS + 1)[:, None, None]
        return torch.sin(heads * (queries[:, None] * 1.7 + keys * keys * 0.9).double())

    def score(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        return q.sum(-1, keepdim=True) * torch.cos(queries[:, None] * 0.7 + keys * 1.3).double()


def scheme(name: str, causal: bool) -> Position:
    if name == "absolute":
        return Absolute()
    sizes = {"d_model": D, "n_heads": HEADS, "d_head": D // HEADS, "max_len": 64, "depth": 2}
    return POSITION.build(name, causal=causal, dropout=0.0, **sizes)


def stepped(mixer: Any, x: Tensor, sizes: list[int]) -> Tensor:
    state = mixer.start(x[:, 0], x.shape[1], Context(positions(0, x)))
    answers, start = [], 0
    for chunk in x.split(sizes, dim=1):
        at = positions(chunk.shape[1], x, start)
        y, state = mixer(chunk, Context(at, start, causal=True), state)
        answers.append(y)
        start += chunk.shape[1]
    return torch.cat(answers, dim=1)


CHUNKS = ([1] * 11, [2, 1, 5, 3], [7, 4])


@pytest.mark.parametrize("name", ["absolute", *sorted(POSITION.components)])
def test_a_window_asks_every_position_scheme_what_full_attention_asks(name: str) -> None:
    for causal in [True, False]:
        position = scheme(name, causal)
        for reach, length in ((1, 5), (2, 9), (4, 9), (5, 11), (3, 2)):
            window = make({"name": "window", "reach": reach}, position=position)
            full = make("attention", position=Banded(position, reach, causal))
            full.load_state_dict(window.state_dict(), strict=False)
            x, lengths = random(2, length, D), [length, 2]
            y, z = (run(mixer, x, causal, lengths) for mixer in (full, window))
            for row, real in enumerate(lengths):
                assert_equals(z[row, :real], y[row, :real])
    for path in ["explicit", "fused"]:
        for reach in (1, 3, 4):
            mixer = make({"name": "window", "reach": reach}, position=scheme(name, True), path=path)
            x = random(2, 11, D)
            for sizes in CHUNKS:
                assert_equals(stepped(mixer, x, sizes), run(mixer, x, causal=True))


def flops(mixer: Mixer, length: int) -> int:
    x = torch.empty(1, length, D, dtype=torch.float64, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        mixer.to("meta")(x, Context(positions(length, x), causal=True))
    return counter.get_total_flops()


def test_the_work_of_a_window_doubles_with_the_length() -> None:
    for path, name in [("explicit", "shaw"), ("fused", "none"), ("fused", "t5")]:
        window = make({"name": "window", "reach": 16}, path=path, position=scheme(name, True))
        counts = [flops(window, length) for length in (128, 256, 512)]
        assert [b / a for a, b in pairwise(counts)] == [2, 2]
        full = make("attention", path=path)
        assert flops(full, 512) / flops(full, 256) > 3.5


def test_the_rounds_of_a_scan_grow_as_the_logarithm_of_the_length() -> None:
    counts = [
        calls(lambda n=length: scan(random(1, n, 2), random(1, n, 2))) for length in (8, 64, 512)
    ]
    assert counts[2] - counts[1] == counts[1] - counts[0]


def test_a_mingru_in_single_precision_stays_with_the_loop_over_512_tokens() -> None:
    for loudness in [1.0, 30.0]:
        mixer = make("mingru")
        with torch.no_grad():
            mixer.ahead.gates.weight[:D] *= loudness
        x = random(1, 512, D)
        loop = torch.tensor(mingru_by_hand(mixer.ahead, x[0].tolist()))
        y = run(mixer.float(), x.float().requires_grad_(), causal=True)
        torch.testing.assert_close(y[0].detach(), loop.float(), rtol=1e-4, atol=1e-4)
        y.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())


def cross(mixer: Any) -> dict[str, Any]:
    """The shapes of the attention that reads the memory beside this mixer."""
    written = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "depth": 2}
    with torch.device("meta"):
        model: Any = build({**written, "mixer": mixer}, 9, 9, seed=None)
    return {name: w.shape for name, w in model.decoder.blocks[1].cross.named_parameters()}


def test_an_option_reaches_cross_attention_where_that_has_the_same() -> None:
    plain, both = cross("attention"), {"n_kv_heads": 2, "bias": False}
    for mixer, reaching in [
        ({"name": "attention", **both}, both),
        ({"name": "window", "reach": 3, **both}, both),
        ({"name": "convolution", "kernel": 5, "dilated": True, "bias": False}, {"bias": False}),
        ({"name": "lstm", "form": "steps", "forget_bias": 1.0}, {}),
    ]:
        assert cross(mixer) == cross({"name": "attention", **reaching})
        assert (cross(mixer) != plain) == bool(reaching)
