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
    dot,
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
from model.init import logical_parameters
from model.mixers import MIXER, Context, Mixer
from model.mixers.attention import Attention, Scoring
from model.mixers.recurrences import scan
from model.positions import POSITION, Position

D, HEADS = 8, 2


def make(
    written: Any,
    causal: bool = True,
    cross: bool = False,
    layer: int = 0,
    position: Position | None = None,
    path: str = "explicit",
    scale: str = "sqrt_d_head",
    max_len: int = 64,
) -> Any:
    """The mixer, in double precision, with no weight of zero or one."""
    sizes = {"d_model": D, "n_heads": HEADS, "d_head": D // HEADS, "max_len": max_len}
    mask = MASK.build("infinity")
    scoring = Scoring(
        position or POSITION.build("none"),
        SCALE.build(scale, **sizes),
        SIMILARITY.build("dot"),
        PATH.build(path, mask=mask),
    )
    where = {"layer": layer, "causal": causal, "cross": cross}
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
    for causal in [True, False]:
        for layer in [None, 0, 1, 2]:
            for kernel in [1, 2, 3, 4]:
                written = {"name": "convolution", "kernel": kernel, "dilated": layer is not None}
                mixer = make(written, causal, layer=3 if layer is None else layer)
                dilation = 1 if layer is None else kernel**layer
                by_hand = partial(convolution_by_hand, mixer, causal=causal, dilation=dilation)
                check_by_hand(mixer, causal, by_hand)


def test_taps_are_never_further_apart_than_the_longest_sequence() -> None:
    mixer = make({"name": "convolution", "kernel": 3, "dilated": True}, layer=30, max_len=10)
    x = random(1, 10, D)
    assert_equals(
        run(mixer, x, causal=True)[0], convolution_by_hand(mixer, x[0].tolist(), True, 10)
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


@pytest.mark.parametrize("path", sorted(PATH.components))
def test_basic_attention_weighs_tokens_by_their_own_products(path: str) -> None:
    for causal in [True, False]:
        for scale, factor in [("none", 1.0), ("sqrt_d_head", (D // HEADS) ** -0.5)]:
            mixer = make("basic", causal, path=path, scale=scale)
            assert list(mixer.parameters()) == []

            def by_hand(x: Matrix, causal: bool = causal, factor: float = factor) -> Matrix:
                return attention(x, x, x, HEADS, lambda t, s: s <= t or not causal, factor)

            check_by_hand(mixer, causal, by_hand)


def test_basic_cross_attention_weighs_a_memory_by_its_own_products() -> None:
    mixer = make("basic", cross=True)
    x, memory = random(2, 3, D), random(2, 5, D, seed=2)
    context = Context(
        positions(3, x), causal=True, memory=memory, memory_lengths=torch.tensor([5, 2])
    )
    y, _ = mixer(x, context)
    for row, length in enumerate((5, 2)):
        m = memory[row, :length].tolist()
        assert_equals(y[row], attention(x[row].tolist(), m, m, HEADS, lambda t, s: True))
    stepped, _ = mixer(x, context, mixer.start(x[:, 0], 3, context))
    assert_equals(stepped, y)


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


# In a model.


def encoder(mixer: Any, **changes: Any) -> Any:
    written = {"name": "transformer", "kind": "encoder", "d_model": D, "n_heads": HEADS}
    return build({**written, "mixer": mixer, "position": "none", **changes}, 9, 9, seed=0)


def test_both_forms_start_with_the_same_weights_gate_by_gate() -> None:
    for name in STEPS:
        kernel, steps = (
            {n: view for n, view, _ in logical_parameters(encoder({"name": name, "form": form}))}
            for form in ("kernel", "steps")
        )
        assert kernel.keys() == steps.keys()
        assert all(torch.equal(kernel[n], steps[n]) for n in kernel)
        assert all(view.shape[0] == D // 2 for n, view in kernel.items() if ".mixer." in n)


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


D_MODEL, N_HEADS, D_HEAD = 8, 2, 3  # heads that do not fill the width
PATHS = pytest.mark.parametrize("path", ["explicit", "row", "loop", "fused"])


def attending(
    path: str,
    cross: bool = False,
    n_heads: int = N_HEADS,
    scale: str = "sqrt_d_head",
    similarity: str = "dot",
    mask: str = "infinity",
    **options: Any,
) -> Attention:
    sizes = {"d_model": D_MODEL, "n_heads": n_heads, "d_head": D_HEAD}
    scoring = Scoring(
        POSITION.build("none"),
        SCALE.build(scale, **sizes),
        SIMILARITY.build(similarity),
        PATH.build(path, mask=MASK.build(mask)),
    )
    given = {**sizes, "scoring": scoring, "cross": cross}
    return randomised(MIXER.build({"name": "attention", **options}, **given))


def by_hand(
    mixer: Attention,
    asking: Tensor,
    asked: Tensor,
    lengths: list[int],
    causal: bool,
    unit: bool = False,
    **formula: Any,
) -> list[Matrix]:
    """For each sequence: project, attend, project back. `lengths` are those of what is asked."""
    n_heads = mixer.n_kv_heads * mixer.group
    wide, narrow = n_heads * D_HEAD, mixer.n_kv_heads * D_HEAD
    weight, bias = affine(mixer.project)
    biases = bias or [0.0] * len(weight)
    if mixer.cross:
        more, more_bias = affine(mixer.project_memory)
        weight, biases = weight + more, biases + (more_bias or [0.0] * len(more))
    rows = [slice(0, wide), slice(wide, wide + narrow), slice(wide + narrow, wide + 2 * narrow)]
    answers = []
    for x, memory, length in zip(asking.tolist(), asked.tolist(), lengths, strict=True):
        q, k, v = (
            [linear(token, weight[part], biases[part]) for token in tokens]
            for part, tokens in zip(rows, (x, memory, memory), strict=True)
        )
        if unit:
            q, k = [unit_heads(token) for token in q], [unit_heads(token) for token in k]
        mixed = attention(
            q, k, v, n_heads, lambda t, s, n=length: s < n and (s <= t or not causal),
            n_kv_heads=mixer.n_kv_heads, **formula,
        )  # fmt: skip
        answers.append([linear(token, *affine(mixer.out)) for token in mixed])
    return answers


def unit_heads(token: Vector) -> Vector:
    heads = [token[at : at + D_HEAD] for at in range(0, len(token), D_HEAD)]
    return [v / math.sqrt(dot(head, head)) for head in heads for v in head]


@PATHS
def test_attention_is_softmax_of_scaled_scores_times_values(path: str) -> None:
    """Neighbouring heads of queries share a head of keys and values; padding has no weight."""
    x_BTD, memory_BSD, lengths = random(3, 5, D_MODEL), random(3, 4, D_MODEL, seed=2), [5, 2, 1]
    for n_kv_heads, bias in [(1, True), (2, False), (4, True)]:
        mixer = attending(path, n_heads=4, n_kv_heads=n_kv_heads, bias=bias)
        assert mixer.project.out_features == (4 + 2 * n_kv_heads) * D_HEAD
        past = Context(positions(5, x_BTD), causal=True)
        assert_equals(mixer(x_BTD, past)[0], by_hand(mixer, x_BTD, x_BTD, [5] * 3, causal=True))
        real = Context(positions(5, x_BTD), lengths=torch.tensor(lengths))
        assert_equals(mixer(x_BTD, real)[0], by_hand(mixer, x_BTD, x_BTD, lengths, causal=False))
        for memory in ([4] * 3, [4, 1, 3]):
            mixer = attending(path, cross=True, n_heads=4, n_kv_heads=n_kv_heads, bias=bias)
            read = Context(
                positions(5, x_BTD),
                causal=True,
                memory=memory_BSD,
                memory_lengths=torch.tensor(memory),
            )
            expected = by_hand(mixer, x_BTD, memory_BSD, memory, causal=False)
            assert_equals(mixer(x_BTD, read)[0], expected)


@PATHS
def test_the_cosine_counts_directions_alone(path: str) -> None:
    for cross in [False, True]:
        mixer = attending(path, cross=cross, similarity="cosine", scale="none")
        x_BTD, memory_BSD = random(2, 5, D_MODEL), random(2, 4, D_MODEL, seed=2)
        asked = memory_BSD if cross else x_BTD
        context = Context(positions(5, x_BTD), causal=True, memory=memory_BSD)
        expected = by_hand(
            mixer, x_BTD, asked, [asked.shape[1]] * 2, causal=not cross, unit=True, scale=1.0
        )
        assert_equals(mixer(x_BTD, context)[0], expected)


SCALES = {
    "sqrt_d_head": 1 / math.sqrt(D_HEAD),
    "sqrt_d_model": 1 / math.sqrt(D_MODEL),
    "linear": 1 / D_HEAD,
    "none": 1.0,
    "learned": [2.0, 0.3],  # each head's own
}


@pytest.mark.parametrize("name", sorted(SCALE.components))
def test_scores_are_multiplied_as_the_name_of_the_scale_says(name: str) -> None:
    for path in ["explicit", "fused"]:
        mixer, x_BTD, factor = attending(path, scale=name), random(2, 5, D_MODEL), SCALES[name]
        if isinstance(factor, list):
            mixer.scale.load_state_dict({"log": torch.tensor(factor, dtype=torch.float64).log()})
        y_BTD, _ = mixer(x_BTD, Context(positions(5, x_BTD)))
        assert_equals(y_BTD, by_hand(mixer, x_BTD, x_BTD, [5, 5], causal=False, scale=factor))


def test_a_learned_scale_starts_at_one_over_the_root_or_at_its_start() -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1}
    for scale, start in [("learned", 0.5), ({"name": "learned", "start": 3.0}, 3.0)]:
        model: Any = build({**choice, "scale": scale}, None, 9, seed=0)
        log_H = model.decoder.blocks[0].mixer.scale.log
        assert log_H.exp().tolist() == pytest.approx([start] * 2)


@pytest.mark.parametrize("path", ["explicit", "row", "loop"])
def test_the_zero_mask_gives_what_it_should_hide_a_score_of_zero(path: str) -> None:
    mixer = attending(path, mask="zero")
    x_BTD = random(2, 5, D_MODEL)
    y_BTD, _ = mixer(x_BTD, Context(positions(5, x_BTD), causal=True))
    assert_equals(y_BTD, by_hand(mixer, x_BTD, x_BTD, [5, 5], causal=True, hidden=0.0))


@PATHS
def test_a_bias_is_added_to_the_scaled_scores_of_what_is_neither_late_nor_padding(
    path: str,
) -> None:
    q, k, v = (random(1, 1, 4, D_HEAD, seed=seed) for seed in range(3))
    bias_HTS = random(1, 4, 4, seed=3)
    along = PATH.build(path, mask=MASK.build("infinity"))
    keep = torch.tensor([True, True, False, True])
    y, _ = along(q, k, v, 0.5, causal=True, keep_BHTS=keep[None, None, None], bias_BHTS=bias_HTS)
    scores = 0.5 * q @ k.transpose(-2, -1) + bias_HTS
    for t in range(4):
        seen = [s for s in range(t + 1) if keep[s]]
        weights = scores[0, 0, t, seen].softmax(dim=0)
        torch.testing.assert_close(y[0, 0, t], weights @ v[0, 0, seen])


def test_a_vector_without_a_direction_scores_zero_and_has_a_finite_gradient() -> None:
    cosine: Any = SIMILARITY.build("cosine")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        q, k = torch.zeros(1, 1, 2, 8, dtype=dtype), random(1, 1, 3, 8).to(dtype)
        compared_q, compared_k = cosine.compared(q.requires_grad_(), k)
        scores = compared_q @ compared_k.transpose(-2, -1)
        assert scores.tolist() == [[[[0.0] * 3] * 2]]
        (scores.square().sum() + scores.sum()).backward()
        assert q.grad is not None
        assert q.grad.isfinite().all()
