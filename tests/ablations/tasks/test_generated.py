"""What all drawn tasks promise: one seed, one stream; nothing asked was taught; scores that fit."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from ablations.tasks import TASK
from ablations.tasks.generated import SHARES, splits_of
from ablations.tasks.task import Budget
from model.batch import Batch
from model.build import build

OPTIONS: dict[str, dict[str, Any]] = {
    "copy": {"examples": 60},
    "reverse": {"examples": 60},
    "sort": {"examples": 60},
    "recall": {"examples": 60, "test_distances": [3, 40]},
    "pair": {"examples": 60},
    "listops": {"examples": 300, "test_examples": 60},
}
DRAWN = [name for name in OPTIONS if name != "listops"]


def make(name: str, **options: Any) -> Any:
    return TASK.build({"name": name, **OPTIONS[name], **options})


def steps(task: Any, number: int, parts: int = 2) -> list[Batch]:
    wanted = islice(task.steps(0, Budget(600, parts)), number)
    return [batch for step in wanted for batch in step]


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_taught_does_not_depend_on_what_is_asked(name: str) -> None:
    few = steps(make(name, examples=7), 3)
    for one, other in zip(steps(make(name), 3), few, strict=True):
        assert torch.equal(one.labels, other.labels)


@pytest.mark.parametrize(("name", "parts"), [*zip(DRAWN, [1, 3, 1, 3, 1], strict=True)])
def test_a_batch_is_as_large_as_its_budget_and_nothing_in_it_is_padded(
    name: str, parts: int
) -> None:
    task = make(name)
    for batch in steps(task, 10, parts=parts):
        assert batch.lengths is None
        assert batch.source_lengths is None
        sides = [side for side in (batch.inputs, batch.source) if side is not None]
        read = sum(side.numel() for side in sides)
        each = sum(side.shape[1] for side in sides)
        assert read <= 600 // parts < read + each
        assert max(side.shape[1] for side in sides) <= task.longest


def test_the_hash_splits_all_strings_as_the_shares_say() -> None:
    rows = np.stack(np.meshgrid(*[np.arange(10)] * 4), axis=-1).reshape(-1, 4)
    names, counts = np.unique(splits_of(rows), return_counts=True)
    found = dict(zip(names.tolist(), (counts / len(rows)).tolist(), strict=True))
    assert found == pytest.approx(SHARES, abs=0.01)
    first = rows[splits_of(rows) == "valid"][:, 0]
    assert np.bincount(first, minlength=10).min() > 25  # of 50: no symbol decides the split


def fresh(task: Any, **options: Any) -> Any:
    """A model that knows nothing, as small as can be."""
    head = {"name": "classes"} if task.kind == "encoder" else {"name": "tokens"}
    sizes = {"d_model": 8, "n_heads": 2, "depth": 1, "kind": task.kind, "head": head}
    written = {"name": "transformer", **sizes, **options}
    return build(written, task.source_size, task.target_size, seed=0)


def test_where_a_model_has_no_positions_the_score_is_null_with_its_reason() -> None:
    strings = make("copy", test_lengths=[16, 17, 30])
    model = fresh(strings, position="learned", max_len=strings.longest)
    scores, _ = strings.scores(model, "valid", "cpu")
    at = {score.coordinates["length"]: score for score in scores if score.coordinates}
    assert at[16].value is not None
    assert at[30].value is None
    assert "max_len=18" in at[30].reason

    recall = make("recall")
    model = fresh(recall, position="learned", max_len=recall.longest)
    scores, _ = recall.scores(model.train(), "valid", "cpu")
    assert [score.value is None for score in scores] == [False, False, True]
    assert model.training  # put back though it could not answer


@pytest.mark.parametrize("name", ["copy", "recall", "pair"])
def test_what_each_example_had_in_it_adds_up_to_the_score(name: str) -> None:
    task = make(name, examples=50)
    scores, _ = task.scores(fresh(task), "test", "cpu")
    told = {score.metric: score.per_example for score in scores if not score.coordinates}
    assert set(told) == set(task.metrics)
    symbols = sum(len(truth) for rows in task.asked("test") for truth in task.truths(rows))
    for score in scores:
        if score.per_example is not None:
            assert len(score.per_example) == 50
            over = symbols if score.metric == "token_error" else 50
            assert score.value == pytest.approx(sum(score.per_example) / over)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("copy", {"symbols": 1}, "symbols=1: must be at least 2"),
    ("copy", {"length": 3}, "length=3: must be at least min_length=4"),
    ("copy", {"test_lengths": [8, 8]}, "name at least one length from 1 on, each once"),
    ("copy", {"symbols": 2, "min_length": 4}, "there are 16 strings of length 4, too few"),
    ("recall", {"pairs": 17}, "pairs=17: each shows another key; choose at most keys=16"),
    ("recall", {"test_distances": [4, -1]}, "name distances from 0 on, each once"),
    ("recall", {"keys": 4, "values": 4, "pairs": 2, "distance": 0}, "there are 384 different"),
    ("pair", {"slots": 2, "values": 4}, "there are 64 different questions, too few to split"),
    ("listops", {"max_length": 3}, "max_length=3: must be at least min_length=4"),
    ("listops", {"max_depth": 2, "min_length": 7}, "no list has more than 6 tokens"),
    ("g2p", {"words": 0}, "words=0: must be at least 1, or null for all words"),
    ("g2p", {"test_words": 1_000_000}, "test_words=1000000: .*null for all"),
    ("text", {"length": 1}, "length=1: must be at least 2"),
    ("text", {"tokens": {"name": "words", "size": 4}}, "size=4: must be above 4, or null"),
    ("translation", {"train_source": "a"}, "test_source=null: give all six files, or none"),
    ("translation", {"max_words": 1}, "max_words=1: nothing is left in train; choose more"),
    ("translation", {"tokens": {"name": "bpe", "size": 261}}, "choose 329 or more"),
]


@pytest.mark.parametrize(("name", "options", "sentence"), BAD, ids=str)
def test_what_cannot_be_had_is_refused(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TASK.build({"name": name, **options})
