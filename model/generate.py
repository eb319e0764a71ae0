"""Generation, one token at a time: greedy, sampled, or by beam search.

B: sequences, W: beams, T: positions given now, S: source positions, V: vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """What a generation starts from: a source, a prompt, or both; without a prompt, BOS."""

    source: Tensor | None = None  # B S
    source_lengths: Tensor | None = None  # B
    prompt: Tensor | None = None  # B T
    prompt_lengths: Tensor | None = None  # B

    def __post_init__(self) -> None:
        """Refuses what a batch would refuse."""
        if self.source is None and self.prompt is None:
            raise ValueError("nothing is asked: give a source or a prompt")
        if self.source is not None:
            Batch(self.source, source=self.source, source_lengths=self.source_lengths)
        if self.prompt is not None:
            if self.prompt.numel() == 0:
                raise ValueError("prompt is empty: give at least one token, such as BOS")
            Batch(self.prompt, inputs=self.prompt, lengths=self.prompt_lengths)

    def prompts(self) -> tuple[Tensor, Tensor]:
        """B T and B: what each sequence is given before it answers."""
        if self.prompt is not None:
            whole_B = self.prompt.new_full((len(self.prompt),), self.prompt.shape[1])
            return self.prompt, whole_B if self.prompt_lengths is None else self.prompt_lengths
        assert self.source is not None
        start_B1 = self.source.new_full((len(self.source), 1), BOS)
        return start_B1, start_B1.new_ones(len(self.source))


@dataclass
class Answer:
    """Tokens without BOS and EOS, and how probable the model found them, EOS included."""

    tokens: list[int]
    log_probability: float = 0.0


Pick = Callable[[Tensor], Tensor]  # B V → B
Candidate = tuple[float, int, int]  # of a beam: log probability, the beam it came from, token
NO_CANDIDATE: Candidate = (float("-inf"), 0, EOS)
HIGHEST_POWER = 10  # lengths to a much higher power are no floats any more


def greedy(model: Generator, question: Question, max_new: int) -> list[Answer]:
    """The likeliest next token, again and again, until each sequence has ended."""
    return generate(model, question, max_new, lambda logits_BV: logits_BV.argmax(dim=-1))


def sample(
    model: Generator, question: Question, max_new: int, temperature: float = 1.0, seed: int = 0
) -> list[Answer]:
    """Tokens drawn by their probability; the lower the temperature, the likelier the likeliest."""
    if not 0 < temperature < torch.inf:  # nor NaN
        raise ValueError(f"temperature={temperature}: must be positive and finite")
    prompt, _ = question.prompts()
    generator = torch.Generator(prompt.device).manual_seed(seed)

    def pick(logits_BV: Tensor) -> Tensor:
        # Below the likeliest, so that a tiny divisor gives −∞ and never NaN.
        below_BV = logits_BV - logits_BV.amax(dim=-1, keepdim=True)
        divisor = max(temperature, torch.finfo(below_BV.dtype).tiny)
        return torch.multinomial((below_BV / divisor).softmax(-1), 1, generator=generator)[:, 0]

    return generate(model, question, max_new, pick)


def generate(model: Generator, question: Question, max_new: int, pick: Pick) -> list[Answer]:
    """Answer every sequence, each until its own EOS or `max_new` tokens.

    What prompts have in common in length is read at once; longer ones then go on being read while
    shorter ones are answered already.
    """
    prompt_BT, lengths_B = question.prompts()
    if max_new < 1:
        raise ValueError(f"max_new={max_new}: must be at least 1")
    answers = [Answer([]) for _ in range(len(prompt_BT))]
    at, longest = int(lengths_B.min()), int(lengths_B.max())
    with evaluating(model), torch.inference_mode():
        decoding = model.begin(
            len(prompt_BT), longest + max_new, question.source, question.source_lengths
        )
        logits_BTV, decoding = model.step(prompt_BT[:, :at], decoding)
        rows = list(range(len(prompt_BT)))  # which question each row of the batch belongs to
        is_open = [True] * len(rows)
        ends = (lengths_B + max_new).tolist()
        while True:
            logits_BV = logits_BTV[:, -1]
            chosen_B = pick(logits_BV)
            log_p = logits_BV.log_softmax(-1).gather(-1, chosen_B[:, None])[:, 0].tolist()
            if at < longest:
                chosen_B = torch.where(at < lengths_B, prompt_BT[:, min(at, longest - 1)], chosen_B)
            tokens = chosen_B.tolist()
            for index, row in enumerate(rows):
                if not is_open[index] or at < ends[row] - max_new:
                    continue
                answers[row].log_probability += log_p[index]
                if tokens[index] == EOS:
                    is_open[index] = False
                    continue
                answers[row].tokens.append(tokens[index])
                is_open[index] = at + 1 < ends[row]
            at += 1
            still = [index for index, going in enumerate(is_open) if going]
            if not still:
                return answers
            if 4 * len(still) <= 3 * len(rows):  # rarely: it copies every cache
                kept_B = torch.tensor(still, device=prompt_BT.device)
                chosen_B, lengths_B = chosen_B[kept_B], lengths_B[kept_B]
                prompt_BT = prompt_BT[kept_B]
                rows, is_open = [rows[index] for index in still], [True] * len(still)
                decoding = decoding.select(kept_B)
            logits_BTV, decoding = model.step(chosen_B[:, None], decoding)


def beam(
    model: Generator, question: Question, max_new: int, width: int = 4, length_power: float = 1.0
) -> list[list[Answer]]:
    """The best `width` answers of each sequence, best first.

    An answer's worth is its log probability over (tokens with EOS) ** length_power (Wu et al.
    2016, simplified); 0 does not normalise. Prompts are read as `generate` reads them.
    """
    prompt_BT, lengths_B = question.prompts()
    if width < 1:
        raise ValueError(f"width={width}: must be at least 1")
    if max_new < 1:
        raise ValueError(f"max_new={max_new}: must be at least 1")
    if not 0 <= length_power <= HIGHEST_POWER:
        raise ValueError(f"length_power={length_power}: must be from 0 to {HIGHEST_POWER}")
    sequences, lengths, prompts = len(prompt_BT), lengths_B.tolist(), prompt_BT.tolist()
    shortest, end = min(lengths), max(lengths) + max_new
    with evaluating(model), torch.inference_mode():
        decoding = model.begin(sequences, end, question.source, question.source_lengths)
        logits_BTV, decoding = model.step(prompt_BT[:, :shortest], decoding)
        each_BW = torch.arange(sequences, device=prompt_BT.device).repeat_interleave(width)
        decoding, logits_NV = decoding.select(each_BW), logits_BTV[each_BW, -1]
        hopes = [_Beams(width, max_new, length_power) for _ in range(sequences)]
        worth_BW = logits_NV.new_full((sequences, width), float("-inf"))
        worth_BW[:, 0] = 0  # at first all beams are the same one
        for at in range(shortest, end):
            log_p = logits_NV.log_softmax(-1).view(sequences, width, -1) + worth_BW[..., None]
            size = log_p.shape[-1]
            best = log_p.flatten(1).topk(min(2 * width, width * size), dim=-1)
            values, places = best.values.tolist(), best.indices.tolist()
            grown = [
                hope.read(prompts[b][at])
                if at < lengths[b]
                else hope.grow(values[b], [divmod(place, size) for place in places[b]])
                for b, hope in enumerate(hopes)
            ]
            if all(hope.is_done for hope in hopes):
                break
            worth_BW = logits_NV.new_tensor([[worth for worth, _, _ in rows] for rows in grown])
            origin_N = [b * width + beam for b, rows in enumerate(grown) for _, beam, _ in rows]
            tokens_N = [token for rows in grown for _, _, token in rows]
            decoding = decoding.select(prompt_BT.new_tensor(origin_N))
            logits_NTV, decoding = model.step(prompt_BT.new_tensor(tokens_N)[:, None], decoding)
            logits_NV = logits_NTV[:, -1]
    return [hope.answers() for hope in hopes]


class _Beams:
    """The hypotheses of one sequence: those still growing and the best that have ended."""

    def __init__(self, width: int, max_new: int, length_power: float) -> None:
        self.width, self.max_new, self.power = width, max_new, length_power
        self.length = 0
        self.growing: list[list[int]] = [[]] * width
        self.ended: list[tuple[float, Answer]] = []
        self.is_done = False

    def read(self, token: int) -> list[Candidate]:
        """Force a token of the prompt, in one beam."""
        return [(0.0, 0, token)] + [NO_CANDIDATE] * (self.width - 1)

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

    def answers(self) -> list[Answer]:
        return [answer for _, answer in self.ended]
