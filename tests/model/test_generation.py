"""Answers are what the model's own probabilities say, however they are asked for."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from model.batch import EOS, Batch
from model.build import build
from model.generate import Answer, Question, beam, generate, greedy, sample

SOURCE, TARGET = 9, 6
MODELS = {
    "attention": {"name": "transformer", "kind": "encoder_decoder"},
    "grouped": {"name": "transformer", "mixer": {"name": "attention", "n_kv_heads": 1}},
    "window": {"name": "transformer", "mixer": {"name": "window", "reach": 2}},
    "convolution": {"name": "transformer", "mixer": {"name": "convolution"}},
    "rnn mixer": {"name": "transformer", "mixer": {"name": "rnn"}},
    "gru mixer": {"name": "transformer", "mixer": {"name": "gru"}},
    "lstm mixer": {"name": "transformer", "mixer": {"name": "lstm"}},
    "mingru": {"name": "transformer", "mixer": {"name": "mingru"}},
    "rotary": {"name": "transformer", "position": "rotary"},
    "t5": {"name": "transformer", "position": "t5"},
    "gru": {"name": "recurrent", "cell": "gru"},
    "lstm": {"name": "recurrent"},
    "lstm, one vector": {"name": "recurrent", "score": "none"},
}
KINDS = ("encoder_decoder", "decoder")
QUICK = ("attention", "window", "lstm")  # wide beams of the others are for the soak tests


def make(name: str, kind: str) -> torch.nn.Module:
    choice = {**MODELS[name], "kind": kind, "d_model": 8, "initial": "unit_variance"}
    if choice["name"] == "transformer":
        choice |= {"n_heads": 2, "depth": 2}
    source = SOURCE if kind == "encoder_decoder" else None
    return build(choice, source, TARGET, seed=1).double()


def ask(kind: str, sequences: int = 5) -> Question:
    generator = torch.Generator().manual_seed(0)
    if kind == "decoder":
        prompt = torch.randint(3, TARGET, (sequences, 4), generator=generator)
        return Question(prompt=prompt, prompt_lengths=torch.tensor([4, 1, 3, 2, 4])[:sequences])
    source = torch.randint(3, SOURCE, (sequences, 7), generator=generator)
    return Question(source, torch.tensor([7, 3, 2, 5, 7])[:sequences])


def alone(question: Question, row: int) -> Question:
    """One of the questions, without its padding."""
    one = slice(row, row + 1)
    if question.source is not None and question.source_lengths is not None:
        return Question(question.source[one, : question.source_lengths[row]])
    assert question.prompt is not None
    assert question.prompt_lengths is not None
    return Question(prompt=question.prompt[one, : question.prompt_lengths[row]])


@torch.no_grad()
def log_probabilities(model: torch.nn.Module, question: Question, answers: list[Any]) -> Tensor:
    """A T V after the prompt, for one question and answers of one length: the whole model, run as
    it is trained, without any state."""
    prompt, _ = question.prompts()
    many = len(answers)
    said = torch.tensor(answers, dtype=torch.long).view(many, -1)
    tokens = torch.cat((prompt.expand(many, -1), said), dim=1)
    source = None if question.source is None else question.source.expand(many, -1)
    logits = model.eval()(Batch(tokens, tokens, source=source))
    return logits[:, prompt.shape[1] - 1 :].log_softmax(-1)


def worth(model: torch.nn.Module, question: Question, answer: Answer, max_new: int) -> float:
    """The log probability of an answer, with its EOS where it has one."""
    (table,) = log_probabilities(model, question, [answer.tokens])
    said = [*answer.tokens, EOS][:max_new]
    return sum(float(table[at, token]) for at, token in enumerate(said))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_cached_greedy_is_the_argmax_of_the_whole_model_run_anew(name: str, kind: str) -> None:
    model, question = make(name, kind), ask(kind)
    for row, answer in enumerate(greedy(model, question, max_new=6)):
        (table,) = log_probabilities(model, alone(question, row), [answer.tokens])
        said = [*answer.tokens, EOS][:6]
        assert said == table.argmax(-1).tolist()[: len(said)]
        assert answer.log_probability == pytest.approx(
            worth(model, alone(question, row), answer, 6)
        )


def every_answer(model: torch.nn.Module, question: Question, longest: int) -> list[Answer]:
    others = [token for token in range(TARGET) if token != EOS]
    found = []
    for length in range(longest + 1):
        answers = list(itertools.product(others, repeat=length))
        for tokens, table in zip(answers, log_probabilities(model, question, answers), strict=True):
            said = [*tokens, EOS][:longest]
            chosen = table[range(len(said)), said]
            found.append(Answer(list(tokens), float(chosen.sum())))
    return found


def rank(longest: int, power: float, answer: Answer) -> float:
    length = len(answer.tokens) + (len(answer.tokens) < longest)
    return -answer.log_probability / length**power


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.soak) for n in MODELS],
)
def test_a_wide_beam_finds_what_exhaustive_search_finds(name: str, kind: str) -> None:
    for power in [0.0, 0.6, 1.0]:
        model, question = make(name, kind), alone(ask(kind), 0)
        longest = 3

        best = sorted(every_answer(model, question, longest), key=partial(rank, longest, power))
        (found,) = beam(model, question, longest, width=TARGET**longest, length_power=power)
        assert [answer.tokens for answer in found] == [answer.tokens for answer in best]
        for answer, truth in zip(found, best, strict=True):
            assert answer.log_probability == pytest.approx(truth.log_probability)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_beams_of_a_batch_are_those_of_each_question_alone(name: str, kind: str) -> None:
    model, question = make(name, kind), ask(kind)
    for row, found in enumerate(beam(model, question, max_new=5, width=3)):
        (single,) = beam(model, alone(question, row), max_new=5, width=3)
        assert [answer.tokens for answer in found] == [answer.tokens for answer in single]
        for answer in found:
            truth = worth(model, alone(question, row), answer, 5)
            assert answer.log_probability == pytest.approx(truth)


def test_samples_come_as_often_as_they_are_probable() -> None:
    model = make("attention", "decoder")
    question = Question(prompt=torch.tensor([[3, 4]]).expand(4000, 2))
    answers = sample(model, question, max_new=1, temperature=0.7, seed=3)
    drawn = [(answer.tokens or [EOS])[0] for answer in answers]
    logits = log_probabilities(model, Question(prompt=torch.tensor([[3, 4]])), [[]])[0, 0]
    for token, probability in enumerate((logits / 0.7).softmax(-1).tolist()):
        spread = math.sqrt(probability * (1 - probability) / len(drawn))
        assert abs(drawn.count(token) / len(drawn) - probability) < 4 * spread + 1e-9


def test_the_same_seed_draws_the_same_answers() -> None:
    model, question = make("lstm", "encoder_decoder"), ask("encoder_decoder")
    first, again, other = (
        [answer.tokens for answer in sample(model, question, 6, seed=seed)] for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("temperature", [1e-39, 1e-320, 1e-7])
def test_the_colder_the_draws_the_nearer_to_greedy(temperature: float) -> None:
    model, question = make("attention", "decoder"), ask("decoder")
    cold = sample(model, question, 6, temperature=temperature)
    likeliest = greedy(model, question, 6)
    assert [answer.tokens for answer in cold] == [answer.tokens for answer in likeliest]


def test_a_sequence_stops_at_its_own_end_and_others_go_on() -> None:
    script = iter([[3, EOS, 4], [EOS, 5], [5], [5]])  # closed rows leave the batch

    def pick(logits: Tensor) -> Tensor:
        return torch.tensor(next(script))

    question = Question(prompt=torch.tensor([[3], [4], [5]]))
    answers = generate(make("attention", "decoder"), question, 4, pick)
    assert [answer.tokens for answer in answers] == [[3], [], [4, 5, 5, 5]]


def test_what_cannot_be_asked_is_said_in_words() -> None:
    for wrong, named in [
        (lambda model: sample(model, ask("decoder"), 3, temperature=0), "temperature"),
        (lambda model: sample(model, ask("decoder"), 3, temperature=math.nan), "temperature"),
        (lambda model: sample(model, ask("decoder"), 3, temperature=math.inf), "finite"),
        (lambda model: beam(model, ask("decoder"), 3, width=0), "width"),
        (lambda model: beam(model, ask("decoder"), 3, length_power=-1), "length_power=-1: must"),
        (lambda model: beam(model, ask("decoder"), 3, length_power=math.nan), "length_power=nan"),
        (lambda model: beam(model, ask("decoder"), 3, length_power=400.0), "from 0 to 10"),
        (lambda model: greedy(model, ask("decoder"), 0), "max_new"),
        (lambda model: greedy(model, Question(), 3), "source or a prompt"),
        (lambda model: greedy(model, Question(prompt=torch.ones(2, 0).long()), 3), "prompt"),
    ]:
        assert callable(wrong)
        with pytest.raises(ValueError, match=named):
            wrong(make("attention", "decoder"))


def test_a_beam_does_not_read_the_padding_of_its_prompt() -> None:
    model, words = make("attention", "decoder"), torch.tensor([[3, 4, 5]])
    padded = Question(prompt=torch.tensor([[3, 4, 5, 0, 0]]), prompt_lengths=torch.tensor([3]))
    (plain,), (found,) = (beam(model, q, 4, width=2) for q in (Question(prompt=words), padded))
    assert [answer.tokens for answer in found] == [answer.tokens for answer in plain]
