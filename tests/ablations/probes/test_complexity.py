"""What a layer costs on paper: work by hand, steps that wait for one another, paths by search.

n: positions, d: d_model, k: kernel.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from child_jobs import MIB, peak_of_allocating
from small_models import PAIRS, TEXT, transformer
from torch import Tensor, nn

from ablations.benchmarks.child import in_child
from ablations.benchmarks.throughput import mixer_of
from ablations.measurement import untrained
from ablations.probes import complexity, share
from ablations.probes.complexity import LAYER, MODEL, Memory, longest_path, operations, saved_bytes
from ablations.probes.share import Presets, Share
from ablations.store.record import Measurement
from model import presets
from model.build import build
from model.feedforward import FEEDFORWARD
from model.flops import count
from model.mixers import Context, Mixer


def test_paths_are_those_of_the_papers() -> None:
    for n in (2, 9, 16, 30):
        assert longest_path(config("attention"), TEXT, n) == 1
        assert longest_path(config("rnn"), TEXT, n) == n
        assert longest_path(config("lstm", form="kernel"), TEXT, n) == n
    for kernel, n in [(2, 8), (2, 9), (3, 9), (3, 10), (5, 28)]:  # dilated: the logarithm
        logarithm = next(power for power in range(n) if kernel**power >= n)
        assert longest_path(config("convolution", kernel=kernel), TEXT, n) == logarithm
    for reach, n in [(2, 8), (5, 9), (5, 16), (8, 22)]:  # further with each layer
        found = longest_path(config("window", reach=reach), TEXT, n)
        assert found == math.ceil((n - 1) / (reach - 1))


REACH = 8
LAYERS: dict[str, dict[str, Any]] = {
    "attention": {"name": "attention"},
    "window": {"name": "window", "reach": REACH},
    "convolution": {"name": "convolution", "kernel": 3, "dilated": True},
    "rnn": {"name": "rnn", "form": "steps"},
    "gru": {"name": "gru", "form": "steps"},
    "lstm": {"name": "lstm", "form": "steps"},
}


def config(name: str, d: int = 16, **changes: Any) -> dict[str, Any]:
    return transformer({**LAYERS[name], **changes}, d_model=d, max_len=2048)


# Work: a multiply and an add for each entry of a product.

BY_HAND: dict[str, Callable[[int, int], tuple[int, int]]] = {
    # scores and mixture: n² products of d numbers each; queries, keys, values, answer: d × d
    "attention": lambda n, d: (2 * 2 * n * n * d, 4 * 2 * n * d * d),
    # a block of `reach` queries meets its own keys and the reach − 1 before them
    "window": lambda n, d: (2 * 2 * n * (2 * REACH - 1) * d, 4 * 2 * n * d * d),
    "convolution": lambda n, d: (2 * n * 3 * d * d, 0),
    "rnn": lambda n, d: (2 * n * (d * d + d * d), 0),  # W x and U h
    "gru": lambda n, d: (3 * 2 * n * (d * d + d * d), 0),
    "lstm": lambda n, d: (4 * 2 * n * (d * d + d * d), 0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_work_of_a_layer_is_what_it_is_by_hand(name: str) -> None:
    for n, d in ((64, 16), (128, 48)):
        with torch.device("meta"):
            model = build(config(name, d)["model"], None, TEXT.target_size, 0)
        flops = count(model, None, n).flops
        assert (flops["mixing"], flops["projections"]) == BY_HAND[name](n, d)


# Steps that wait for one another.


class Chain(Mixer):
    """Two additions that wait for one another and one that does not; a view moves nothing."""

    def forward(self, x_BTD: Tensor, context: Context, state: Any = None) -> tuple[Tensor, None]:
        left = (x_BTD + 1) + 1
        right = x_BTD + 1
        return left.transpose(1, 2).transpose(1, 2) * right, None


def test_steps_of_a_chain_are_what_they_are_by_hand() -> None:
    assert operations(Chain(), width=4, length=6) == (3, [])


def steps(name: str, n: int, **changes: Any) -> int:
    return operations(mixer_of(untrained(config(name, **changes), TEXT)), 16, n)[0]


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_the_steps_of_a_loop_grow_with_the_length(name: str) -> None:
    """Each position adds as many, and at least a product, a sum and a bend."""
    few, some, many = (steps(name, n) for n in (32, 64, 128))
    assert many - some == 2 * (some - few)
    assert (some - few) % 32 == 0
    assert some - few >= 3 * 32
    assert many / some == pytest.approx(2, abs=0.03)


# Paths, beside a search that knows no Jacobian.


CPU = torch.device("cpu")


class Small(nn.Module):
    """x W, its square and, through a view of it, its exponential."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 5))
        self.register_buffer("shift", torch.ones(5))

    def forward(self, batch: Any) -> Tensor:
        x_T3 = torch.ones(batch.inputs.shape[1], 3)
        y_T5 = x_T3 @ self.weight  # keeps x and the weight
        square_T5 = y_T5 * y_T5  # keeps y, named twice
        return square_T5.sum() + (y_T5.view(-1).exp() * self.shift[0]).sum()  # keeps exp y


@pytest.mark.parametrize("length", [4, 7])
def test_each_storage_counts_once_and_weights_do_not(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr("ablations.measurement.build", lambda *_: Small())
    floats = length * 3 + length * 5 + length * 5
    assert saved_bytes(MODEL, transformer(), TEXT, CPU, length) == 4 * floats


@pytest.mark.parametrize(("kernel", "length"), [(1, 32), (3, 32), (3, 64)])
def test_a_convolution_keeps_its_padded_input_and_no_more(kernel: int, length: int) -> None:
    config = transformer({"name": "convolution", "kernel": kernel, "bias": False}, d_model=8)
    assert saved_bytes(LAYER, config, TEXT, CPU, length) == 4 * (length + kernel - 1) * 8


@pytest.mark.parametrize("of", [LAYER, MODEL])
def test_the_peak_is_that_of_one_step_though_the_parent_held_more(of: str) -> None:
    torch.ones(200 * MIB, dtype=torch.uint8)  # and gone again
    found, reason = in_child(partial(peak_of_allocating, of, 48))
    assert reason is None
    assert found == pytest.approx(48 * MIB, abs=8 * MIB)


def test_every_length_is_read_of_layer_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complexity, "LENGTHS", (16, 128))
    learned = transformer(position={"name": "learned"}, max_len=64)
    measurements = Memory().measure(learned, TEXT, CPU).measurements
    read = {(r.metric, r.coordinates["of"], r.coordinates["length"]): r for r in measurements}
    assert len(read) == len(measurements) == 2 * 2 * 2
    assert read["saved_bytes", MODEL, 16].value
    too_long = read["saved_bytes", MODEL, 128]
    assert too_long.value is None
    assert "max_len=64" in (too_long.reason or "")


def by_part(measurements: list[Measurement], metric: str) -> dict[Any, dict[str, float]]:
    """Where → part → share; of times, in the first process."""
    found: dict[Any, dict[str, float]] = defaultdict(dict)
    for r in measurements:
        if r.metric == metric and "part" in r.coordinates:
            where = r.coordinates.get("preset"), r.coordinates.get("tokens_over_width")
            value = r.value if r.values is None else r.values[0]
            found[where][str(r.coordinates["part"])] = value
    return found


@pytest.mark.parametrize(
    ("task", "kind"), [(TEXT, "decoder"), (PAIRS, "encoder_decoder")], ids=["text", "pairs"]
)
def test_shares_are_those_of_the_count_and_sum_to_one(
    monkeypatch: pytest.MonkeyPatch, task: Any, kind: str
) -> None:
    monkeypatch.setattr(share, "RATIOS", (0.5, 4.0))
    monkeypatch.setattr(share, "PROCESSES", 2)
    config = transformer(kind=kind, depth=2)
    measurements = Share().measure(config, task, CPU).measurements
    for metric in share.Share.metrics:
        for where, parts in by_part(measurements, metric).items():
            assert sum(parts.values()) == pytest.approx(1), (metric, where)
    with torch.device("meta"):
        model = build(config["model"], task.source_size, task.target_size, 0)
    for ratio in (0.5, 4.0):
        length = int(ratio * 8)
        cost = count(model, length if task.source_size else None, length)
        whole = sum(cost.flops.values())
        expected = {kind: flops / whole for kind, flops in cost.flops.items() if flops}
        assert by_part(measurements, "flops_share")[None, ratio] == pytest.approx(expected)
    whole = sum(p.numel() for p in model.parameters())
    expected = {kind: size / whole for kind, size in cost.parameters.items() if size}
    assert by_part(measurements, "parameter_share")[None, None] == pytest.approx(expected)


def test_shares_of_published_models_are_those_of_their_papers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a block of GPT-2, 4 d² weights project and 8 d² are the feed-forward's, biases apart."""
    monkeypatch.setattr(presets, "names", lambda: ["gpt2"])
    monkeypatch.setattr(share, "RATIOS", (0.5, 1.0, 2.0))
    measurements = Presets().measure({}, TEXT, CPU).measurements
    found = {(r.metric, r.coordinates.get("tokens_over_width")): r for r in measurements}
    assert found["feedforward_over_block", None].value == pytest.approx(2 / 3, rel=1e-3)
    parts = by_part(measurements, "preset_parameter_share")["gpt2", None]
    d, blocks, words = 768, 12, 50257
    whole = (words + 1024) * d + blocks * (12 * d * d + 13 * d) + 2 * d
    assert parts["feedforward"] == pytest.approx(blocks * (8 * d * d + 5 * d) / whole)
    assert sum(parts.values()) == pytest.approx(1)
    # Scores and mixture take 4 n d of a token; maps and head 24 d² a block and 2 d a word.
    outside = (24 * d * d * blocks + 2 * d * words) / (4 * 384 * d * blocks)
    assert found["rest_over_scores", 0.5].value == pytest.approx(outside, rel=0.01)
    assert "max_len=1024" in (found["rest_over_scores", 2.0].reason or "")


@pytest.mark.parametrize(
    ("sleeps", "part"),
    [(tuple(FEEDFORWARD.components.values()), "feedforward"), (Mixer, "mixing")],
    ids=["feedforward", "mixing"],
)
def test_time_that_a_part_sleeps_is_that_parts(
    monkeypatch: pytest.MonkeyPatch, sleeps: Any, part: str
) -> None:
    def sleepy(*words: Any) -> nn.Module:
        model = build(*words)
        module = next(module for module in model.modules() if isinstance(module, sleeps))
        forward = module.forward

        def late(*given: Any, **options: Any) -> Any:
            time.sleep(0.02)
            return forward(*given, **options)

        vars(module)["forward"] = late
        return model

    monkeypatch.setattr("ablations.measurement.build", sleepy)
    monkeypatch.setattr(share, "in_child", lambda work: (work(None), None))
    monkeypatch.setattr(share, "RATIOS", (1.0,))
    monkeypatch.setattr(share, "PROCESSES", 1)
    measurements = Share().measure(transformer(), TEXT, CPU).measurements
    assert by_part(measurements, "time_share")[None, 1.0][part] > 0.6
