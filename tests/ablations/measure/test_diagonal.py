"""What a token gives itself: by hand without projections, chance where nothing can be told apart.

B: sequences, H: heads, T: positions, K: width of a head.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_models import transformer

from ablations.measure.diagonal import SEQUENCES, TOKENS, Diagonal, distinct
from ablations.tasks.strings import Copy
from model.batch import EOS
from model.build import build

CPU = torch.device("cpu")
LETTERS = 20


@pytest.fixture(scope="module")
def task() -> Copy:
    return Copy(Copy.Config(symbols=LETTERS, length=16, test_lengths=[16], examples=10))


def config(mixer: str, seed: int = 0, **changes: Any) -> dict[str, Any]:
    options = {"kind": "encoder_decoder", "d_model": 32, "position": "none", **changes}
    return {**transformer({"name": mixer}, **options), "seed": seed}


def weight(settings: dict[str, Any], task: Any) -> float:
    (reading,) = Diagonal().take(settings, task, CPU).readings
    return reading.value


def test_no_token_stands_twice_in_a_sequence_and_none_is_a_sign() -> None:
    tokens_BT = distinct(EOS + 1 + LETTERS, seed=0)
    assert tokens_BT.shape == (SEQUENCES, TOKENS)
    assert all(len(set(row)) == TOKENS for row in tokens_BT.tolist())
    assert set(tokens_BT.flatten().tolist()) == set(range(EOS + 1, EOS + 1 + LETTERS))
    assert not torch.equal(tokens_BT, distinct(EOS + 1 + LETTERS, seed=1))


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_without_projections_it_is_the_softmax_of_the_tokens_themselves(
    task: Copy, path: str
) -> None:
    settings = config("basic", seed=5, path=path)
    model = build(settings["model"], task.source_size, task.target_size, 5)
    encoder: Any = model.encoder
    table = encoder.embedding.tokens.weight.detach().double() * 32**0.5
    found = []
    for row in distinct(len(table), seed=5):
        x_THK = F.layer_norm(table[row], (32,)).view(TOKENS, 2, 16)
        for head in range(2):
            for t in range(TOKENS):
                scores = [float(x_THK[t, head] @ x_THK[s, head]) / 4 for s in range(TOKENS)]
                found.append(float(torch.tensor(scores, dtype=torch.float64).softmax(0)[t]))
    assert weight(settings, task) == pytest.approx(sum(found) / len(found), rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"causal_encoder": True}, "model.causal_encoder=false"),
        ({"mixer": {"name": "convolution"}}, "model.mixer=attention"),
    ],
    ids=["causal", "convolution"],
)
def test_what_has_no_such_weights_is_refused(task: Copy, changes: dict[str, Any], fix: str) -> None:
    settings = config("attention")
    with pytest.raises(ValueError, match=fix):
        Diagonal().take({**settings, "model": {**settings["model"], **changes}}, task, CPU)
