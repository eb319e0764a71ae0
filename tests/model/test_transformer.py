"""How tokens and segments enter a transformer, and where each dropout acts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from slow_formulas import add, affine, assert_equals, calls, layer_norm, randomised, sinusoid
from torch import Tensor, nn

from model.attention import attention
from model.batch import Batch
from model.build import build
from model.cells import CELL
from model.flops import count
from model.generate import Question, beam, greedy
from model.layers import evaluating
from model.rnn import SCORE

INPUTS = torch.tensor([[1, 5, 6], [1, 4, 0]])
D_MODEL, N_HEADS, DEPTH = 8, 2, 2


def made(**changes: Any) -> Any:
    choice = {"name": "transformer", "d_model": D_MODEL, "n_heads": N_HEADS, "depth": DEPTH}
    return randomised(build({**choice, **changes}, 8, 7, seed=None))


def test_tokens_are_scaled_placed_and_then_normed() -> None:
    for has_norm in [False, True]:
        embedding = made(embedding_norm=has_norm).decoder.embedding
        table = embedding.tokens.weight.tolist()
        for row, tokens in zip(embedding(INPUTS, torch.arange(3)), INPUTS.tolist(), strict=True):
            for at, (vector, token) in enumerate(zip(row, tokens, strict=True)):
                scaled = [math.sqrt(D_MODEL) * v for v in table[token]]
                x = add(scaled, sinusoid(at, D_MODEL))
                assert_equals(vector, layer_norm(x, *affine(embedding.norm)) if has_norm else x)


PLACES = ("embedding", "sublayers", "feedforward", "attention")
DROPOUTS: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "dropout": ({"dropout": 0.9}, {"embedding": 0.9, "sublayers": 0.9}),
    "both": ({"dropout": 0.9, "embedding_dropout": 0.0}, {"sublayers": 0.9}),
    "embedding": ({"embedding_dropout": 0.9}, {"embedding": 0.9}),
    "attention": ({"attention_dropout": 0.9}, {"attention": 0.9}),
    "feedforward": ({"feedforward_dropout": 0.9}, {"feedforward": 0.9}),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_each_dropout_acts_in_its_own_place_and_in_training_alone(name: str) -> None:
    options, expected = DROPOUTS[name]
    model = made(depth=1, **options)
    (block,), embedding = model.decoder.blocks, model.decoder.embedding
    found = (
        embedding.dropout.p, block.residual.dropout.p, block.feedforward.dropout.p,
        block.mixer.weight_dropout,
    )  # fmt: skip
    assert dict(zip(PLACES, found, strict=True)) == dict.fromkeys(PLACES, 0.0) | expected
    batch = Batch(INPUTS, INPUTS)
    still = model(batch)
    torch.testing.assert_close(still, made(depth=1)(batch), rtol=0, atol=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = model.train()(batch), model(batch)
    assert (first - second).abs().max() > 0.01
    torch.testing.assert_close(model.eval()(batch), still, rtol=0, atol=0)


SOURCE, INPUTS_OF_TWO = torch.tensor([[3, 7, 4], [5, 6, 0]]), torch.tensor([[1, 5], [1, 4]])
SEGMENTS = torch.tensor([[0, 2, 1], [1, 0, 0]])


def made_with(name: str = "transformer", **changes: Any) -> Any:
    written = {"name": name, "kind": "encoder_decoder", "d_model": 8, **changes}
    return build(written, 8, 9, seed=0).double().eval()


def batch(**changes: Any) -> Batch:
    both = {"labels": INPUTS_OF_TWO, "inputs": INPUTS_OF_TWO, "source": SOURCE}
    return Batch(**{**both, **changes})


def with_one(tokens: Tensor, wrong: int) -> Tensor:
    changed = tokens.clone()
    changed[1, 1] = wrong
    return changed


def test_the_source_of_an_encoder_decoder_has_segments_and_its_target_has_none() -> None:
    model = made_with(segments=3)
    assert model.decoder.embedding.segments is None
    plain = model(batch())
    assert (model(batch(segments=SEGMENTS)) - plain).abs().max() > 1e-6
    logits, _ = model.step(INPUTS_OF_TWO, model.begin(2, 4, SOURCE, None))
    torch.testing.assert_close(logits, plain, rtol=0, atol=1e-9)


def test_segments_that_are_not_there_are_named() -> None:
    for wrong, words in [
        (
            lambda: made_with(segments=3)(batch(segments=SEGMENTS + 1)),
            "holds 3: the model has 0 to",
        ),
        (lambda: made_with(segments=3)(batch(segments=SEGMENTS - 1)), "holds -1: the model has 0"),
        (lambda: made_with()(batch(segments=SEGMENTS)), r"has none: set model\.segments"),
        (lambda: batch(segments=SEGMENTS[:, :2]), "must go with a source of the same shape"),
        (lambda: batch(source=None, segments=SEGMENTS), "must go with a source"),
        (lambda: made_with(kind="decoder", segments=3), "only a source has segments; choose kind="),
    ]:
        with pytest.raises(ValueError, match=words):
            wrong()


@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_a_token_outside_of_its_vocabulary_and_a_side_without_tokens_are_named(name: str) -> None:
    model = made_with(name)
    for side, tokens, last in [("inputs", INPUTS_OF_TWO, 8), ("source", SOURCE, 7)]:
        assert model(batch(**{side: with_one(tokens, last)})).isfinite().all()
        mistakes = {
            f"{side} holds token {wrong}: .* has 0 to {last}": with_one(tokens, wrong)
            for wrong in (last + 1, 10**9, -1, -100)
        }
        mistakes |= {
            f"{side} is empty: give at least one token": tokens[:, :0],
            f"the batch has no {side}: .* needs (one|them)": None,
        }
        for words, given in mistakes.items():
            with pytest.raises(ValueError, match=f"^{words}$"):
                model(batch(**{side: given}))


def test_an_encoder_writes_nothing_and_needs_a_task_with_a_source() -> None:
    with pytest.raises(ValueError, match=r"model\.kind=encoder writes nothing: choose decoder"):
        greedy(made_with(kind="encoder"), Question(SOURCE), 3)
    for name in ("transformer", "recurrent"):
        with pytest.raises(ValueError, match=r"model\.kind=encoder_decoder needs a task with a so"):
            build({"name": name, "kind": "encoder_decoder"}, None, 9, seed=0)


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
    one = torch.tensor([1, 1])
    for kind in ["encoder", "decoder", "encoder_decoder"]:
        for path in ["explicit", "fused"]:
            model = made_with(kind=kind, path=path).train()
            logits = model(batch(lengths=one, source_lengths=one))
            assert logits.isfinite().all()
            logits.square().sum().backward()
            assert all(weight.grad.isfinite().all() for weight in model.parameters())


TOKENS = torch.tensor([[3, 4, 5]])
QUESTION = Question(prompt=TOKENS)
ASKED: dict[str, Callable[[Any], Any]] = {
    "attention": lambda model: attention(model, Batch(TOKENS, TOKENS)),
    "greedy": lambda model: greedy(model, QUESTION, 3),
    "beam": lambda model: beam(model, QUESTION, 3, width=2),
    "count": lambda model: count(model.to("meta"), None, 4),
}


def half_frozen(training: bool) -> nn.Module:
    """The first block is frozen, as in fine-tuning: it stays in evaluation mode."""
    written = {"name": "transformer", "d_model": 8, "dropout": 0.5, "path": "explicit"}
    model = build(written, None, 9, seed=0).train(training)
    model.decoder.blocks[0].eval()
    return model


def modes(model: nn.Module) -> dict[str, bool]:
    assert not any(module._forward_hooks for module in model.modules()), "somebody still watches"
    return {name: module.training for name, module in model.named_modules()}


def fail(*_: Any) -> None:
    raise RuntimeError("in the middle")


def test_every_module_is_left_in_its_own_mode_also_after_a_failure() -> None:
    for training in [True, False]:
        for name in ASKED:
            model = half_frozen(training)
            before = modes(model)
            ASKED[name](model)
            assert modes(model) == before
            model = half_frozen(training)
            fails = model.decoder.blocks[1].feedforward.register_forward_hook(fail)
            with fails, pytest.raises(RuntimeError, match="in the middle"):
                ASKED[name](model)
            assert modes(model) == before


def test_meanwhile_nothing_is_dropped() -> None:
    model = half_frozen(training=True)
    with evaluating(model):
        assert not any(modes(model).values())
        torch.testing.assert_close(*(model(Batch(TOKENS, TOKENS)) for _ in range(2)))
    assert model.training


def test_every_attention_is_shown_by_name_as_the_model_used_it() -> None:
    given = batch(source_lengths=torch.tensor([3, 2]))
    places = [f"encoder.blocks.{i}.mixer" for i in range(2)]
    places += [f"decoder.blocks.{i}.{kind}" for i in range(2) for kind in ("mixer", "cross")]
    for path in ("explicit", "row", "loop"):
        found = attention(made_with(path=path, n_heads=2), given)
        assert sorted(found) == sorted(places)
        assert found["decoder.blocks.1.cross"].shape == (2, 2, 2, 3)
        for weights in found.values():
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
        assert found["decoder.blocks.0.cross"][1, :, :, 2:].abs().max() == 0, "padding has weight"
        assert found["decoder.blocks.0.mixer"].triu(1).abs().max() == 0, "the future has weight"
    assert attention(made_with(), given) == {}, "the fused path has no weights"
    found = attention(made_with("recurrent"), given)
    assert found["shown"].shape == (2, 1, 2, 3)
    torch.testing.assert_close(found["shown"].sum(-1), torch.ones(2, 1, 2).double())


SOURCE_SIZE, TARGET_SIZE, WIDTH = 11, 9, 6
RECURRENT: list[dict[str, Any]] = [
    {"kind": "decoder"},
    {"kind": "decoder", "tied": True},
    *({"score": score} for score in sorted(SCORE.components)),
]


def recurrent(seed: int = 0, **options: Any) -> Any:
    """Two layers in double precision, every parameter random: no bias of zero."""
    written = {"name": "recurrent", "d_model": WIDTH, "depth": 2, "dropout": 0.5, **options}
    return randomised(build(written, SOURCE_SIZE, TARGET_SIZE, seed), std=0.6)


def padded_batch(
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
    for options in RECURRENT:
        model, batch = recurrent(cell="lstm", **options).train(), padded_batch()
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
    for options in RECURRENT:
        counts = set()
        for length in (3, 9):
            model, batch = recurrent(**options), padded_batch((length,) * 2, (length,) * 2)
            counts.add(calls(lambda model=model, batch=batch: model(batch)))
        assert len(counts) == 1


def test_a_tied_language_model_has_one_table() -> None:
    for tied in [False, True]:
        model = recurrent(kind="decoder", tied=tied)
        assert (model.head.project.weight is model.decoder.embedding.tokens.weight) == tied
