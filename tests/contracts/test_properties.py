"""Properties that hold for any lengths and any padding, searched by hypothesis."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace

import torch
from contract_checks import assert_same
from contract_samples import answers, enlarged, run, sample
from contract_subjects import TARGET_SIZE, Subject, around, combined
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from model.attention import SIMILARITY
from model.family import MODEL
from model.feedforward import FEEDFORWARD
from model.generate import Question, greedy
from model.mixer import MIXER
from model.norm import NORM
from model.positions import POSITION
from model.residual import RESIDUAL
from model.scale import SCALE

few = settings(max_examples=20)
lengths = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)


@functools.cache
def model(name: str, kind: str | None = None) -> Subject:
    return around(MODEL, name, kind)


def of_equal_count(
    first: tuple[int, ...], second: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    count = min(len(first), len(second))
    return first[:count], second[:count]


parts = st.fixed_dictionaries(
    {
        family.word: st.sampled_from(sorted(family.parts))
        for family in (POSITION, NORM, RESIDUAL, MIXER, FEEDFORWARD, SCALE, SIMILARITY)
    }
)
batches = st.tuples(lengths, lengths).map(lambda both: of_equal_count(*both))


@few
@given(st.sampled_from(["encoder", "decoder", "encoder_decoder"]), parts, batches, st.data())
def test_whatever_the_parts_no_answer_knows_of_padding_or_of_the_future(
    kind: str,
    choices: dict[str, str],
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    data: st.DataObject,
) -> None:
    subject = combined(kind, choices)
    batch = sample(subject, *sizes, seed=data.draw(st.integers(0, 99), "seed"))
    padded = enlarged(batch, data.draw(st.integers(0, 6), "extra"), seed=1)
    before, after = (answers(subject.moved(), given) for given in (batch, padded))
    assert_same(after, before, "padding changed an answer")
    assert [len(row) for row in before] == list(sizes[0] if subject.decodes else sizes[1])
    if subject.decodes:
        inputs = batch.inputs.clone()
        cut = data.draw(st.integers(0, inputs.shape[1]), "cut")
        inputs[:, cut:] = (inputs[:, cut:] + 1) % TARGET_SIZE
        changed = answers(subject.moved(), replace(batch, inputs=inputs))
        pairs = [(row[:cut], other[:cut]) for row, other in zip(before, changed, strict=True)]
        for row, other in pairs:
            assert_same(other, row, "a later token changed an earlier answer")


@functools.cache
def undecided(subject: Subject) -> nn.Module:
    """Every token is about as likely, so that some answers end before others."""
    asked = copy.deepcopy(subject.moved())
    logits_BTV = run(asked, sample(subject, (7,) * 50, (5,) * 50))
    with torch.no_grad():
        asked.head.project.bias -= logits_BTV.mean(dim=(0, 1))
    return asked


@few
@given(st.sampled_from(["transformer", "recurrent"]), lengths, st.integers(0, 99))
def test_greedy_answers_are_the_same_in_a_batch_and_alone(
    name: str, source_lengths: tuple[int, ...], seed: int
) -> None:
    subject = model(name, "encoder_decoder" if name == "transformer" else None)
    asked = undecided(subject)
    batch = sample(subject, source_lengths, source_lengths, seed=seed)
    together = greedy(asked, Question(batch.source, batch.source_lengths), max_new=6)
    alone = [
        greedy(asked, Question(words[None, :length]), max_new=6)[0]
        for words, length in zip(batch.source, source_lengths, strict=True)
    ]
    assert [answer.tokens for answer in together] == [answer.tokens for answer in alone]
