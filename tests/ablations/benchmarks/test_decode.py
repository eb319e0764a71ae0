"""Writing that is timed: the next token has seen all before it, a text has all its tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from small_task import Backwards
from torch import Tensor

from ablations.benchmarks.throughput import (
    ANEW,
    KEPT,
    LONGEST,
    OWN,
    Decode,
    Generation,
    Padding,
    padded,
)
from ablations.measurement import Place
from ablations.probes.dependence import PaddingSeen
from model.batch import IGNORE, PAD, Batch
from model.build import build
from model.layers import evaluating

CPU = torch.device("cpu")
RECURRENT = {"name": "recurrent", "kind": "decoder", "d_model": 8, "depth": 2, "cell": "lstm"}
WRITERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "attention": (TEXT, transformer(depth=2)),
    "window": (TEXT, transformer({"name": "window", "reach": 4})),
    "convolution": (TEXT, transformer({"name": "convolution", "kernel": 3})),
    "gru": (TEXT, transformer({"name": "gru"})),
    "recurrent": (TEXT, {"model": RECURRENT, "seed": 0}),
    "with a source": (PAIRS, transformer(kind="encoder_decoder")),
}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    watched = Watched()
    monkeypatch.setattr("ablations.measurement.build", watched.build)
    return watched


class Watched:
    """A model, and what it is given and answers step by step."""

    def __init__(self) -> None:
        self.given: list[Tensor] = []
        self.logits: list[Tensor] = []
        self.source: Tensor | None = None

    def build(self, *words: Any) -> Any:
        model: Any = build(*words)
        self.model = model.double()
        step, begin = model.step, model.begin

        def watched(tokens_BT: Tensor, decoding: Any) -> Any:
            logits_BTV, after = step(tokens_BT, decoding)
            self.given.append(tokens_BT)
            self.logits.append(logits_BTV)
            return logits_BTV, after

        def beginning(batch: int, capacity: int, source_BS: Tensor | None, lengths: Any) -> Any:
            self.source = source_BS
            return begin(batch, capacity, source_BS, lengths)

        vars(model).update(step=watched, begin=beginning)
        return model

    def whole(self, tokens_BT: Tensor) -> Tensor:
        """The same tokens in one forward pass."""
        with evaluating(self.model), torch.inference_mode():
            batch = Batch(tokens_BT, inputs=tokens_BT, source=self.source)
            logits: Tensor = self.model(batch)
        return logits


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("position", [1, 9])
def test_the_next_token_has_seen_all_before_it(watched: Watched, name: str, position: int) -> None:
    task, config = WRITERS[name]
    at: Place = {"position": position, "batch": 3, "cache": KEPT}
    call = Decode().prepare(config, task, CPU, at)
    for _ in range(2):  # and again
        call()
    before_BT, last_B1, again_B1 = watched.given
    tokens_BT = torch.cat((before_BT, last_B1), dim=1)
    assert before_BT.shape == (3, position)
    assert torch.equal(last_B1, again_B1)
    whole_BV = watched.whole(tokens_BT)[:, -1]
    for logits_BTV in watched.logits[1:]:
        torch.testing.assert_close(logits_BTV[:, -1], whole_BV)
    alone_BV = watched.whole(last_B1)[:, -1]
    assert not torch.allclose(alone_BV, whole_BV), "those before it matter"


def written(watched: Watched, name: str, length: int, cache: str) -> Tensor:
    task, config = WRITERS[name]
    watched.given.clear()
    watched.logits.clear()
    call = Generation().prepare(config, task, CPU, {"length": length, "batch": 2, "cache": cache})
    assert not watched.given, "nothing is written before the clock runs"
    call()
    return torch.cat([logits_BTV[:, -1:].argmax(-1) for logits_BTV in watched.logits], dim=1)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("length", [1, 12])
def test_with_and_without_a_cache_a_text_has_the_same_tokens(
    watched: Watched, name: str, length: int
) -> None:
    kept_BT = written(watched, name, length, KEPT)
    assert [each.shape[1] for each in watched.given] == [1] * length
    anew_BT = written(watched, name, length, ANEW)
    assert [each.shape[1] for each in watched.given] == [*range(1, length + 1)]
    assert kept_BT.shape == (2, length)
    assert torch.equal(kept_BT, anew_BT)


PADDED = transformer(kind="encoder_decoder")


def test_a_padded_batch_has_the_real_lengths() -> None:
    tokens = torch.tensor([[1, 5, 6], [1, 5, 0]])
    batch = Batch(
        torch.tensor([[5, 6, 2], [5, 2, IGNORE]]), inputs=tokens, lengths=torch.tensor([3, 2]),
        source=torch.tensor([[7, 8], [9, 9]]),
    )  # fmt: skip
    wider = padded(batch, 5, 4)
    assert wider.inputs.tolist() == [[1, 5, 6, PAD, PAD], [1, 5, 0, PAD, PAD]]
    assert wider.labels.tolist() == [[5, 6, 2, IGNORE, IGNORE], [5, 2, IGNORE, IGNORE, IGNORE]]
    assert wider.source.tolist() == [[7, 8, PAD, PAD], [9, 9, PAD, PAD]]
    assert (wider.lengths.tolist(), wider.source_lengths.tolist()) == ([3, 2], [2, 2])


def test_a_model_sees_the_padding_only_without_the_lengths() -> None:
    told, untold = PaddingSeen().measure(PADDED, Backwards(), CPU).measurements
    assert (told.coordinates, untold.coordinates) == ({"lengths": "told"}, {"lengths": "untold"})
    assert told.value < 1e-12
    assert untold.value > 1e-3


def test_what_is_timed_is_a_pass_over_batches_that_differ_in_their_padding_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, seen = Backwards(), []  # type: tuple[Backwards, list[Batch]]

    class Remembers(torch.nn.Module):
        def forward(self, batch: Batch) -> None:
            seen.append(batch)

    monkeypatch.setattr("ablations.measurement.build", lambda *_: Remembers())
    for to in (OWN, LONGEST):
        Padding().prepare(PADDED, task, CPU, {"batches": 2, "to": to})()
    own, wide = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    real = build(PADDED["model"], task.source_size, task.target_size, 0).double()
    for one, two in zip(own, wide, strict=True):
        assert two.source.shape[1] == task.longest >= one.source.shape[1]
        counts = one.labels != IGNORE
        with evaluating(real), torch.inference_mode():
            answers = real(two)[:, : one.labels.shape[1]]
            torch.testing.assert_close(answers[counts], real(one)[counts])
