"""With equal weights, the numbers of models put together from torch's own recurrent modules."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from model.batch import Batch
from model.build import build

SOURCE_SIZE, TARGET_SIZE, WIDTH, DEPTH = 11, 9, 8, 2
SOURCE_LENGTHS, LENGTHS = [5, 2, 6], [4, 6, 1]
CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}

# Ours → theirs; a layer of ours is a module of its own. What is not here has one name in both.
NAMES = {
    r"decoder\.embedding\.tokens": "embedding",
    r"decoder\.cells\.(\d)\.(\w+)_l0": r"layers.\2_l\1",
    r"encoder\.embedding\.tokens": "source_embedding",
    r"encoder\.forwards\.(\d)\.(\w+)_l0": r"encoder.\2_l\1",
    r"encoder\.backwards\.(\d)\.(\w+)_l0": r"encoder.\2_l\1_reverse",
    r"head\.project": "output",
    r"score\.": "score.maps.",
}
SCORES = ("none", "dot", "bilinear", "mlp")


class Score(nn.Module):
    """h · m, h · W m, or v · tanh(W h + U m), for every h and m."""

    def __init__(self, name: str) -> None:
        super().__init__()
        square = {"bilinear": ("project",), "mlp": ("state", "memory")}.get(name, ())
        self.maps = nn.ModuleDict({word: nn.Linear(WIDTH, WIDTH, bias=False) for word in square})
        if name == "mlp":
            self.maps["weigh"] = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, h: Tensor, memory: Tensor) -> Tensor:
        if "weigh" in self.maps:
            met = self.maps["state"](h)[:, :, None] + self.maps["memory"](memory)[:, None]
            return self.maps["weigh"](met.tanh()).squeeze(-1)
        asked = self.maps["project"](memory) if "project" in self.maps else memory
        return torch.einsum("bth,bsh->bts", h, asked)


class Language(nn.Module):
    """Embedding, recurrent layers, output."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TARGET_SIZE, WIDTH)
        self.layers = CELLS[cell](WIDTH, WIDTH, DEPTH, batch_first=True)
        self.output = nn.Linear(WIDTH, TARGET_SIZE)

    def forward(self, batch: Batch) -> Tensor:
        return self.output(self.layers(self.embedding(batch.inputs))[0])


class Seq2Seq(Language):
    """A packed bidirectional encoder; its ends start the decoder, which may read it."""

    def __init__(self, cell: str, score: str) -> None:
        super().__init__(cell)
        self.source_embedding = nn.Embedding(SOURCE_SIZE, WIDTH)
        self.encoder = CELLS[cell](WIDTH, WIDTH // 2, DEPTH, batch_first=True, bidirectional=True)
        self.states, self.reads = 2 if cell == "lstm" else 1, score != "none"
        self.score = Score(score)
        self.bridges = nn.ModuleList(nn.Linear(WIDTH, self.states * WIDTH) for _ in range(DEPTH))
        self.combine = nn.Linear(2 * WIDTH if self.reads else WIDTH, WIDTH)

    def forward(self, batch: Batch) -> Tensor:
        x = self.source_embedding(batch.source)
        packed = pack_padded_sequence(
            x, batch.source_lengths, batch_first=True, enforce_sorted=False
        )
        outputs, ends = self.encoder(packed)
        memory, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        hidden = ends[0] if self.states == 2 else ends
        joined = torch.cat((hidden[0::2], hidden[1::2]), dim=-1)  # layer by layer, both ways
        bridged = torch.stack([b(end).tanh() for b, end in zip(self.bridges, joined, strict=True)])
        start = tuple(part.contiguous() for part in bridged.chunk(self.states, dim=-1))
        h, _ = self.layers(self.embedding(batch.inputs), start if self.states == 2 else start[0])
        if self.reads:
            real = torch.arange(x.shape[1]) < batch.source_lengths[:, None]
            fit = self.score(h, memory).masked_fill(~real[:, None], -torch.inf)
            h = torch.cat((h, fit.softmax(-1) @ memory), dim=-1)
        return self.output(self.combine(h).tanh())


def name_there(name: str) -> str:
    for ours, theirs in NAMES.items():
        name = re.sub(f"^{ours}", theirs, name)
    return name


def twin(theirs: nn.Module, **options: Any) -> nn.Module:
    """Our model; every weight of the two is random and equal."""
    ours = build(
        {"name": "recurrent", "d_model": WIDTH, "depth": DEPTH, **options},
        SOURCE_SIZE, TARGET_SIZE, seed=0,
    )  # fmt: skip
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.5)
    assert {name_there(name) for name in ours.state_dict()} == set(theirs.state_dict())
    weights = theirs.state_dict()
    ours.load_state_dict({name: weights[name_there(name)] for name in ours.state_dict()})
    return ours


def sample() -> Batch:
    """Random tokens, also under the padding; one column of it is nobody's."""
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randint(TARGET_SIZE, (3, max(LENGTHS) + 1), generator=draw)
    source = torch.randint(SOURCE_SIZE, (3, max(SOURCE_LENGTHS) + 1), generator=draw)
    lengths, source_lengths = torch.tensor(LENGTHS), torch.tensor(SOURCE_LENGTHS)
    return Batch(inputs, inputs, lengths, source, source_lengths)


def assert_equal_models(ours: nn.Module, theirs: nn.Module) -> None:
    """The same logits, and the same gradient in every parameter."""
    batch = sample()
    real = torch.arange(batch.labels.shape[1]) < torch.tensor(LENGTHS)[:, None]
    close = {"rtol": 1e-9, "atol": 1e-9}
    logits = [model(batch)[real] for model in (ours, theirs)]
    torch.testing.assert_close(*logits, **close)
    for each in logits:
        F.cross_entropy(each, batch.labels[real]).backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.any(), name
        torch.testing.assert_close(parameter.grad, gradients[name_there(name)], **close)


@pytest.mark.parametrize("score", [None, *SCORES])
@pytest.mark.parametrize("cell", CELLS)
def test_equal_weights_give_the_logits_and_the_gradients_of_torch(
    cell: str, score: str | None
) -> None:
    kind = {"kind": "encoder_decoder", "score": score} if score else {"kind": "decoder"}
    for form in ("kernel", "steps"):
        theirs = Seq2Seq(cell, score) if score else Language(cell)
        ours = twin(theirs, cell={"name": cell, "form": form}, **kind)
        assert_equal_models(ours.double(), theirs.double())
