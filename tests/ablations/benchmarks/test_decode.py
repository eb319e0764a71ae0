"""Writing that is timed: the next token has seen all before it, a text has all its tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import Tensor

from ablations.benchmarks import throughput
from ablations.benchmarks.throughput import ANEW, KEPT, Decode, Generation
from ablations.measurement import Place
from model.batch import Batch
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


class Watched:
    """A model, and what it is given and answers step by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[Tensor] = []
        self.logits: list[Tensor] = []
        self.source: Tensor | None = None
        monkeypatch.setattr(throughput, "build", self._build)

    def _build(self, *words: Any) -> Any:
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


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


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
def test_kept_or_anew_a_text_has_the_same_tokens(watched: Watched, name: str, length: int) -> None:
    kept_BT = written(watched, name, length, KEPT)
    assert [each.shape[1] for each in watched.given] == [1] * length
    anew_BT = written(watched, name, length, ANEW)
    assert [each.shape[1] for each in watched.given] == [*range(1, length + 1)]
    assert kept_BT.shape == (2, length)
    assert torch.equal(kept_BT, anew_BT)
