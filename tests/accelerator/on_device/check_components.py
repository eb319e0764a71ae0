"""A step of every component never waits for the device, and learns what it learns on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch
from contract_subjects import Subject, every_subject, run, sample
from torch import nn

from ablations.train.config import TrainConfig
from ablations.train.loop import update
from model.batch import Batch
from model.build import build

LAST = torch.device("standin", torch.accelerator.device_count() - 1)
CONFIG = TrainConfig(steps=3, batch_tokens=64)


@contextmanager
def waits_refused() -> Iterator[None]:
    torch.ops.standin.refuse_waits(True)
    try:
        yield
    finally:
        torch.ops.standin.refuse_waits(False)


def labelled(batch: Batch, subject: Subject) -> Batch:
    """With a random label for each answer of the model."""
    logits = run(subject.fresh(), batch)
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(logits.shape[-1], logits.shape[:-1], generator=generator)
    return replace(batch, labels=labels)


def trained(model: nn.Module, subject: Subject, device: torch.device) -> list[float]:
    """The losses of three steps; after the first, which may set up, none may wait."""
    model = copy.deepcopy(model).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(3):
        batch = labelled(sample(subject, seed=step), subject)
        tokens = batch.tokens
        with waits_refused() if step else nullcontext():
            loss, _ = update(model, [batch.to(device)], tokens, optimizer, CONFIG)
        losses.append(loss)
    return [loss.item() for loss in losses]


@pytest.mark.parametrize("subject", every_subject(), ids=str)
def test_a_step_never_waits_and_learns_as_on_the_cpu(subject: Subject) -> None:
    without = {name: 0.0 for name in subject.written if "dropout" in name}
    model = build({**subject.written, **without}, *subject.sizes, seed=0)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return
    on_cpu = trained(model, subject, torch.device("cpu"))
    assert trained(model, subject, LAST) == pytest.approx(on_cpu, rel=1e-4)
