"""A trained model's answer to a question that anyone may ask, and what it looked at.

T: what was written, S: what was read.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch

from ablations.config import replaced
from ablations.expand import freeze, load_task
from ablations.record import Record, Results
from ablations.weights import load_weights
from model.batch import EOS, Batch
from model.build import build
from model.config import ConfigError
from model.generate import Answer, Generator, Question, greedy
from model.look import attention

SHADES = " ░▒▓█"


@dataclass(frozen=True)
class Reply:
    """An answer in words, its probability, and the weights between what was written and read."""

    text: str
    probability: float
    read: list[str]
    written: list[str]
    weights: list[list[float]] | None  # T S, mean over heads; None: nothing was attended to
    where: str


def answer(record: Record, results: Results, text: str) -> Reply:
    """Ask a trial's checkpoint."""
    checkpoint = results.checkpoint(record.trial)
    if not checkpoint.exists():
        raise ConfigError([f"trial {record.trial} has no checkpoint: run it again"])
    task = load_task(freeze(record.config["task"]))
    try:
        question = task.ask(text)
    except ValueError as error:
        raise ConfigError([str(error)]) from None
    written = record.config["model"]
    if "path" in written:  # the same weights and numbers, with nothing hidden
        written = replaced(written, "path", {"name": "explicit"})
    model = build(written, task.source_size, task.target_size, seed=None)
    load_weights(model, checkpoint)
    prompt_1T, _ = question.prompts()
    room = task.longest - prompt_1T.shape[1]
    if room < 1:
        raise ConfigError([f"too long by {1 - room} tokens: {task.longest - 1} at most"])
    (said,) = greedy(cast(Generator, model), question, room)
    weights, where = _looked_at(model, question, said)
    told = [task.tell([token]) for token in said.tokens]
    return Reply(
        task.tell(said.tokens),
        math.exp(said.log_probability),
        task.symbols(text),
        [*told, "end"],
        weights,
        where,
    )


def _looked_at(
    model: torch.nn.Module, question: Question, said: Answer
) -> tuple[list[list[float]] | None, str]:
    """The last attention from what is written to what was read: the source, or the prompt."""
    prompt_1T, _ = question.prompts()
    inputs = torch.cat((prompt_1T, torch.tensor([said.tokens], dtype=torch.long)), dim=1)
    batch = Batch(torch.full_like(inputs, EOS), inputs=inputs)
    found = attention(model, replace(batch, source=question.source))
    names = [name for name in found if "cross" in name or name == "shown"] or list(found)
    if not names:
        return None, ""
    weights_TS = found[names[-1]][0].mean(dim=0)
    first = prompt_1T.shape[1] - 1  # the last token of the prompt asks for the first of the answer
    read = weights_TS.shape[1] if question.source is not None else prompt_1T.shape[1]
    return weights_TS[first:, :read].tolist(), names[-1]


def drawn(reply: Reply) -> str:
    """The weights as shades, one line for each written token."""
    if reply.weights is None:
        return "This model attends to nothing."
    width = max(map(len, reply.written))
    cell = max(map(len, reply.read)) + 1
    lines = [" " * (width + 1) + "".join(f"{symbol:<{cell}}" for symbol in reply.read)]
    for token, row in zip(reply.written, reply.weights, strict=True):
        shades = [SHADES[min(len(SHADES) - 1, int(weight * len(SHADES)))] for weight in row]
        lines.append(f"{token:>{width}} " + "".join(f"{shade * (cell - 1)} " for shade in shades))
    return "\n".join(line.rstrip() for line in lines)


def picture(reply: Reply, size: int = 26) -> str:
    """The same as SVG, darker for more weight."""
    weights: Sequence[Sequence[float]] = reply.weights or []
    width, height = (len(reply.read) + 3) * size, (len(weights) + 2) * size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="{size * 0.45}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for column, symbol in enumerate(reply.read):
        x = (column + 2.5) * size
        parts.append(f'<text x="{x}" y="{size}" text-anchor="middle">{html.escape(symbol)}</text>')
    for row, (token, line) in enumerate(zip(reply.written, weights, strict=True)):
        y = (row + 1.5) * size
        label = html.escape(token)
        parts.append(
            f'<text x="{1.8 * size}" y="{y + 0.6 * size}" text-anchor="end">{label}</text>'
        )
        for column, weight in enumerate(line):
            grey = round(255 * (1 - weight))
            parts.append(
                f'<rect x="{(column + 2) * size}" y="{y}" width="{size}" height="{size}" '
                f'fill="rgb({grey},{grey},{grey})" stroke="#ddd"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"
