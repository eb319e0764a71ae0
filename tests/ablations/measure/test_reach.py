"""Past max_len a formula has an answer and a table has none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import nn

from ablations.measure.checks import Reach
from model.batch import Batch

CPU = torch.device("cpu")


def read(config: dict[str, Any], task: Any = TEXT) -> float | None:
    (reading,) = Reach().take(config, task, CPU).readings
    return reading.value


@pytest.mark.parametrize(("kind", "task"), [("decoder", TEXT), ("encoder_decoder", PAIRS)])
@pytest.mark.parametrize(
    ("position", "past"),
    [("learned", 0), ("binary", 0), ("sinusoidal", 1), ("rotary", 1), ("alibi", 1), ("none", 1)],
)
def test_what_is_looked_up_ends_and_what_is_computed_does_not(
    kind: str, task: Any, position: str, past: int
) -> None:
    assert read(transformer(kind=kind, max_len=9, position={"name": position}), task) == past


class Answers(nn.Module):
    """Logits up to a length; from there on, whatever it raises."""

    def __init__(self, error: Exception | None, longest: int = 64, logit: float = 0.0) -> None:
        super().__init__()
        self.error, self.longest, self.logit = error, longest, logit
        self.seen: list[int] = []

    def forward(self, batch: Batch) -> torch.Tensor:
        assert batch.inputs is not None
        length = batch.inputs.shape[1]
        self.seen.append(length)
        if length > self.longest and self.error is not None:
            raise self.error
        return torch.full((1, length, 13), self.logit if length > self.longest else 0.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(model: Answers) -> float | None:
        monkeypatch.setattr("ablations.measure.checks.build", lambda *_: model)
        return read(transformer())

    return ask


def test_it_is_asked_for_max_len_and_for_one_more(asked: Any) -> None:
    model = Answers(None)
    assert asked(model) == 1
    assert model.seen == [64, 65]


def test_a_refusal_in_words_is_an_answer_to_the_question(asked: Any) -> None:
    assert asked(Answers(ValueError("positions end at max_len=64"))) == 0


def test_an_answer_that_is_no_number_is_none(asked: Any) -> None:
    assert asked(Answers(None, logit=float("nan"))) == 0


@pytest.mark.parametrize(
    "error", [IndexError("index out of range"), RuntimeError("max_len"), ValueError("a typo")]
)
def test_whatever_else_is_raised_is_a_mistake(asked: Any, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        asked(Answers(error))


def test_a_model_that_refuses_its_own_length_is_not_one_that_ends(asked: Any) -> None:
    with pytest.raises(ValueError, match="max_len=64"):
        asked(Answers(ValueError("positions end at max_len=64"), longest=63))
