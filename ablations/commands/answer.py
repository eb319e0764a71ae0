"""A trained model's answer to the user's own input, and what it attended to.

T: tokens written, S: tokens read, V: possible answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from ablations.store.identity import canonical_json
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.tasks.task import Task, load_task
from ablations.train.checkpoint import load_weights, stamp_for
from model.attention import attention
from model.batch import Batch
from model.build import build
from model.config import ConfigError
from model.generate import Generator, Question, greedy
from model.heads import Classes, last
from model.layers import evaluating

LONGEST = 2000  # tokens: the attention weights need memory for its square


@dataclass(frozen=True)
class Reply:
    """An answer in words, its probability, and the attention of its tokens to the input."""

    text: str
    probability: float
    read: list[str]
    written: list[str]
    weights: list[list[float]] | None  # T S, mean over heads; None: nothing was attended to
    runner_up: tuple[str, float] | None = None
    """The next best answer and its probability, where one position's logits are the answer."""

    def looked_at(self) -> list[tuple[str, str, float]]:
        """For each written token, the symbol with the largest weight, and that weight."""
        found = []
        for token, row in zip(self.written, self.weights or [], strict=False):
            weight, symbol = max(zip(row, self.read, strict=True))
            found.append((token, symbol, weight))
        return found


def answer(record: Record, results: Results, text: str) -> Reply:
    """Let a trial's model answer; ConfigError if it cannot."""
    trial = f"trial {record.id}"
    if record.status == "diverged":
        raise ConfigError([f"{trial} diverged ({record.reason}): it answers nothing"])
    checkpoint = results.weights(record.id)
    if not checkpoint.exists():
        raise ConfigError([f"{trial} has no checkpoint: run it again"])
    task = load_task(canonical_json(record.config["task"]))
    if task.digest() != record.data.get("sha256"):
        raise ConfigError([f"the data has changed since {trial}: put it back, or run again"])
    try:
        question, read = task.ask(text), task.symbols(text)
    except ValueError as error:
        raise ConfigError([str(error)]) from None
    if len(read) > LONGEST:
        raise ConfigError([f"the input has {len(read)} tokens: write {LONGEST} at most"])
    written = record.config["model"]
    if "path" in written:  # the same weights and numbers, with nothing hidden
        written = {**written, "path": {"name": "explicit"}}
    model = build(written, task.source_size, task.target_size, seed=None)
    load_weights(model, checkpoint, stamp_for(record))
    try:
        with evaluating(model):
            reply = (_write if task.writes else _read_off)(model, task, question, read)
    except ValueError as error:  # positions that this model has no vectors for
        raise ConfigError([f"too long for this model: {error}"]) from None
    if not math.isfinite(reply.probability):
        raise ConfigError([f"{trial} is {record.status} ({record.reason}): it answers only NaN"])
    return reply


def _write(model: nn.Module, task: Task, question: Question, read: list[str]) -> Reply:
    """An answer token by token, until its end or until there is no more room."""
    prompt_1T = question.prompts()
    longest = task.longest
    if question.source is not None:
        longest = max(longest, question.source.shape[1] + 1)
    room = longest - prompt_1T.shape[1]
    if room < 1:
        raise ValueError(f"it has {1 - room} tokens more than {longest - 1}")
    (said,) = greedy(cast(Generator, model), question, room)
    written = task.show(said.tokens)
    if len(said.tokens) < room:
        written.append("end")
    first = prompt_1T.shape[1] - 1  # the last token of the prompt asks for the first of the answer
    inputs = torch.cat((prompt_1T, torch.tensor([said.tokens], dtype=torch.long)), dim=1)
    inputs = inputs[:, : first + len(written)]
    weights_TS = _looked_at(model, Batch(inputs, inputs=inputs, source=question.source))
    weights = None if weights_TS is None else weights_TS[first:, : len(read)].tolist()
    probability = math.exp(said.log_probability)
    return Reply(task.to_text(said.tokens), probability, read, written, weights)


@torch.inference_mode()
def _read_off(model: nn.Module, task: Task, question: Question, read: list[str]) -> Reply:
    """The likeliest class, or the likeliest label at the last position."""
    tokens = question.source if question.prompt is None else question.prompt
    assert tokens is not None
    batch = Batch(tokens, inputs=question.prompt, source=question.source)
    probability_V = model(batch).flatten(0, -2)[-1].softmax(dim=-1)
    (best, second), labels = (each.tolist() for each in probability_V.topk(2))
    said, other = (task.to_text([label]) for label in labels)
    weights_TS, head = _looked_at(model, batch), getattr(model, "head", None)
    pool = head.pool if isinstance(head, Classes) else last
    weights = None if weights_TS is None else pool(weights_TS[None], None).tolist()
    return Reply(said, best, read, [said], weights, (other, second))


def _looked_at(model: nn.Module, batch: Batch) -> Tensor | None:
    """T S: the last attention to the source, or else to the sequence itself."""
    found = attention(model, batch)
    names = [name for name in found if "cross" in name or name == "shown"] or list(found)
    return found[names[-1]][0].mean(dim=0) if names else None
