"""What a model cannot read is refused with its name and the fix, and never becomes NaN."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from model.batch import Batch
from model.build import build
from model.generate import Question, greedy

SOURCE, INPUTS = torch.tensor([[3, 7, 4], [5, 6, 0]]), torch.tensor([[1, 5], [1, 4]])
MODELS = pytest.mark.parametrize("name", ["transformer", "recurrent"])


def made(name: str, **changes: Any) -> Any:
    written = {"name": name, "kind": "encoder_decoder", "d_model": 8, **changes}
    return build(written, 8, 9, seed=0).eval()


def batch(**changes: Any) -> Batch:
    return Batch(**{"labels": INPUTS, "inputs": INPUTS, "source": SOURCE, **changes})


def with_one(tokens: Tensor, wrong: int) -> Tensor:
    changed = tokens.clone()
    changed[1, 1] = wrong
    return changed


@MODELS
def test_a_token_outside_of_its_vocabulary_is_named(name: str) -> None:
    for side, tokens, last in [("inputs", INPUTS, 8), ("source", SOURCE, 7)]:
        for wrong in ["next", 10**9, -1, -100]:
            wrong = last + 1 if wrong == "next" else wrong
            model = made(name)
            with pytest.raises(
                ValueError, match=f"^{side} holds token {wrong}: .* has 0 to {last}$"
            ):
                model(batch(**{side: with_one(tokens, wrong)}))
            assert model(batch(**{side: with_one(tokens, last)})).isfinite().all()


@MODELS
def test_a_side_that_is_empty_or_missing_is_named(name: str) -> None:
    for side in ["inputs", "source"]:
        tokens = INPUTS if side == "inputs" else SOURCE
        with pytest.raises(ValueError, match=f"^{side} is empty: give at least one token$"):
            made(name)(batch(**{side: tokens[:, :0]}))
        with pytest.raises(ValueError, match=f"^the batch has no {side}: .* needs (one|them)$"):
            made(name)(batch(**{side: None}))


def test_an_encoder_asks_for_a_source_and_a_decoder_for_inputs() -> None:
    with pytest.raises(ValueError, match="the batch has no source: an encoder needs one"):
        made("transformer", kind="encoder")(Batch(INPUTS, INPUTS))
    with pytest.raises(ValueError, match="the batch has no inputs: a decoder needs them"):
        made("transformer", kind="decoder")(Batch(SOURCE, source=SOURCE))
    with pytest.raises(ValueError, match=r"model\.kind=encoder writes nothing: choose decoder"):
        greedy(made("transformer", kind="encoder"), Question(SOURCE), 3)


def test_a_model_that_reads_needs_a_task_with_a_source() -> None:
    for choice in ("transformer", "recurrent"):
        with pytest.raises(ValueError, match=r"model\.kind=encoder_decoder needs a task with a so"):
            build({"name": choice, "kind": "encoder_decoder"}, None, 9, seed=0)


def test_lengths_that_do_not_fit_are_refused() -> None:
    for side in ["lengths", "source_lengths"]:
        for lengths, words in [
            ([2, 0], "holds 0: a sequence needs at least one real token"),
            ([-3, 2], "holds -3: a sequence needs at least one real token"),
            ([1, 9], "holds 9: the sequences are [23] long"),
            ([1], "must go with as many sequences"),
            ([1, 1, 1], "must go with as many sequences"),
        ]:
            with pytest.raises(ValueError, match=f"^{side} {words}$"):
                batch(**{side: torch.tensor(lengths)})


def test_a_row_that_is_nearly_all_padding_has_no_nan_and_no_nan_gradient() -> None:
    for kind in ["encoder", "decoder", "encoder_decoder"]:
        for path in ["explicit", "fused"]:
            model = made("transformer", kind=kind, path=path).train()
            one = torch.tensor([1, 1])
            logits = model(batch(lengths=one, source_lengths=one))
            assert logits.isfinite().all()
            logits.square().sum().backward()
            assert all(weight.grad.isfinite().all() for weight in model.parameters())
