"""Answers are what the model's own forward pass says, however they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest
import torch
from slow_formulas import randomised
from torch import Tensor, nn

from model.attention import MASK
from model.batch import BOS, EOS, Batch
from model.build import build
from model.generate import Decoding, Question, beam, greedy
from model.mixers import MIXER
from model.positions import POSITION

SOURCE_SIZE, TARGET_SIZE, MAX_NEW = 8, 6, 5
PROMPT = Question(prompt=torch.tensor([[3, 5, 4], [3, 3, 3], [5, 4, 3]]))
SOURCE = Question(torch.tensor([[3, 5, 4, 5], [3, 0, 0, 0], [5, 4, 3, 0]]), torch.tensor([4, 1, 3]))
BOTH = Question(SOURCE.source, SOURCE.source_lengths, PROMPT.prompt)
ASKED = [("decoder", PROMPT), ("encoder_decoder", SOURCE), ("encoder_decoder", BOTH)]
KEPT: dict[str, dict[str, Any]] = {  # a state is kept
    **{mixer: {"mixer": mixer} for mixer in MIXER.components},
    "grouped": {"mixer": {"name": "attention", "n_kv_heads": 1}},
    "window": {"mixer": {"name": "window", "reach": 2}},
    "rotary": {"position": "rotary"},
    "t5": {"position": "t5"},
    "at every layer": {"position": {"name": "learned", "every_layer": True}},
    "cell gru": {"name": "recurrent", "cell": "gru"},
    "cell lstm": {"name": "recurrent"},
    "one vector": {"name": "recurrent", "score": "none"},
}
# What shows the future, or reads both ways: a token that is added changes what was said of those
# before it, so nothing can be kept.
ANEW: dict[str, dict[str, Any]] = {
    **{f"mask {name}, open": {"path": "explicit", "mask": name, "causal_decoder": False}
       for name in MASK.components},
    **{f"open {mixer} with {position}":
       {"mixer": mixer, "position": position, "causal_decoder": False}
       for mixer, position in zip(
           sorted(MIXER.components), sorted(POSITION.components), strict=True)},
    "mask zero": {"path": "explicit", "mask": "zero"},
}  # fmt: skip
CASES = {**KEPT, **ANEW}


@cache
def made(name: str, kind: str) -> Any:
    """Random weights under which every token is about as likely, so that answers end anywhere."""
    written = {"name": "transformer", "kind": kind, "d_model": 8, **CASES[name]}
    if written["name"] == "transformer":
        written |= {"n_heads": 2, "max_len": 32}
    model: Any = randomised(build(written, SOURCE_SIZE, TARGET_SIZE, None), std=0.8)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(1, TARGET_SIZE, (50, 7), generator=generator)
    source = torch.randint(3, SOURCE_SIZE, (50, 4), generator=generator)
    with torch.no_grad():
        model.head.project.bias -= model(Batch(inputs, inputs, source=source)).mean(dim=(0, 1))
    return model


def alone(question: Question, row: int) -> Question:
    """One of the questions, without its padding."""
    source = None
    if question.source is not None and question.source_lengths is not None:
        source = question.source[row : row + 1, : question.source_lengths[row]]
    return Question(source, prompt=question.prompts()[row : row + 1])


@torch.no_grad()
def after(model: Any, question: Question, said: list[int]) -> Tensor:
    """V: log probabilities of what follows in one answer, by the whole model run anew."""
    tokens = torch.cat((question.prompts(), torch.tensor([said], dtype=torch.long)), dim=1)
    logits = model.eval()(Batch(tokens, tokens, source=question.source))
    return logits[0, -1].log_softmax(-1)


@pytest.mark.parametrize("name", CASES)
def test_cached_generation_equals_the_whole_model_at_every_step(name: str) -> None:
    for kind, question in ASKED if name in KEPT else ASKED[::2]:
        model = made(name, kind)
        chosen = greedy(model, question, MAX_NEW)
        found = beam(model, question, MAX_NEW, width=2)
        for row, answer in enumerate(chosen):
            one = alone(question, row)
            follows = cache(lambda said, model=model, one=one: after(model, one, list(said)))
            for each in (answer, *found[row]):
                said, total = (*each.tokens, EOS)[:MAX_NEW], 0.0
                for at, token in enumerate(said):
                    total += float(follows(said[:at])[token])
                    assert each is not answer or int(follows(said[:at]).argmax()) == token
                assert each.log_probability == pytest.approx(total)
            (single,) = beam(model, one, MAX_NEW, width=2)
            assert [each.tokens for each in found[row]] == [each.tokens for each in single]


def test_a_model_that_hides_the_future_keeps_its_states_and_no_other_does() -> None:
    kept = {name for name in CASES if getattr(made(name, "decoder"), "goes_on", True)}
    assert kept == set(KEPT)


def test_what_cannot_be_asked_is_said_in_words() -> None:
    model = made("attention", "decoder")
    for wrong, named in [
        (lambda: beam(model, PROMPT, 3, width=0), "width"),
        (lambda: beam(model, PROMPT, 3, length_power=-1), "length_power=-1: must"),
        (lambda: beam(model, PROMPT, 3, length_power=math.nan), "length_power=nan"),
        (lambda: beam(model, PROMPT, 3, length_power=400.0), "from 0 to 10"),
        (lambda: greedy(model, PROMPT, 0), "max_new"),
        (lambda: greedy(model, Question(), 3), "source or a prompt"),
        (lambda: greedy(model, Question(prompt=torch.ones(2, 0).long()), 3), "prompt"),
    ]:
        with pytest.raises(ValueError, match=named):
            wrong()


# A beam search stops only where nothing that still grows can win.

WORDS = 6
Logs = Callable[[tuple[int, ...]], list[float]]  # of the next token, after these


class Toy(nn.Module):
    """A generator whose probabilities are written down for every beginning of an answer."""

    def __init__(self, logs: Logs) -> None:
        super().__init__()
        self.logs = logs

    def begin(self, sequences: int, *_: Any) -> Decoding:
        return Decoding(0, (torch.zeros(sequences, 0, dtype=torch.long),))

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        said = torch.cat((decoding.states[0], tokens_BT), dim=1)
        rows = [self.logs(tuple(row[1:])) for row in said.tolist()]  # without BOS
        logits = torch.tensor(rows, dtype=torch.float64)[:, None]
        return logits, Decoding(said.shape[1], (said,))


def found(logs: Logs, max_new: int, width: int, power: float) -> list[tuple[list[int], float]]:
    (answers,) = beam(Toy(logs), Question(prompt=torch.tensor([[BOS]])), max_new, width, power)
    return [(answer.tokens, answer.log_probability) for answer in answers]


def slow(logs: Logs, max_new: int, width: int, power: float) -> list[tuple[list[int], float]]:
    """To the very end, whatever has ended: of the best 2 · width steps, ends end, others go on."""
    growing: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    ended: list[tuple[float, tuple[int, ...], float]] = []
    for length in range(1, max_new + 1):
        steps = [
            (value + log_p, said, token)
            for said, value in growing
            for token, log_p in enumerate(logs(said))
        ]
        best = sorted(steps, reverse=True)[: 2 * width]
        ended += [(value / length**power, said, value) for value, said, t in best if t == EOS]
        growing = [((*said, t), value) for value, said, t in best if t != EOS][:width]
    ended += [(value / max_new**power, said, value) for said, value in growing]
    return [(list(said), value) for _, said, value in sorted(ended, reverse=True)[:width]]


def drawn(seed: int) -> Logs:
    """Random probabilities, in which to end is as likely as to go on."""

    @cache
    def logs(said: tuple[int, ...]) -> list[float]:
        source = Random(f"{seed} {said}")
        scores = [source.gauss(0, 2) + (1.5 if token == EOS else 0) for token in range(WORDS)]
        return torch.tensor(scores, dtype=torch.float64).log_softmax(-1).tolist()

    return logs


def test_to_stop_early_loses_nothing() -> None:
    for power, width in product([0.0, 0.6, 1.0, 2.0], [1, 2, 3]):
        for seed, max_new in product(range(10), (1, 4, 7)):
            answers = found(drawn(seed), max_new, width, power)
            by_hand = slow(drawn(seed), max_new, width, power)
            assert [tokens for tokens, _ in answers] == [tokens for tokens, _ in by_hand]
            values = [value for _, value in by_hand]
            assert [value for _, value in answers] == pytest.approx(values)


def test_a_search_that_cannot_win_any_more_is_given_up() -> None:
    """Else to stop early would be never to stop."""
    asked: list[tuple[int, ...]] = []

    def counted(said: tuple[int, ...]) -> list[float]:
        """To end at once has 0.9 of the probability, and after a word another word has."""
        asked.append(said)
        likely = 3 if said else EOS
        shares = [0.9 if token == likely else 0.02 for token in range(WORDS)]
        return torch.tensor(shares, dtype=torch.float64).log().tolist()

    assert found(counted, 50, width=1, power=0.0)[0][0] == []
    assert max(map(len, asked)) <= 1
