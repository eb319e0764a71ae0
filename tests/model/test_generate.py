"""Greedy answers against a loop that runs the whole model anew for every token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from given_weights import randomised

from model.batch import BOS, EOS, Batch
from model.build import build
from model.generate import Question, greedy

SOURCE, LENGTHS = (
    torch.tensor([[3, 7, 4, 5], [6, 3, 0, 0], [5, 4, 3, 0], [7, 7, 7, 7]]),
    [4, 2, 3, 4],
)
TRANSFORMER = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "n_heads": 2}
CHOICES = {
    "transformer": TRANSFORMER,
    "learned": {**TRANSFORMER, "position": "learned"},
    "explicit": {**TRANSFORMER, "path": "explicit"},
    "grouped": {**TRANSFORMER, "mixer": {"name": "attention", "n_kv_heads": 1}},
    "window": {**TRANSFORMER, "mixer": {"name": "window", "reach": 2}},
    "gru mixer": {**TRANSFORMER, "mixer": "gru"},
    "lstm mixer": {**TRANSFORMER, "mixer": "lstm"},
    "recurrent": {"name": "recurrent", "d_model": 8, "depth": 2},
}


def made(choice: dict[str, Any], seed: int) -> Any:
    """Random weights under which every token is about as likely, so that answers end anywhere."""
    model: Any = randomised(build(choice, 8, 9, seed=None), seed, std=0.8)
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(1, 9, (50, 7), generator=generator)
    source = torch.randint(3, 8, (50, 4), generator=generator)
    with torch.no_grad():
        logits_BTV = model(Batch(inputs, inputs, source=source))
        model.head.project.bias -= logits_BTV.mean(dim=(0, 1))
    return model


def asked(model: Any, max_new: int) -> list[list[int]]:
    answers = greedy(model, Question(SOURCE, torch.tensor(LENGTHS)), max_new)
    return [answer.tokens for answer in answers]


def uncached(model: Any, words: list[int], max_new: int) -> list[int]:
    tokens = [BOS]
    while len(tokens) <= max_new:
        inputs = torch.tensor([tokens])
        token = int(model(Batch(inputs, inputs, source=torch.tensor([words])))[0, -1].argmax())
        if token == EOS:
            break
        tokens.append(token)
    return tokens[1:]


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_the_argmax_of_the_whole_model_at_every_token(name: str, seed: int) -> None:
    model = made(CHOICES[name], seed)
    answers = asked(model, 7)
    by_hand = [
        uncached(model, words[:length], 7)
        for words, length in zip(SOURCE.tolist(), LENGTHS, strict=True)
    ]
    assert answers == by_hand


def test_the_cases_above_end_early_late_and_in_between() -> None:
    ends = {
        len(answer)
        for choice in CHOICES.values()
        for seed in range(4)
        for answer in asked(made(choice, seed), 7)
    }
    assert {0, 7} < ends
    assert len(ends) >= 4


def test_an_answer_never_holds_its_end_and_never_exceeds_its_room() -> None:
    model = made(CHOICES["transformer"], seed=1)
    for max_new in (1, 2, 5):
        for answer in asked(model, max_new):
            assert EOS not in answer
            assert len(answer) <= max_new


@pytest.mark.parametrize("training", [True, False])
def test_asking_leaves_the_mode_of_the_model_as_it_was(training: bool) -> None:
    model = made({**CHOICES["transformer"], "dropout": 0.5}, seed=0).train(training)
    first = asked(model, 7)
    assert model.training is training
    assert asked(model, 7) == first


def test_the_mode_is_restored_even_after_a_failure() -> None:
    model = made(CHOICES["transformer"], seed=0).train()
    with pytest.raises(ValueError, match="source holds token 107: the vocabulary has 0 to 7"):
        greedy(model, Question(SOURCE + 100, torch.tensor(LENGTHS)), max_new=7)
    assert model.training
