"""Costs against counts on paper and against what autograd really keeps; and the page itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from model.attention import PATH
from model.batch import Batch
from model.build import build
from model.flops import Cost, count, parameters
from model.mixers import MIXER
from model.positions import POSITION
from model.residual import RESIDUAL

Say = Callable[..., tuple[int, str, str]]

D, HEADS, D_HEAD, DEPTH, V, S_V = 12, 2, 5, 3, 9, 11
W, F = HEADS * D_HEAD, 4 * D
N, M = 7, 4  # target and source tokens
NORM = 2 * D


def transformer(**changes: Any) -> dict[str, Any]:
    sizes = {"d_model": D, "n_heads": HEADS, "d_head": D_HEAD, "depth": DEPTH, "max_len": 16}
    return {"name": "transformer", **sizes, **changes}


def on_meta(written: Any) -> nn.Module:
    with torch.device("meta"):
        return build(written, S_V, V, seed=None)


def counted(written: Any, source: int | None = None, length: int = N) -> Cost:
    return count(on_meta(written), source, length)


def without_zeros(counts: dict[str, int]) -> dict[str, int]:
    return {kind: number for kind, number in counts.items() if number}


def test_a_decoder_costs_what_its_matrices_say() -> None:
    for path in PATH.components:
        cost = counted(transformer(path=path, position="learned"))
        assert without_zeros(cost.parameters) == {
            "embedding": V * D,
            "positions": 16 * D,
            "projections": DEPTH * ((D * W + W) * 3 + (W * D + D)),
            "feedforward": DEPTH * ((D * F + F) + (F * D + D)),
            "norms": (2 * DEPTH + 1) * NORM,
            "head": D * V + V,
        }
        assert without_zeros(cost.flops) == {
            "projections": 2 * N * DEPTH * (3 * D * W + W * D),
            "mixing": 2 * N * DEPTH * (2 * N * W),  # scores and values
            "feedforward": 2 * N * DEPTH * (2 * D * F),
            "head": 2 * N * D * V,
        }
        assert cost.tokens == N


def test_an_encoder_decoder_costs_two_stacks_and_the_way_between_them() -> None:
    cost = counted(transformer(kind="encoder_decoder"), M)
    attention = (D * W + W) * 3 + (W * D + D)
    assert without_zeros(cost.parameters) == {
        "embedding": (S_V + V) * D,
        "projections": 3 * DEPTH * attention,
        "feedforward": 2 * DEPTH * ((D * F + F) + (F * D + D)),
        "norms": (2 * DEPTH + 1) * NORM + (3 * DEPTH + 1) * NORM,
        "head": D * V + V,
    }
    own = (M + N) * 4 * D * W
    cross = N * 2 * D * W + M * 2 * D * W  # queries and answers, keys and values
    assert without_zeros(cost.flops) == {
        "projections": 2 * DEPTH * (own + cross),
        "mixing": 2 * DEPTH * 2 * W * (M * M + N * N + N * M),
        "feedforward": 2 * DEPTH * (M + N) * 2 * D * F,
        "head": 2 * N * D * V,
    }
    assert cost.tokens == M + N


def test_a_tied_weight_counts_once_under_its_first_name() -> None:
    cost = counted(transformer(tied="output"))
    assert (cost.parameters["embedding"], cost.parameters["head"]) == (V * D, V)
    assert cost.flops["head"] == 2 * N * D * V
    assert sum(cost.parameters.values()) == parameters(on_meta(transformer(tied="output")))


def test_a_recurrent_model_costs_its_gates_its_bridge_and_its_reading() -> None:
    cost = counted({"name": "recurrent", "d_model": 8, "depth": 2, "score": "mlp"}, M)
    encoder = M * 2 * 2 * 4 * (8 * 4 + 4 * 4)  # layers, directions, gates
    decoder = N * 2 * 4 * (8 * 8 + 8 * 8)
    measurement = N * M * (8 + 8)  # a score and a value for each pair
    assert without_zeros(cost.flops) == {
        "projections": 2 * (2 * 8 * 16 + (N + M) * 8 * 8 + N * 16 * 8),
        "mixing": 2 * (encoder + decoder + measurement),
        "head": 2 * N * 8 * V,
    }


def test_taps_and_gates_mix() -> None:
    cost = counted(transformer(mixer={"name": "convolution", "kernel": 3}))
    assert (cost.parameters["projections"], cost.flops["projections"]) == (0, 0)
    assert cost.parameters["mixing"] == DEPTH * (3 * D * D + D)
    assert cost.flops["mixing"] == 2 * N * DEPTH * 3 * D * D
    for form in ["kernel", "steps"]:
        cost = counted(transformer(mixer={"name": "lstm", "form": form}))
        assert cost.parameters["mixing"] == DEPTH * 4 * (2 * D * D + 2 * D)
        assert cost.flops["mixing"] == 2 * N * DEPTH * 4 * 2 * D * D


def really_kept(written: Any, source: int, length: int) -> int:
    """Bytes that autograd holds after a real forward pass on the CPU."""
    model = build(written, S_V, V, seed=0).train()
    weights = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    held: dict[int, torch.UntypedStorage] = {}

    def hold(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            held[storage._cdata] = storage
        return tensor

    inputs, sources = torch.ones(1, length, dtype=torch.long), torch.ones(1, source).long()
    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        model(Batch(labels=inputs, inputs=inputs, source=sources))
    return sum(storage.nbytes() for storage in held.values())


STEPS = {name: {"name": name, "form": "steps"} for name in ("rnn", "gru", "lstm")}
SMALL = {"name": "transformer", "d_model": D, "n_heads": HEADS, "depth": 3, "max_len": 16}


# A CPU keeps the scores of fused attention where a bias is trained; other kernels do not. What a
# recurrent kernel keeps is the library's secret, and differs from device to device.
ROWS = zip(
    sorted(POSITION.components),
    cycle(sorted(RESIDUAL.components)),
    cycle(sorted(PATH.components)),
    strict=False,
)
CASES: list[dict[str, Any]] = [
    *({"position": position, "residual": residual, "path": "explicit" if position in
       ("shaw", "t5") else path} for position, residual, path in ROWS),
    *({"mixer": STEPS.get(name, name), "residual": residual} for name, residual in
      zip(sorted({*MIXER.components} - {"window"}), cycle(sorted(RESIDUAL.components)))),
    {"mixer": {"name": "convolution", "dilated": True}, "dropout": 0.1, "feedforward_dropout": 0.1},
    {"mixer": {"name": "window", "reach": 3}, "path": "explicit", "attention_dropout": 0.1},
    {"mixer": {"name": "attention", "n_kv_heads": 1}, "feedforward": "swiglu", "norm": "rms"},
    {"kind": "encoder_decoder", "position": "rotary"},
    {"mixer": STEPS["rnn"], "residual": "none",
     "position": {"name": "learned", "every_layer": True}},
    {"name": "recurrent", "score": "mlp", "cell": STEPS["lstm"]},
    {"name": "recurrent", "kind": "decoder", "cell": STEPS["gru"]},
]  # fmt: skip


def test_the_bytes_kept_for_backward_are_those_that_autograd_keeps() -> None:
    for changes in CASES:
        written = {**({"d_model": 8, "depth": 3} if "name" in changes else SMALL), **changes}
        cost = count(on_meta(written), M, N)
        assert cost.kept_bytes == really_kept(written, M, N), changes


def described(say: Say, *words: str) -> dict[str, Any]:
    code, out, err = say("describe", "--json", *words)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_json_is_one_document_with_every_count(say: Say) -> None:
    page = described(say, "--length", "16", "d_model=8", "model.n_heads=2", "--vocabulary", "10")
    with torch.device("meta"):
        model = build({"name": "transformer", "d_model": 8, "n_heads": 2}, None, 10, seed=None)
    assert page["parameters"] == parameters(model) == sum(page["by_part"].values())
    cost = count(model, None, 16)
    assert page["flops_per_token"] == cost.flops_per_token == sum(page["flops_by_kind"].values())
    assert page["activation_bytes"] == cost.kept_bytes
    assert page["optimizer_bytes"] == 2 * page["weight_bytes"] == 8 * page["parameters"]
    assert (page["length"], page["preset"]) == (16, None)
    assert page["config"]["d_model"] == 8


def test_the_page_fits_a_terminal_and_folds_equal_blocks(say: Say) -> None:
    code, page, _ = say("describe", "gpt2")
    assert code == 0
    assert max(map(len, page.splitlines())) <= 80
    words = " ".join(page.split())
    assert "12 × block 85,054,464" in words
    assert "project 768 → 50,257, tied" in words
    assert "projections 22.8% 28,348,416" in words
    assert "total 124,439,808" in words
    assert "and length 1,024 weights 474.7 MiB optimizer 949.4 MiB activations 657.8 MiB" in words
    assert "causal attention counts as full" in words


MISTAKES = {
    "gtp2": "no preset 'gtp2'. Did you mean 'gpt2'?",
    "gpt2 n_head=8": "model.n_head: no such option. Did you mean 'n_heads'?",
    "norm=${d_model}": "model.norm: '${d_model}' is not a value",
    "=5": "'=5': expected path=value, such as model.n_heads=8",
    "d_model=8 model.d_model=16": "given twice, with and without",
    "d_model=1000000000 n_heads=1": "no tensor can be that large",
    "--length 0": "--length: expected a whole number from 1, got '0'",
    "gpt2 --length 5000": "positions end at max_len=1024, asked for 5000",
    "gpt2 bert-base": "gpt2 and bert-base: describe one preset at a time",
}


def test_a_mistake_is_answered_in_one_line(say: Say) -> None:
    for words, sentence in MISTAKES.items():
        code, out, err = say("describe", *words.split())
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err
