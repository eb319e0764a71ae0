"""Attention by every path beside a sum that is written out word by word."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import Tensor

from ablations.measure import checks
from ablations.measure.checks import DRAWS, Forms, batch_of, both, gap
from model.attention import Explicit, Path
from model.build import build

CPU = torch.device("cpu")
BARE: dict[str, Any] = {
    "position": {"name": "none"}, "norm": {"name": "none"}, "feedforward": {"name": "none"},
    "embedding_scale": False, "final_norm": False,
}  # fmt: skip
PATHS = ("explicit", "row", "loop", "fused")
KINDS: list[Any] = 2 * [("decoder", TEXT), ("encoder_decoder", PAIRS)]
Vector = list[float]


def read(task: Any = TEXT, **changes: Any) -> float:
    (reading,) = Forms().take(transformer(**changes), task, CPU).readings
    assert reading.value is not None
    return float(reading.value)


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def times(layer: Any, x: Vector) -> Vector:
    rows, bias = layer.weight.tolist(), layer.bias.tolist()
    return [dot(row, x) + b for row, b in zip(rows, bias, strict=True)]


def word_by_word(model: Any, sentence: list[int], scale: float) -> list[Vector]:
    """Logits of one bare block: x + W Σ_s a_ts v_s, where a_ts = e_ts / Σ_r e_tr and e_ts =
    exp(scale q_t·k_s), over s, r ≤ t, each head on its own features."""
    (block,) = model.decoder.blocks
    heads, width, wide = 2, 4, 8
    words = [model.decoder.embedding.tokens.weight.tolist()[token] for token in sentence]
    projected = [times(block.mixer.project, word) for word in words]  # query, key, value in a row
    answers = []
    for t, word in enumerate(words):
        mixed = []
        for head in range(heads):
            first, end = head * width, (head + 1) * width
            query = projected[t][first:end]
            keys = [projected[s][wide + first : wide + end] for s in range(t + 1)]
            powers = [math.exp(scale * dot(query, key)) for key in keys]
            for feature in range(2 * wide + first, 2 * wide + end):
                values = [projected[s][feature] for s in range(t + 1)]
                mixed.append(dot(powers, values) / sum(powers))
        stream = [a + b for a, b in zip(word, times(block.mixer.out, mixed), strict=True)]
        answers.append(times(model.head.project, stream))
    return answers


def by_hand(model: Any, batch: Any, scale: float) -> list[Tensor]:
    """Of each sequence, as long as it is."""
    sentences = [
        row[:length] for row, length in zip(batch.inputs.tolist(), batch.lengths, strict=True)
    ]
    return [
        torch.tensor(word_by_word(model, sentence, scale), dtype=torch.float64)
        for sentence in sentences
    ]


@pytest.mark.parametrize("path", PATHS)
def test_both_models_are_the_word_by_word_sum(path: str) -> None:
    config = transformer(**BARE, path={"name": path})
    batch = batch_of(config, TEXT)
    own, direct = both(config, TEXT, seed=3)
    for b, expected_TV in enumerate(by_hand(own, batch, 1 / math.sqrt(4))):
        for model in (own, direct):
            answer_TV = model(batch)[b, : len(expected_TV)]
            torch.testing.assert_close(answer_TV, expected_TV, rtol=0, atol=1e-12)


def test_what_is_read_is_how_far_two_such_sums_are_apart() -> None:
    """Unscaled, one is of raw products: its gap is known without the other model."""
    config = transformer(**BARE, path={"name": "loop"}, scale={"name": "none"})
    batch = batch_of(config, TEXT)
    gaps = []
    for seed in range(DRAWS):
        model = build(config["model"], None, TEXT.target_size, seed).double()
        raw, scaled = by_hand(model, batch, 1.0), by_hand(model, batch, 1 / math.sqrt(4))
        gaps += [float((a - b).abs().max()) for a, b in zip(raw, scaled, strict=True)]
    found = read(**BARE, path={"name": "loop"}, scale={"name": "none"})
    assert found == pytest.approx(max(gaps), rel=1e-9)
    assert found > 1e-3


@pytest.mark.parametrize(
    ("path", "kind", "task"), [(path, *both) for path, both in zip(PATHS, KINDS, strict=True)]
)
def test_every_path_is_the_formula_to_rounding(path: str, kind: str, task: Any) -> None:
    assert read(task, kind=kind, path={"name": path}, depth=2) < 1e-12
    unscaled = {"path": {"name": path}, "scale": {"name": "none"}}
    assert read(task, kind=kind, depth=2, **unscaled) > 1e-3


def test_padding_is_in_the_batch_and_is_not_compared() -> None:
    batch = batch_of(transformer(), PAIRS)
    assert batch.lengths is not None
    assert batch.source_lengths is not None
    assert batch.lengths.tolist() == batch.source_lengths.tolist() == [8, 7, 6]

    def answers(at: int) -> Any:
        def answer(batch: Any) -> Tensor:
            logits_BTV = torch.zeros(*batch.labels.shape, 13)
            logits_BTV[2, at, 5] = 0.25
            return logits_BTV

        return answer

    nothing = answers(at=7)
    assert gap(nothing, answers(at=6), batch) == 0
    assert gap(nothing, answers(at=5), batch) == 0.25


def test_a_path_that_forgets_a_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, for the last query of one head."""

    def forgetful(written: Any, *words: Any) -> Any:
        model = build(written, *words)
        for part in model.modules():
            if isinstance(part, Path) and type(part) is not Explicit:
                mix = part.mix  # type: ignore[operator]

                def forgets(weights_BHTS: Tensor, v_BHSK: Tensor, mix: Any = mix) -> Tensor:
                    weights_BHTS = weights_BHTS.clone()
                    weights_BHTS[0, 0, -1, 0] = 0.0
                    return mix(weights_BHTS, v_BHSK)

                vars(part)["mix"] = forgets
        return model

    assert read(path={"name": "row"}) < 1e-12
    monkeypatch.setattr(checks, "build", forgetful)
    assert read(path={"name": "row"}) > 1e-3
    assert read(path={"name": "explicit"}) == 0
