"""Where the recurrent models drop, and that time is left to the library's loops."""

from __future__ import annotations

from typing import Any

import torch
from given_weights import calls, randomised

from model.batch import Batch
from model.build import build
from model.rnn import CELL, SCORE

SOURCE_SIZE, TARGET_SIZE, WIDTH = 11, 9, 6
MODELS: list[dict[str, Any]] = [
    {"kind": "decoder"},
    {"kind": "decoder", "tied": True},
    *({"score": score} for score in sorted(SCORE.components)),
]


def made(seed: int = 0, **options: Any) -> Any:
    """Two layers in double precision, every parameter random: no bias of zero."""
    written = {"name": "recurrent", "d_model": WIDTH, "depth": 2, "dropout": 0.5, **options}
    return randomised(build(written, SOURCE_SIZE, TARGET_SIZE, seed), std=0.6)


def sample(
    source_lengths: tuple[int, ...] = (5, 1, 3), lengths: tuple[int, ...] = (4, 2, 1)
) -> Batch:
    """Random tokens, also where there is only padding: one column of it at least."""
    draw = torch.Generator().manual_seed(0)
    count = len(lengths)
    source = torch.randint(SOURCE_SIZE, (count, max(source_lengths) + 1), generator=draw)
    inputs = torch.randint(TARGET_SIZE, (count, max(lengths) + 1), generator=draw)
    both = torch.tensor(lengths), torch.tensor(source_lengths)
    return Batch(inputs, inputs, both[0], source, both[1])


def test_dropout_is_on_the_way_up_and_never_through_time() -> None:
    for options in MODELS:
        model, batch = made(cell="lstm", **options).train(), sample()
        upward, through_time = [], []
        cells = [
            module for module in model.modules() if isinstance(module, CELL.components["lstm"])
        ]
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


def test_a_tied_language_model_has_one_table() -> None:
    for tied in [False, True]:
        model = made(kind="decoder", tied=tied)
        assert (model.head.project.weight is model.decoder.embedding.tokens.weight) == tied
