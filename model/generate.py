"""Generation, one token at a time: greedily or by beam search.

B: sequences, W: beams, T: positions given now, S: source positions, V: vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from model.batch import BOS, EOS, Batch
from model.layers import evaluating


@dataclass(frozen=True)
class Decoding:
    """The state of a generation: what the model keeps of the tokens so far."""

    start: int  # tokens so far
    states: Any  # nested tuples and lists of tensors, sequences first
    memory: Tensor | None = None  # B S D
    memory_lengths: Tensor | None = None  # B

    def select(self, rows_B: Tensor) -> Decoding:
        """The same with other sequences: some dropped, some doubled."""
        kept = (self.states, self.memory, self.memory_lengths)
        states, memory, lengths = tree_map_only(Tensor, lambda x: x.index_select(0, rows_B), kept)
        return replace(self, states=states, memory=memory, memory_lengths=lengths)


class Generator(Protocol):
    """The interface of a model that generates."""

    def begin(
        self, sequences: int, capacity: int, source_BS: Tensor | None, lengths_B: Tensor | None
    ) -> Decoding: ...

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]: ...


@dataclass(frozen=True)
class Question:
    """The start of a generation: a source, a prompt, or both; without a prompt, BOS."""

    source: Tensor | None = None  # B S
    source_lengths: Tensor | None = None  # B
    prompt: Tensor | None = None  # B T, without padding

    def __post_init__(self) -> None:
        """Refuses what a batch would refuse."""
        if self.source is None and self.prompt is None:
            raise ValueError("nothing is asked: give a source or a prompt")
        if self.source is not None:
            Batch(self.source, source=self.source, source_lengths=self.source_lengths)
        if self.prompt is not None and self.prompt.numel() == 0:
            raise ValueError("prompt is empty: give at least one token, such as BOS")

    def prompts(self) -> Tensor:
        """B T: what each sequence is given before it answers."""
        if self.prompt is not None:
            return self.prompt
        assert self.source is not None
        return self.source.new_full((len(self.source), 1), BOS)


@dataclass
class Answer:
    """Tokens without BOS and EOS, and how probable the model found them, EOS included."""

    tokens: list[int]
    log_probability: float = 0.0


Candidate = tuple[float, int, int]  # of a beam: log probability, the beam it came from, token
NO_CANDIDATE: Candidate = (float("-inf"), 0, EOS)
HIGHEST_POWER = 10  # lengths to a much higher power are no floats any more


def greedy(model: Generator, question: Question, max_new: int) -> list[Answer]:
    """The likeliest next token, again and again, until each sequence's EOS or `max_new` tokens."""
    next_BT = question.prompts()
    if max_new < 1:
        raise ValueError(f"max_new={max_new}: must be at least 1")
    answers = [Answer([]) for _ in range(len(next_BT))]
    with evaluating(model), torch.inference_mode():
        decoding = _begin(model, question, max_new)
        rows = list(range(len(answers)))  # which answer each row of the batch belongs to
        is_open = [True] * len(rows)
        for _ in range(max_new):
            logits_BTV, decoding = model.step(next_BT, decoding)
            logits_BV = logits_BTV[:, -1]
            chosen_B = logits_BV.argmax(dim=-1)
            log_p = logits_BV.log_softmax(-1).gather(-1, chosen_B[:, None])[:, 0].tolist()
            for index, token in enumerate(chosen_B.tolist()):
                if not is_open[index]:
                    continue
                answer = answers[rows[index]]
                answer.log_probability += log_p[index]
                if token == EOS:
                    is_open[index] = False
                else:
                    answer.tokens.append(token)
            still = [index for index, going in enumerate(is_open) if going]
            if not still:
                break
            if 4 * len(still) <= 3 * len(rows):  # rarely: it copies every cache
                kept_B = torch.tensor(still, device=chosen_B.device)
                chosen_B, decoding = chosen_B[kept_B], decoding.select(kept_B)
                rows, is_open = [rows[index] for index in still], [True] * len(still)
            next_BT = chosen_B[:, None]
    return answers


def _begin(model: Generator, question: Question, max_new: int) -> Decoding:
    sequences, length = question.prompts().shape
    return model.begin(sequences, length + max_new, question.source, question.source_lengths)


def beam(
    model: Generator, question: Question, max_new: int, width: int = 4, length_power: float = 1.0
) -> list[list[Answer]]:
    """The best `width` answers of each sequence, best first.

    An answer's worth is its log probability over (tokens with EOS) ** length_power (Wu et al.
    2016, simplified); 0 does not normalise.
    """
    prompt_BT = question.prompts()
    if width < 1:
        raise ValueError(f"width={width}: must be at least 1")
    if max_new < 1:
        raise ValueError(f"max_new={max_new}: must be at least 1")
    if not 0 <= length_power <= HIGHEST_POWER:
        raise ValueError(f"length_power={length_power}: must be from 0 to {HIGHEST_POWER}")
    sequences = len(prompt_BT)
    with evaluating(model), torch.inference_mode():
        logits_BTV, decoding = model.step(prompt_BT, _begin(model, question, max_new))
        each_BW = torch.arange(sequences, device=prompt_BT.device).repeat_interleave(width)
        decoding, logits_NV = decoding.select(each_BW), logits_BTV[each_BW, -1]
        hopes = [_Beams(width, max_new, length_power) for _ in range(sequences)]
        worth_BW = logits_NV.new_full((sequences, width), float("-inf"))
        worth_BW[:, 0] = 0  # at first all beams are the same one
        while True:
            log_p = logits_NV.log_softmax(-1).view(sequences, width, -1) + worth_BW[..., None]
            size = log_p.shape[-1]
            best = log_p.flatten(1).topk(min(2 * width, width * size), dim=-1)
            values, places = best.values.tolist(), best.indices.tolist()
            grown = [
                hope.grow(values[b], [divmod(place, size) for place in places[b]])
                for b, hope in enumerate(hopes)
            ]
            if all(hope.is_done for hope in hopes):
                return [[answer for _, answer in hope.ended] for hope in hopes]
            worth_BW = logits_NV.new_tensor([[worth for worth, _, _ in rows] for rows in grown])
            origin_N = [b * width + beam for b, rows in enumerate(grown) for _, beam, _ in rows]
            tokens_N = [token for rows in grown for _, _, token in rows]
            decoding = decoding.select(prompt_BT.new_tensor(origin_N))
            logits_NTV, decoding = model.step(prompt_BT.new_tensor(tokens_N)[:, None], decoding)
            logits_NV = logits_NTV[:, -1]


class _Beams:
    """The hypotheses of one sequence: those still growing and the best that have ended."""

    def __init__(self, width: int, max_new: int, length_power: float) -> None:
        self.width, self.max_new, self.power = width, max_new, length_power
        self.length = 0
        self.growing: list[list[int]] = [[]] * width
        self.ended: list[tuple[float, Answer]] = []
        self.is_done = False

    def grow(self, values: list[float], places: list[tuple[int, int]]) -> list[Candidate]:
        """The beams that go on, best first."""
        if self.is_done:  # and waits for others
            return [NO_CANDIDATE] * self.width
        self.length += 1
        rows: list[Candidate] = []
        for value, (beam, token) in zip(values, places, strict=True):
            if value == float("-inf"):
                continue
            tokens = self.growing[beam]
            if token == EOS:
                self._end(tokens, value)
            elif len(rows) < self.width:
                rows.append((value, beam, token))
        grown = [[*self.growing[beam], token] for _, beam, token in rows]
        if self.length == self.max_new:
            for (value, _, _), tokens in zip(rows, grown, strict=True):
                self._end(tokens, value)
        # Growing only lowers a log probability; at best it is spread over the most tokens.
        hope = max((value / self.max_new**self.power for value, _, _ in rows), default=-torch.inf)
        full = len(self.ended) == self.width
        is_beaten = full and hope <= self.ended[-1][0]
        self.is_done = self.length == self.max_new or not rows or is_beaten
        self.growing = grown + [[]] * (self.width - len(grown))
        return rows + [NO_CANDIDATE] * (self.width - len(rows))

    def _end(self, tokens: list[int], value: float) -> None:
        self.ended.append((value / self.length**self.power, Answer(list(tokens), value)))
        self.ended.sort(key=lambda scored: -scored[0])
        del self.ended[self.width :]
