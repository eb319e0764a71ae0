"""The recurrent models against loops over single tokens, and against the library."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from given_weights import calls, randomised
from torch import Tensor

from model.batch import Batch
from model.build import build
from model.recurrent import CELL, SCORE

SOURCE_SIZE, TARGET_SIZE, WIDTH = 11, 9, 6
SOURCE_LENGTHS, LENGTHS = (5, 1, 3), (4, 2, 1)
MODELS: list[dict[str, Any]] = [
    {"kind": "decoder"},
    {"kind": "decoder", "tied": True},
    *({"score": score} for score in sorted(SCORE.parts)),
]


def made(seed: int = 0, **options: Any) -> Any:
    """Two layers in double precision, every parameter random: no bias of zero."""
    written = {"name": "recurrent", "d_model": WIDTH, "depth": 2, "dropout": 0.5, **options}
    return randomised(build(written, SOURCE_SIZE, TARGET_SIZE, seed), std=0.6)


def sample(
    source_lengths: tuple[int, ...] = SOURCE_LENGTHS,
    lengths: tuple[int, ...] = LENGTHS,
    extra: int = 1,
    seed: int = 0,
) -> Batch:
    """Random tokens, also where there is only padding: `extra` columns of it at least."""
    draw = torch.Generator().manual_seed(seed)
    count = len(lengths)
    source = torch.randint(SOURCE_SIZE, (count, max(source_lengths) + extra), generator=draw)
    inputs = torch.randint(TARGET_SIZE, (count, max(lengths) + extra), generator=draw)
    both = torch.tensor(lengths), torch.tensor(source_lengths)
    return Batch(inputs, inputs, both[0], source, both[1])


def answers(model: Any, batch: Batch) -> list[Tensor]:
    with torch.no_grad():
        logits = model(batch)
    assert batch.lengths is not None
    return [row[:length] for row, length in zip(logits, batch.lengths.tolist(), strict=True)]


def assert_same(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


# The models by hand: one sequence, one layer, one token at a time.


def affine(module: Any, x: Tensor) -> Tensor:
    return module.weight @ x if module.bias is None else module.weight @ x + module.bias


def tick(cell: Any, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """One token through one cell; an LSTM by its equations."""
    if not isinstance(cell, CELL.parts["lstm"]):
        _, after = cell.run(x[None, None], tuple(part[None] for part in state))
        return tuple(part[0] for part in after)
    hidden, kept = state
    gates = cell.weight_ih_l0 @ x + cell.bias_ih_l0 + cell.weight_hh_l0 @ hidden + cell.bias_hh_l0
    take, keep, new, show = gates.chunk(4)
    kept = keep.sigmoid() * kept + take.sigmoid() * new.tanh()
    return show.sigmoid() * kept.tanh(), kept


def read_through(cell: Any, xs: list[Tensor], state: tuple[Tensor, ...]) -> list[Tensor]:
    hidden = []
    for x in xs:
        state = tick(cell, x, state)
        hidden.append(state[0])
    return hidden


def zeros(cell: Any) -> tuple[Tensor, ...]:
    return tuple(part[0] for part in cell.start(torch.zeros(1, cell.hidden_size).double()))


def encoded(encoder: Any, tokens: list[int]) -> tuple[list[Tensor], list[Tensor]]:
    """The memory, and for each layer where its two ways end."""
    xs, ends = [encoder.embedding.tokens.weight[token] for token in tokens], []
    for ahead, back in zip(encoder.forwards, encoder.backwards, strict=True):
        right = read_through(ahead, xs, zeros(ahead))
        left = read_through(back, xs[::-1], zeros(back))
        ends.append(torch.cat((right[-1], left[-1])))
        xs = [torch.cat(pair) for pair in zip(right, left[::-1], strict=True)]
    return xs, ends


def first_states(model: Any, ends: list[Tensor]) -> list[tuple[Tensor, ...]]:
    return [
        tuple(affine(bridge, end).tanh().split(WIDTH))
        for bridge, end in zip(model.bridges, ends, strict=True)
    ]


def fit(score: Any, h: Tensor, m: Tensor) -> Tensor:
    weights = {name.split(".")[0]: weight for name, weight in score.named_parameters()}
    if "weigh" in weights:
        return weights["weigh"][0] @ (weights["state"] @ h + weights["memory"] @ m).tanh()
    return h @ (weights["project"] @ m) if weights else h @ m


def by_hand(model: Any, inputs: list[int], source: list[int] | None) -> Tensor:
    memory: list[Tensor] = []
    states = [zeros(cell) for cell in model.decoder.cells]
    if source is not None:
        memory, ends = encoded(model.encoder, source)
        states = first_states(model, ends)
    xs = [model.decoder.embedding.tokens.weight[token] for token in inputs]
    for cell, state in zip(model.decoder.cells, states, strict=True):
        xs = read_through(cell, xs, state)
    logits = []
    for h in xs:
        if source is not None and type(model.score) is not SCORE.parts["none"]:
            powers = [fit(model.score, h, m).exp() for m in memory]
            read = sum(power / sum(powers) * m for power, m in zip(powers, memory, strict=True))
            h = torch.cat((h, read))
        if source is not None:
            h = affine(model.combine, h).tanh()
        logits.append(affine(model.head.project, h))
    return torch.stack(logits).detach()


def test_the_language_model_is_a_stack_read_one_token_at_a_time() -> None:
    for cell in sorted(CELL.parts):
        for tied in [False, True]:
            model, batch = made(kind="decoder", cell=cell, tied=tied), sample()
            rows = zip(batch.inputs.tolist(), LENGTHS, strict=True)
            assert_same(
                answers(model, batch), [by_hand(model, row[:size], None) for row, size in rows]
            )


@pytest.mark.parametrize("score", sorted(SCORE.parts))
def test_the_encoder_decoder_is_its_formula_also_under_padding(score: str) -> None:
    for cell in sorted(CELL.parts):
        model, batch = made(cell=cell, score=score), sample()
        rows = zip(
            batch.inputs.tolist(), LENGTHS, batch.source.tolist(), SOURCE_LENGTHS, strict=True
        )
        expected = [by_hand(model, row[:size], words[:count]) for row, size, words, count in rows]
        assert_same(answers(model, batch), expected)


def test_dropout_is_on_the_way_up_and_never_through_time() -> None:
    for options in MODELS:
        model, batch = made(cell="lstm", **options).train(), sample()
        upward, through_time = [], []
        cells = [module for module in model.modules() if isinstance(module, CELL.parts["lstm"])]
        for module in (*cells, model.head):
            module.register_forward_pre_hook(lambda _, given, to=upward: to.append(given[0]))
        for module in model.decoder.cells:
            module.register_forward_pre_hook(lambda _, given, to=through_time: to.extend(given[1]))
        model(batch)
        assert len(upward) == len(cells) + 1 > 2
        for x in upward:
            assert 0.2 < (x == 0).double().mean() < 0.8
        for state in through_time:
            assert (state == 0).all() if options.get("kind") == "decoder" else (state != 0).all()


def test_no_python_loop_runs_over_time() -> None:
    for options in MODELS:
        counts = set()
        for length in (3, 9):
            model, batch = made(**options), sample((length,) * 2, (length,) * 2)
            counts.add(calls(lambda model=model, batch=batch: model(batch)))
        assert len(counts) == 1
