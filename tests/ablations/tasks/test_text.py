"""Language modelling: every token asked once, every character paid for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ablations.tasks.batching import Windows
from ablations.tasks.data.tokens import TOKENS
from ablations.tasks.task import TASK, Budget
from ablations.tasks.text import Text
from model.batch import BOS, Batch
from model.build import build

CHOICES = [{"name": "characters"}, {"name": "words", "size": 200}, {"name": "bpe", "size": 400}]


@pytest.fixture(scope="module", params=CHOICES, ids=lambda choice: choice["name"])
def small(request: pytest.FixtureRequest) -> Text:
    return make(tokens=request.param)


def make(**options: Any) -> Text:
    few = {"length": 16, "characters": 20_000, "valid_characters": 900, "test_characters": 901}
    return TASK.build({"name": "text", **few, **options})


def tiny(task: Text) -> nn.Module:
    written = {"name": "transformer", "kind": "decoder", "d_model": 8, "depth": 1, "n_heads": 1}
    return build(written, None, task.target_size, seed=0)


def labels(batches: Iterator[Batch] | list[Batch]) -> list[int]:
    return [label for batch in batches for row in batch.labels.tolist() for label in row]


def test_lines_are_split_in_their_order() -> None:
    task = Text(Text.Config())
    counts = {part: text.count("\n") for part, text in task.texts.items()}
    assert counts == {"train": 31_102 - 2 * 1555, "valid": 1555, "test": 1555}
    assert task.texts["train"].startswith("In the beginning God created")
    assert task.texts["test"].endswith("[be] with you all. Amen.\n")
    assert all(text.endswith("\n") for text in task.texts.values())
    for part in ("valid", "test"):
        assert set(task.texts[part]) <= set(task.texts["train"]), "no character is new"
        assert task.tokens.spelling(task.texts[part]) == 0


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_window_reads_the_token_before_it_and_every_token_is_asked_once(
    small: Text, part: str
) -> None:
    ids = small.tokens.encode(small.texts[part])
    assert labels(small.evaluation_batches(part)) == ids
    windows = [
        (inputs, row)
        for batch in small.evaluation_batches(part)
        for inputs, row in zip(batch.inputs.tolist(), batch.labels.tolist(), strict=True)  # type: ignore[union-attr]
    ]
    for number, (inputs, row) in enumerate(windows):
        start = number * small.config.length
        assert row == ids[start : start + small.config.length]
        assert inputs == ([BOS, *ids][start : start + len(row)])
    assert len(windows) == math.ceil(len(ids) / small.config.length)


@given(
    tokens=st.integers(1, 200),
    length=st.integers(2, 20),
    budget=st.builds(Budget, st.integers(1, 100), st.integers(1, 3)),
    seed=st.integers(0, 5),
)
def test_an_epoch_learns_no_token_twice_and_leaves_out_less_than_two_windows(
    tokens: int, length: int, budget: Budget, seed: int
) -> None:
    windows = Windows(range(100, 100 + tokens), length)
    width = min(length, tokens)
    count = max(1, tokens // width - 1)
    part = max(1, budget.part // width)
    steps = math.ceil(count / (part * budget.micro_batches))
    epochs = list(islice(windows.steps(seed, "text", budget), 2 * steps))
    for epoch in (epochs[:steps], epochs[steps:]):
        seen = Counter(labels([batch for parts in epoch for batch in parts]))
        assert set(seen.values()) == {1}
        assert len(seen) == count * width
        assert tokens - len(seen) < 2 * width
        for parts in epoch:
            assert len(parts) <= budget.micro_batches
            for batch in parts:
                assert batch.inputs.numel() <= max(budget.part, width)
                follows = torch.where(batch.labels == 100, BOS, batch.labels - 1)
                assert torch.equal(batch.inputs, follows)


def test_bits_per_character_count_every_token_and_every_unknown_word(small: Text) -> None:
    """Slowly: one window after the other, one label after the other."""
    model = tiny(small).eval()
    text = small.texts["valid"]
    ids = small.tokens.encode(text)
    nats = 0.0
    with torch.inference_mode():
        for start in range(0, len(ids), small.config.length):
            inputs = [BOS, *ids][start : start + min(small.config.length, len(ids) - start)]
            given = torch.tensor([inputs])
            logits_TV = model(Batch(given, inputs=given))[0].double()
            for place in range(len(inputs)):
                row = logits_TV[place]
                nats += float(row.logsumexp(0) - row[ids[start + place]])
    spelling = small.tokens.spelling(text)
    assert (spelling == 0) == (small.config.tokens["name"] == "bpe"), "the case is tried"
    (score,), _ = small.scores(model, "valid", "cpu")
    assert score.metric == "bits_per_character"
    assert score.value == pytest.approx((nats + spelling) / math.log(2) / len(text), rel=1e-5)


def test_the_trivial_answer_is_the_frequency_of_each_token(small: Text) -> None:
    train, valid = (small.tokens.encode(small.texts[part]) for part in ("train", "valid"))
    counts = Counter(train)
    total = len(train) + small.tokens.size - 2  # every id but PAD and BOS once more
    nats = -sum(math.log((counts[token] + 1) / total) for token in valid)
    trivial = small.trivial("valid")
    assert trivial["loss"] == pytest.approx(nats / len(valid))
    spelling = small.tokens.spelling(small.texts["valid"])
    assert trivial["bits_per_character"] == pytest.approx((nats + spelling) / math.log(2) / 900)


# Options and files


def test_a_file_is_cut_at_line_borders_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    content = "".join(f"line {number}\r\n" for number in range(39)) + "last: ß, no end"
    path.write_text(content, encoding="utf-8", newline="")
    task = Text(Text.Config(file=str(path)))
    assert "".join(task.texts.values()) == content
    assert task.texts["valid"] == "line 36\r\nline 37\r\n"
    assert task.texts["test"] == "line 38\r\nlast: ß, no end"
    assert task.card()["source"] == "mine.txt"
    assert task.tokens.spelling(task.texts["test"]) > 0, "ß was never seen"
    (score,), _ = task.scores(tiny(task), "test", "cpu")
    assert math.isfinite(score.value)


def test_the_vocabulary_knows_only_the_training_text(small: Text) -> None:
    train_only = TOKENS.build(small.config.tokens, text=small.texts["train"])
    for text in small.texts.values():
        assert small.tokens.encode(text) == train_only.encode(text)


def test_the_borders_of_windows_move_from_epoch_to_epoch() -> None:
    windows = Windows(range(100, 1100), 10)
    budget = Budget(10_000)
    firsts = {
        int(parts[0].labels.min()) % 10 for parts in islice(windows.steps(0, "text", budget), 50)
    }
    assert len(firsts) == 10
