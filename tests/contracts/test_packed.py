"""Every part can be packed: as one of several replicas it has the losses and gradients that it has
alone, whatever the shapes of the batches, and no operation is left to a loop over the replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from contract_subjects import Subject, every_subject, sample
from torch import nn

from ablations.train.config import TrainConfig
from ablations.train.loop import update
from ablations.train.pack import Pack
from model.batch import IGNORE, Batch
from model.build import build

CPU = torch.device("cpu")
STILL = {"name": "sgd", "lr": 1e-30}  # so that gradients can be compared after a step
SHAPES = [((6, 3, 5), (5, 7, 4)), ((4, 4), (6, 6)), ((2,), (3,))]


def moved(subject: Subject, seed: int) -> nn.Module:
    """Without dropout, in double precision, every parameter moved from where it starts."""
    written: dict[str, Any] = {
        name: 0.0 if name.endswith("dropout") else value for name, value in subject.written.items()
    }
    model = build(written, *subject.sizes, seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(noise, alpha=0.3)
    return model


def labelled(subject: Subject, model: nn.Module, seed: int) -> Batch:
    """A batch whose labels stand where the model's answers do."""
    lengths, source_lengths = SHAPES[seed]
    batch = sample(subject, lengths, source_lengths, seed)
    with torch.no_grad():
        shape = model(batch).shape
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, shape[-1], shape[:-1], generator=generator)
    real = batch.source_lengths if batch.inputs is None else batch.lengths
    if len(shape) == 3 and real is not None:
        labels = labels.masked_fill(torch.arange(shape[1]) >= real[:, None], IGNORE)
    return replace(batch, labels=labels)


QUICK = {  # the rest in the soak tests
    "model-transformer-encoder_decoder", "model-recurrent-encoder_decoder",
    "model-recurrent-decoder", "mixer-convolution", "mixer-mingru", "mixer-window", "mixer-lstm",
    "position-rotary", "position-shaw", "position-t5", "feedforward-swiglu", "head-classes",
}  # fmt: skip


SUBJECTS = [
    pytest.param(subject, marks=[] if subject.name in QUICK else pytest.mark.soak, id=subject.name)
    for subject in every_subject()
]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_part_learns_the_same_in_a_pack_as_alone(subject: Subject) -> None:
    config = TrainConfig(optimizer=STILL, clip=None)
    models = [moved(subject, seed) for seed in range(len(SHAPES))]
    batches = [labelled(subject, model, seed) for seed, model in enumerate(models)]
    pack = Pack(models, None, config, range(len(SHAPES)), CPU)  # type: ignore[arg-type]
    pack.step = 1
    norm_P = pack.learn([[batch] for batch in batches])
    stacked = {name: p.grad for name, p in pack.model.named_parameters()}
    for index, (model, batch) in enumerate(zip(models, batches, strict=True)):
        still = torch.optim.SGD(model.parameters(), lr=0.0)
        loss, norm = update(model, [batch], batch.tokens, still, config)
        torch.testing.assert_close(pack.replicas[index].recent[0], loss)
        torch.testing.assert_close(norm_P[index], norm)
        for name, parameter in model.named_parameters():
            together, alone = stacked[name], parameter.grad
            assert (together is None) == (alone is None), name
            if together is not None:
                torch.testing.assert_close(together[index], alone, rtol=1e-9, atol=1e-9, msg=name)
