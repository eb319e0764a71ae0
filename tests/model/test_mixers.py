"""Every mixer but full attention: by hand, step by step, padded, and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from given_weights import watched
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from model.attention import MASK, PATH, SIMILARITY
from model.batch import Batch, positions
from model.build import build
from model.config import ConfigError
from model.initialise import logical_parameters
from model.mixer import MIXER, Context, Mixer
from model.mixer.recurrent import scan
from model.positions import POSITION, Position
from model.scale import SCALE

D, HEADS = 8, 2
Vector = list[float]
Matrix = list[Vector]
few = settings(max_examples=15)


def make(
    written: Any,
    causal: bool = True,
    cross: bool = False,
    layer: int = 0,
    position: Position | None = None,
    random: bool = True,
    **changes: Any,
) -> Any:
    """The mixer, in double precision, with no weight of zero or one."""
    names = {"path": "explicit", "scale": "sqrt_d_head", "similarity": "dot", "mask": "infinity"}
    sizes = {"d_model": D, "n_heads": HEADS, "max_len": 64, "attention_dropout": 0.0}
    sizes |= {key: value for key, value in changes.items() if key not in names}
    sizes = {"d_head": sizes["d_model"] // sizes["n_heads"], **sizes}
    names |= {key: value for key, value in changes.items() if key in names}
    mask = MASK.build(names["mask"])
    parts = {
        "mask": mask,
        "path": PATH.build(names["path"], mask=mask),
        "scale": SCALE.build(names["scale"], **sizes),
        "similarity": SIMILARITY.build(names["similarity"], **sizes),
        "position": position or POSITION.build("none"),
    }
    mixer = MIXER.build(written, **sizes, **parts, layer=layer, causal=causal, cross=cross)
    return randomised(mixer) if random else mixer


def randomised(module: nn.Module) -> Any:
    generator = torch.Generator().manual_seed(0)
    module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn * 0.5)
    return module


def noise(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def run(mixer: Mixer, x: Tensor, causal: bool, lengths: list[int] | None = None) -> Tensor:
    real = None if lengths is None else torch.tensor(lengths)
    y, state = mixer(x, Context(positions(x.shape[1], x), causal=causal, lengths=real))
    assert state is None
    return y


def assert_same(actual: Tensor, expected: Any, tolerance: float = 1e-9) -> None:
    if not isinstance(expected, Tensor):
        expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.detach(), expected.detach(), rtol=tolerance, atol=tolerance)


# What each mixer computes, one number at a time.


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def affine(x: Vector, weight: Matrix, bias: Vector) -> Vector:
    return [dot(row, x) + b for row, b in zip(weight, bias, strict=True)]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def attend(
    q: Matrix, k: Matrix, v: Matrix, heads: int, sees: Callable[[int, int], bool], scale: float
) -> Matrix:
    width = len(q[0]) // heads
    answers = []
    for t, query in enumerate(q):
        answer: Vector = []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            seen = [s for s in range(len(k)) if sees(t, s)]
            powers = [math.exp(scale * dot(query[part], k[s][part])) for s in seen]
            for column in range(head * width, (head + 1) * width):
                mixed = sum(p * v[s][column] for p, s in zip(powers, seen, strict=True))
                answer.append(mixed / sum(powers))
        answers.append(answer)
    return answers


def window_by_hand(mixer: Any, x: Matrix, causal: bool) -> Matrix:
    weight, bias = mixer.project.weight.tolist(), mixer.project.bias.tolist()
    q, k, v = (
        [affine(token, weight[i : i + D], bias[i : i + D]) for token in x] for i in (0, D, 2 * D)
    )
    reach = mixer.reach

    def sees(t: int, s: int) -> bool:
        return t - reach < s <= t if causal else t - reach <= s <= t + reach

    mixed = attend(q, k, v, HEADS, sees, (D // HEADS) ** -0.5)
    return [affine(y, mixer.out.weight.tolist(), mixer.out.bias.tolist()) for y in mixed]


def convolution_by_hand(mixer: Any, x: Matrix, causal: bool, dilation: int) -> Matrix:
    weight, bias = mixer.taps.weight.tolist(), mixer.taps.bias.tolist()
    kernel = len(weight[0]) // D
    own = kernel - 1 if causal else kernel // 2  # the tap that stands on the token itself
    answers = []
    for t in range(len(x)):
        answer = list(bias)
        for tap in range(kernel):
            at = t + (tap - own) * dilation
            if 0 <= at < len(x):
                rows = [row[tap * D : (tap + 1) * D] for row in weight]
                answer = affine(x[at], rows, answer)
        answers.append(answer)
    return answers


def recurrence_by_hand(layer: Any, x: Matrix, step: Callable[..., tuple[Vector, Vector]]) -> Matrix:
    """Each gate's W x + b and U h + c, one gate after the other, are what `step` is given."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    w, u, b, c = (getattr(layer, name).tolist() for name in names)
    size = len(u[0])
    hidden, cell = [0.0] * size, [0.0] * size
    answers = []
    for token in x:
        given, recalled = affine(token, w, b), affine(hidden, u, c)
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
    weight, bias = layer.gates.weight.tolist(), layer.gates.bias.tolist()
    size = len(weight) // 2
    hidden, answers = [0.0] * size, []
    for token in x:
        both = affine(token, weight, bias)
        gate = [sigmoid(value) for value in both[:size]]
        hidden = [(1 - z) * h + z * n for z, h, n in zip(gate, hidden, both[size:], strict=True)]
        answers.append(hidden)
    return answers


def both_ways(layer: Callable[[Any, Matrix], Matrix], mixer: Any, x: Matrix, causal: bool) -> Any:
    ahead = layer(mixer.ahead, x)
    if causal:
        return ahead
    back = layer(mixer.back, x[::-1])[::-1]
    return [a + b for a, b in zip(ahead, back, strict=True)]


def check_by_hand(mixer: Mixer, causal: bool, by_hand: Callable[[Matrix], Matrix]) -> None:
    """On a padded batch: each sequence is what the formula makes of its real tokens."""
    x, lengths = noise(3, 7, D), [7, 1, 4]
    y = run(mixer, x, causal, lengths)
    for tokens, answer, length in zip(x, y, lengths, strict=True):
        assert_same(answer[:length], by_hand(tokens[:length].tolist()))


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


STEPS = {"rnn": rnn_step, "gru": gru_step, "lstm": lstm_step}


@pytest.mark.parametrize("name", STEPS)
def test_a_recurrent_mixer_is_its_equations(name: str) -> None:
    for causal in [True, False]:
        for form in ["kernel", "steps"]:
            mixer = make({"name": name, "form": form}, causal)

            def layer(weights: Any, x: Matrix) -> Matrix:
                return recurrence_by_hand(weights, x, STEPS[name])

            check_by_hand(mixer, causal, partial(both_ways, layer, mixer, causal=causal))


def test_a_mingru_is_its_equations() -> None:
    for causal in [True, False]:
        mixer = make("mingru", causal)
        check_by_hand(mixer, causal, partial(both_ways, mingru_by_hand, mixer, causal=causal))


@pytest.mark.parametrize("path", sorted(PATH.parts))
def test_basic_attention_weighs_tokens_by_their_own_products(path: str) -> None:
    for causal in [True, False]:
        for scale in ["none", "sqrt_d_head"]:
            mixer = make("basic", causal, path=path, scale=scale)
            assert list(mixer.parameters()) == []
            factor = 1.0 if scale == "none" else (D // HEADS) ** -0.5

            def by_hand(x: Matrix, causal: bool = causal, factor: float = factor) -> Matrix:
                return attend(x, x, x, HEADS, lambda t, s: s <= t or not causal, factor)

            check_by_hand(mixer, causal, by_hand)


def test_basic_cross_attention_weighs_a_memory_by_its_own_products() -> None:
    mixer = make("basic", cross=True)
    x, memory = noise(2, 3, D), noise(2, 5, D, seed=2)
    context = Context(
        positions(3, x), causal=True, memory=memory, memory_lengths=torch.tensor([5, 2])
    )
    y, _ = mixer(x, context)
    for row, length in enumerate((5, 2)):
        m = memory[row, :length].tolist()
        by_hand = attend(x[row].tolist(), m, m, HEADS, lambda t, s: True, (D // HEADS) ** -0.5)
        assert_same(y[row], by_hand)
    stepped, _ = mixer(x, context, mixer.start(x[:, 0], 3, context))
    assert_same(stepped, y)


# Windows against full attention.


def copied(source: nn.Module, target: nn.Module) -> Any:
    target.load_state_dict(source.state_dict())
    return target


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


@pytest.mark.parametrize("name", ["absolute", *sorted(POSITION.parts)])
def test_a_window_asks_every_position_scheme_what_full_attention_asks(name: str) -> None:
    for causal in [True, False]:
        position = scheme(name, causal)
        for reach, length in ((1, 5), (2, 9), (4, 9), (5, 10), (3, 2)):
            window = make({"name": "window", "reach": reach}, position=position)
            full = make("attention", position=Banded(position, reach, causal))
            for part in ("project", "out"):
                copied(getattr(window, part), getattr(full, part))
            x, lengths = noise(2, length, D), [length, 2]
            y, z = (run(mixer, x, causal, lengths) for mixer in (full, window))
            for row, real in enumerate(lengths):
                assert_same(z[row, :real], y[row, :real])


def test_a_stepping_window_shows_weights_over_all_that_was_seen() -> None:
    window, x = make({"name": "window", "reach": 3}), noise(1, 7, D)
    shown = watched(window)
    window(x, Context(positions(7, x), causal=True))
    (whole,) = shown
    state = window.start(x[:, 0], 7, Context(positions(0, x)))
    for start, end in ((0, 5), (5, 6), (6, 7)):
        at = positions(end - start, x, start)
        _, state = window(x[:, start:end], Context(at, start, True), state)
        assert_same(shown[-1], whole[:, :, start:end, :end])


def test_blocks_of_padding_are_finite_and_so_are_gradients() -> None:
    for causal in [True, False]:
        for path in sorted(PATH.parts):
            mixer = make(
                {"name": "window", "reach": 2}, path=path, position=scheme("absolute", causal)
            )
            x = noise(2, 13, D).requires_grad_()
            y = run(mixer, x, causal, [13, 1])
            assert y.isfinite().all()
            y.square().sum().backward()
            for tensor in (x, *mixer.parameters()):
                assert tensor.grad is not None
                assert tensor.grad.isfinite().all()


def flops(mixer: Mixer, length: int, causal: bool) -> int:
    mixer.to("meta")
    x = torch.empty(1, length, D, dtype=torch.float64, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        mixer(x, Context(positions(length, x), causal=causal))
    return counter.get_total_flops()


def test_the_work_of_a_window_doubles_with_the_length() -> None:
    for causal in [True, False]:
        for path in ["explicit", "fused"]:
            for name in ["none", "shaw", "t5"]:
                window = make(
                    {"name": "window", "reach": 16}, path=path, position=scheme(name, causal)
                )
                counts = [flops(window, length, causal) for length in (128, 256, 512)]
                assert [b / a for a, b in pairwise(counts)] == [2, 2]
                full = make("attention", path=path)
                counts = [flops(full, length, causal) for length in (128, 256, 512)]
                assert counts[2] / counts[1] > 3.5


# The scan.


def longest_chain(y: Tensor) -> int:
    """Products and sums from the first input to the answer, in the graph that autograd keeps."""
    depths: dict[Any, int] = {None: 0}
    stack = [y.grad_fn]
    while stack:
        node = stack[-1]
        before = [parent for parent, _ in node.next_functions]
        waiting = [parent for parent in before if parent not in depths]
        if waiting:
            stack += waiting
            continue
        counts = "Mul" in node.name() or "Add" in node.name()
        depths[stack.pop()] = counts + max((depths[parent] for parent in before), default=0)
    return depths[y.grad_fn]


def test_a_scan_is_as_deep_as_the_logarithm_of_the_length() -> None:
    chains = []
    for length in (8, 64, 512):
        keep, add = noise(1, length, 2).requires_grad_(), noise(1, length, 2)
        chains.append(longest_chain(scan(keep, add)))
    assert [b - a for a, b in pairwise(chains)] == [chains[0], chains[0]]
    assert chains[0] <= 2 * 3


def test_a_mingru_in_single_precision_stays_with_the_loop_over_512_tokens() -> None:
    for loudness in [1.0, 30.0]:
        mixer = make("mingru")
        with torch.no_grad():
            mixer.ahead.gates.weight[:D] *= loudness
        x = noise(1, 512, D)
        loop = torch.tensor(mingru_by_hand(mixer.ahead, x[0].tolist()))
        y = run(mixer.float(), x.float().requires_grad_(), causal=True)
        assert_same(y[0], loop.float(), 1e-4)
        y.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in mixer.parameters())


# What holds for every mixer.


@dataclass(frozen=True)
class Case:
    written: Any
    layer: int = 0

    def make(self, causal: bool) -> Any:
        return make(self.written, causal, layer=self.layer)

    def __str__(self) -> str:
        return "-".join([*map(str, self.written.values()), str(self.layer)])


CASES = [
    Case({"name": "window", "reach": 1}),
    Case({"name": "window", "reach": 2}),
    Case({"name": "window", "reach": 5, "n_kv_heads": 1}),
    Case({"name": "basic"}),
    Case({"name": "convolution", "kernel": 1}),
    Case({"name": "convolution", "kernel": 3}),
    Case({"name": "convolution", "kernel": 2, "dilated": True}, layer=2),
    *(Case({"name": name, "form": form}) for name in STEPS for form in ("kernel", "steps")),
    Case({"name": "mingru"}),
]
EVERY = pytest.mark.parametrize("case", CASES, ids=str)


def stepped(mixer: Any, x: Tensor, sizes: list[int]) -> Tensor:
    state = mixer.start(x[:, 0], x.shape[1], Context(positions(0, x)))
    answers, start = [], 0
    for chunk in x.split(sizes, dim=1):
        at = positions(chunk.shape[1], x, start)
        y, state = mixer(chunk, Context(at, start, causal=True), state)
        answers.append(y)
        start += chunk.shape[1]
    return torch.cat(answers, dim=1)


@EVERY
@few
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_steps_and_chunks_give_what_one_pass_gives(case: Case, sizes: list[int]) -> None:
    mixer, x = case.make(causal=True), noise(2, sum(sizes), D)
    whole = run(mixer, x, causal=True)
    assert_same(stepped(mixer, x, sizes), whole)
    assert_same(stepped(mixer, x, [1] * sum(sizes)), whole)


@pytest.mark.parametrize("name", ["absolute", *sorted(POSITION.parts)])
def test_a_stepping_window_knows_where_it_stands(name: str) -> None:
    for path in ["explicit", "fused"]:
        for reach in (1, 3, 4):
            position = scheme(name, causal=True)
            mixer = make({"name": "window", "reach": reach}, position=position, path=path)
            x = noise(2, 11, D)
            whole = run(mixer, x, causal=True)
            for sizes in ([1] * 11, [2, 1, 5, 3], [7, 4]):
                assert_same(stepped(mixer, x, sizes), whole)


@EVERY
def test_neither_padding_nor_neighbours_in_the_batch_change_an_answer(case: Case) -> None:
    for causal in [True, False]:
        mixer, lengths = case.make(causal), [6, 1, 4, 9]
        x = noise(4, 9, D)
        y = run(mixer, x, causal, lengths)
        real = torch.arange(9) < torch.tensor(lengths)[:, None]
        louder = torch.where(real[..., None], x, 50 * noise(4, 9, D, seed=3))
        longer = torch.cat((louder, noise(4, 7, D, seed=4)), dim=1)
        for padded in (louder, longer):
            for row, length in enumerate(lengths):
                again = run(mixer, padded, causal, lengths)[row, :length]
                assert_same(again, y[row, :length])
        for row, length in enumerate(lengths):
            assert_same(run(mixer, x[row : row + 1, :length], causal)[0], y[row, :length])


def sees(mixer: Mixer, length: int, causal: bool) -> Tensor:
    """T S: whether the answer at one position moves with the input at another."""
    x = noise(1, length, D).requires_grad_()
    y = run(mixer, x, causal)
    rows = []
    for t in range(length):
        (slope,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        rows.append(slope[0].abs().sum(-1) > 0)
    return torch.stack(rows)


@EVERY
def test_a_mixer_that_is_not_causal_sees_both_sides(case: Case) -> None:
    seen = sees(case.make(causal=False), 8, causal=False)
    assert seen.diagonal().all()
    if case != CASES[4]:
        assert seen.tril(-1).any()
    if case not in (CASES[4], CASES[6]):  # an even kernel leans to the left; two taps see only it
        assert seen.triu(1).any()


def test_dilated_layers_see_a_power_of_the_kernel_each_place_by_one_way() -> None:
    for causal in [True, False]:
        for kernel in [2, 3]:
            written = {"name": "convolution", "kernel": kernel, "dilated": True}
            ways = torch.eye(60, dtype=torch.long)
            for layer in range(3):
                ways = sees(make(written, causal, layer=layer), 60, causal).long() @ ways
            left = kernel**3 - 1 if causal else kernel // 2 * (1 + kernel + kernel**2)
            expected = [30 - left <= place < 30 - left + kernel**3 for place in range(60)]
            assert ways[30].tolist() == expected


def test_taps_are_never_further_apart_than_the_longest_sequence() -> None:
    mixer = make({"name": "convolution", "kernel": 3, "dilated": True}, layer=30, max_len=10)
    x = noise(1, 10, D)
    assert_same(run(mixer, x, causal=True)[0], convolution_by_hand(mixer, x[0].tolist(), True, 10))


def test_a_bad_option_is_refused_by_its_name() -> None:
    for written, changes, field in [
        ({"name": "window", "reach": 0}, {}, "reach=0"),
        ({"name": "window", "n_kv_heads": 3}, {}, "n_kv_heads=3"),
        ("window", {"mask": "zero"}, "mask"),
        ("basic", {"d_head": 3}, "d_head=3"),
        ({"name": "convolution", "kernel": 0}, {}, "kernel=0"),
        *((name, {"d_model": 7, "n_heads": 1}, "d_model=7") for name in (*STEPS, "mingru")),
        ({"name": "gru", "form": "loop"}, {}, "form"),
    ]:
        with pytest.raises(ConfigError, match=field):
            make(written, causal=False, **changes)


# In a model.


def encoder(mixer: Any, **changes: Any) -> Any:
    written = {"name": "transformer", "kind": "encoder", "d_model": D, "n_heads": HEADS}
    return build({**written, "mixer": mixer, "position": "none", **changes}, 9, 9, seed=0)


def test_without_a_mixer_no_token_learns_of_another() -> None:
    model = randomised(encoder("none"))
    source = torch.tensor([[3, 4, 5, 6]])
    before = model(Batch(labels=source, source=source))
    for changed in range(4):
        other = source.clone()
        other[0, changed] = 7
        after = model(Batch(labels=source, source=other))
        same = torch.tensor([place != changed for place in range(4)])
        assert_same(after[0, same], before[0, same], 0.0)
        assert (after[0, changed] - before[0, changed]).abs().max() > 1e-3


def test_without_a_mixer_the_block_has_no_norm_for_it() -> None:
    for residual, fewer in [("pre", 1), ("post", 1), ("sandwich", 2), ("parallel", 0), ("none", 1)]:
        basic, none = (encoder(mixer, residual=residual).encoder for mixer in ("basic", "none"))
        for with_mixer, without in zip(basic.blocks, none.blocks, strict=True):
            assert len(with_mixer.residual.norms) - len(without.residual.norms) == fewer
            assert without.mixers == []


def test_a_window_starts_with_the_weights_of_full_attention() -> None:
    full, window = (
        {name: view for name, view, _ in logical_parameters(encoder(name))}
        for name in ("attention", "window")
    )
    assert full.keys() == window.keys()
    assert all(torch.equal(full[name], window[name]) for name in full)


def test_both_forms_start_with_the_same_weights_gate_by_gate() -> None:
    for name in STEPS:
        kernel, steps = (
            {n: view for n, view, _ in logical_parameters(encoder({"name": name, "form": form}))}
            for form in ("kernel", "steps")
        )
        assert kernel.keys() == steps.keys()
        assert all(torch.equal(kernel[n], steps[n]) for n in kernel)
        assert all(view.shape[0] == D // 2 for n, view in kernel.items() if ".mixer." in n)
