"""What the subjects are given to read, and how their answers are taken."""

from __future__ import annotations

from dataclasses import replace

import torch
from contract_subjects import SOURCE_SIZE, TARGET_SIZE, Subject
from torch import Tensor, nn

from model.batch import PAD, Batch

LENGTHS = (6, 3, 5)
SOURCE_LENGTHS = (5, 7, 4)


def draw(size: int, lengths: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random words of these lengths, padded to the longest."""
    tokens = torch.randint(3, size, (len(lengths), max(lengths)), generator=generator)
    real = torch.tensor(lengths)
    return tokens.masked_fill(torch.arange(max(lengths)) >= real[:, None], PAD), real


def sample(
    subject: Subject,
    lengths: tuple[int, ...] = LENGTHS,
    source_lengths: tuple[int, ...] = SOURCE_LENGTHS,
    seed: int = 0,
) -> Batch:
    """A batch with padding on every side that the subject reads."""
    generator = torch.Generator().manual_seed(seed)
    source, source_real = draw(subject.sizes[0] or SOURCE_SIZE, source_lengths, generator)
    inputs, real = draw(TARGET_SIZE, lengths, generator)
    batch = Batch(labels=inputs)
    if subject.decodes:
        batch = replace(batch, inputs=inputs, lengths=real)
    if subject.reads_source:
        batch = replace(batch, source=source, source_lengths=source_real)
    return batch


def enlarged(batch: Batch, extra: int, seed: int) -> Batch:
    """The same sequences with `extra` columns of padding more, all padding filled with noise."""
    generator = torch.Generator().manual_seed(seed)

    def fill(tokens: Tensor | None, lengths: Tensor | None) -> Tensor | None:
        if tokens is None or lengths is None:
            return tokens
        shape = (len(tokens), tokens.shape[1] + extra)
        noise = torch.randint(0, TARGET_SIZE, shape, generator=generator)
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        noise[:, : tokens.shape[1]][real] = tokens[real]
        return noise

    return replace(
        batch,
        inputs=fill(batch.inputs, batch.lengths),
        source=fill(batch.source, batch.source_lengths),
    )


def single(batch: Batch, row: int) -> Batch:
    """One sequence by itself, without padding."""

    def cut(tokens: Tensor | None, lengths: Tensor | None) -> Tensor | None:
        if tokens is None:
            return None
        return tokens[row : row + 1, : None if lengths is None else int(lengths[row])]

    return Batch(
        labels=batch.labels[row : row + 1],
        inputs=cut(batch.inputs, batch.lengths),
        source=cut(batch.source, batch.source_lengths),
    )


def run(model: nn.Module, batch: Batch) -> Tensor:
    """The logits as they come."""
    with torch.no_grad():
        return model(batch)


def answers(model: nn.Module, batch: Batch) -> list[Tensor]:
    """The logits of each sequence where it is real."""
    logits = model(batch)
    lengths = batch.source_lengths if batch.inputs is None else batch.lengths
    if logits.dim() == 2 or lengths is None:
        return list(logits)
    return [row[:length] for row, length in zip(logits, lengths.tolist(), strict=True)]
