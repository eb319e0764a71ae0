"""What all drawn tasks promise: one seed, one stream; nothing asked was taught; scores that fit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Says
from torch import Tensor, nn

from ablations.config import FOLDER, read_yaml, resolve_trial
from ablations.evaluations.quality import Quality
from ablations.store.identity import canonical_json
from ablations.tasks import TASK
from ablations.tasks.generated import SHARES, splits_of
from ablations.tasks.listops import CLASSES, ListOps
from ablations.tasks.task import Budget, Score, load_task
from ablations.train.config import TrainConfig
from ablations.train.loop import train
from model.batch import BOS, EOS, IGNORE, PAD, Batch
from model.build import build


def make(name: str, **options: Any) -> Any:
    return TASK.build({"name": name, **options})


@pytest.mark.parametrize(
    ("name", "parts"), [("copy", 1), ("reverse", 3), ("sort", 1), ("recall", 3), ("pair", 1)]
)
def test_a_batch_is_as_large_as_its_budget_and_nothing_in_it_is_padded(
    name: str, parts: int
) -> None:
    task = make(name)
    for batch in chain(*islice(task.steps(0, Budget(600, parts)), 10)):
        assert batch.lengths is batch.source_lengths is None
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
    strings = make("copy", test_lengths=[16, 17, 30], examples=60)
    model = fresh(strings, position="learned", max_len=strings.longest)
    scores, _ = strings.scores(model, "valid", "cpu")
    at = {score.coordinates["length"]: score for score in scores if score.coordinates}
    assert at[16].value is not None
    assert at[30].value is None
    assert "max_len=18" in at[30].reason

    recall = make("recall", test_distances=[3, 40], examples=60)
    model = fresh(recall, position="learned", max_len=recall.longest)
    scores, _ = recall.scores(model.train(), "valid", "cpu")
    assert [score.value is None for score in scores] == [False, False, True]
    assert model.training  # put back though it could not answer


@pytest.mark.parametrize("name", ["copy", "recall", "pair"])
def test_per_example_values_add_up_to_the_score(name: str) -> None:
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


def test_what_cannot_be_had_is_refused() -> None:
    for name, options, sentence in BAD:
        with pytest.raises(ValueError, match=sentence):
            TASK.build({"name": name, **options})


NAMES = ("copy", "reverse", "sort")


def answer(name: str, string: list[int]) -> list[int]:
    """The answer by selection: each time the symbol whose turn it is."""
    left, told = list(string), []
    while left:
        turn = {"copy": 0, "reverse": -1, "sort": left.index(min(left))}[name]
        told.append(left.pop(turn))
    return told


@settings(max_examples=40)
@given(st.sampled_from(NAMES), *[st.integers(*ends) for ends in ((10, 40), (3, 9), (0, 9), (0, 5))])
def test_a_batch_asks_for_the_answer_of_its_task(
    name: str, symbols: int, shortest: int, more: int, seed: int
) -> None:
    task = make(name, symbols=symbols, min_length=shortest, length=shortest + more)
    for batch in next(task.steps(seed, Budget(500, 2))):
        for source, inputs, labels in zip(
            batch.source.tolist(), batch.inputs.tolist(), batch.labels.tolist(), strict=True
        ):
            *string, end = source
            assert shortest <= len(string) <= shortest + more
            assert all(EOS < symbol < 3 + symbols for symbol in string)
            assert end == EOS
            assert labels == [*answer(name, string), EOS]
            assert inputs == [BOS, *labels[:-1]]


def test_each_length_gets_as_many_tokens_and_parts_go_from_short_to_long() -> None:
    task = make("copy", min_length=5, length=10)
    drawn = [
        [batch.labels.shape[1] - 1 for batch in step]
        for step in islice(task.steps(0, Budget(400, 4)), 300)
    ]
    assert all(step == sorted(step) for step in drawn)
    counts = Counter(length for step in drawn for length in step)
    assert sorted(counts) == [5, 6, 7, 8, 9, 10]
    assert min(counts.values()) > 150  # of 200
    assert max(counts.values()) < 250


def test_one_wrong_symbol_or_no_end_spoils_a_string_and_costs_one_edit() -> None:
    task = make("copy", min_length=5, length=5, examples=20)
    oracle = Says(task.target_size, lambda string: [min(string[0], 10), *string[1:]])
    wrong = sum(
        row[0] > 10 for batch in task.evaluation_batches("test") for row in batch.source.tolist()
    )
    scores, examples = task.scores(oracle, "test", "cpu")
    assert 0 < wrong < 20
    assert scores[:2] == [
        Score("sequence_accuracy", pytest.approx(1 - wrong / 20)),
        Score("token_error", pytest.approx(wrong / 100)),
    ]
    assert len(examples) == 12
    endless = Says(task.target_size, lambda string: [*string, *string])
    scores, _ = task.scores(endless, "test", "cpu")
    assert [score.value for score in scores[:2]] == [0, pytest.approx(20 / 100)]


@pytest.mark.parametrize("name", NAMES)
def test_the_trivial_loss_is_that_of_labels_counted_in_training(name: str) -> None:
    task = make(name, symbols=10, min_length=3, length=6)
    counts = Counter(
        label
        for step in islice(task.steps(0, Budget(1120, 4)), 400)
        for batch in step
        for label in batch.labels.flatten().tolist()
    )
    total = sum(counts.values())
    asked = [
        label for b in task.evaluation_batches("valid") for label in b.labels.flatten().tolist()
    ]
    loss = -sum(math.log(counts[label] / total) for label in asked) / len(asked)
    assert task.trivial("valid")["loss"] == pytest.approx(loss, abs=0.01)


def read(task: Any, batch: Batch) -> list[tuple[list[str], str]]:
    """Each question as its symbols, and the symbol that is to be said."""
    return [
        (task.to_text(row).split(), task.to_text([label]))
        for row, label in zip(batch.inputs.tolist(), batch.labels[:, -1].tolist(), strict=True)
    ]


class SaysAt(nn.Module):
    """SaysAt to each question what a function of its symbols says."""

    def __init__(self, task: Any, answer: Callable[[list[str]], str]) -> None:
        super().__init__()
        self.task, self.answer = task, answer

    def forward(self, batch: Batch) -> Tensor:
        said = self.task.input_tokens.encode(
            self.answer(symbols) for symbols, _ in read(self.task, batch)
        )
        logits = nn.functional.one_hot(torch.tensor(said), self.task.target_size).float()
        return logits[:, None].expand(-1, batch.inputs.shape[1], -1)


@pytest.mark.parametrize(("name", "answers"), [("recall", 5), ("pair", 25)])
def test_the_trivial_answer_is_one_of_all(name: str, answers: int) -> None:
    expected = {"loss": pytest.approx(math.log(answers)), "accuracy": 1 / answers}
    assert make(name, values=5).trivial("valid") == expected


# Recall: the value beside the key.


def scan(symbols: list[str]) -> str:
    """What stands after the key's =, looked for from left to right."""
    key = symbols[-1]
    text = " ".join(symbols[:-1]).replace(" =", "=")
    (found,) = [pair for pair in text.split() if pair.split("=")[0] == key]
    return "=" + found.split("=")[1]


OPTIONS = st.fixed_dictionaries(
    {
        "keys": st.integers(10, 20),
        "values": st.integers(4, 12),
        "pairs": st.integers(3, 10),
        "distance": st.integers(0, 30),
        "tokens": st.sampled_from(["one", "two"]),
    }
)


@settings(max_examples=40)
@given(OPTIONS, st.integers(0, 5))
def test_the_answer_is_the_value_of_the_key(chosen: Any, seed: int) -> None:
    task = make("recall", **chosen)
    (batch,) = next(task.steps(seed, Budget(800)))
    assert torch.equal(batch.labels[:, :-1], torch.full_like(batch.labels[:, :-1], IGNORE))
    for symbols, said in read(task, batch):
        assert said == scan(symbols)
        assert len(symbols) == task.longest
        width = 1 if chosen["tokens"] == "one" else 2
        shown = symbols[: width * chosen["pairs"]]
        filler = symbols[width * chosen["pairs"] : -1]
        assert len(filler) == chosen["distance"]
        assert all(symbol.startswith(".") for symbol in filler)
        keys = Counter(pair.split("=")[0] for pair in shown[::width])
        assert set(keys.values()) == {1}
        assert all(int(key) < chosen["keys"] for key in keys)


@pytest.mark.parametrize("tokens", ["one", "two"])
def test_accuracy_is_taken_at_each_distance(tokens: str) -> None:
    task = make("recall", distance=6, test_distances=[6, 0, 20], tokens=tokens, examples=200)
    forgets = SaysAt(task, lambda s: scan(s) if len(s) <= task.longest else "=0")
    scores, _ = task.scores(forgets, "test", "cpu")
    found = {score.coordinates.get("distance"): score.value for score in scores}
    always_one_value = pytest.approx(1 / 8, abs=0.1)
    assert found == {None: 1.0, 6: 1.0, 0: 1.0, 20: always_one_value}


# Pairs: two lookups from one position, in the order in which the slots were named.


def look_up(symbols: list[str]) -> str:
    held = dict(symbol.split("=") for symbol in symbols[:-1])
    return "=" + ",".join(held[slot] for slot in symbols[-1].removesuffix("?").split(","))


@settings(max_examples=40)
@given(st.integers(4, 8), st.integers(3, 8), st.integers(1, 3), st.integers(0, 5))
def test_all_values_are_to_be_said_in_the_order_asked(
    slots: int, values: int, asked: int, seed: int
) -> None:
    task = make("pair", slots=slots, values=values, asked=asked)
    (batch,) = next(task.steps(seed, Budget(600)))
    assert torch.equal(batch.labels[:, :-1], torch.full_like(batch.labels[:, :-1], IGNORE))
    for symbols, said in read(task, batch):
        assert said == look_up(symbols)
        *shown, named = symbols
        assert sorted(int(symbol.split("=")[0]) for symbol in shown) == list(range(slots))
        assert all(int(symbol.split("=")[1]) < values for symbol in shown)
        assert len(set(named.removesuffix("?").split(","))) == asked
        assert len(symbols) == task.longest


def parsed(left: list[str]) -> tuple[int, int, int]:
    """Value, levels and most members of the expression that comes first; it is removed."""
    symbol = left.pop(0)
    if symbol.isdigit():
        return int(symbol), 1, 0
    members = []
    while left[0] != "]":
        members.append(parsed(left))
    left.pop(0)
    values, levels, most = zip(*members, strict=True)
    operators = {"[MIN": np.min, "[MAX": np.max, "[MED": np.median, "[SM": np.sum}
    value = int(np.floor(operators[symbol](values))) % 10
    return value, 1 + max(levels), max(len(members), *most)


def evaluate(text: str) -> int:
    return parsed(text.split())[0]


@settings(max_examples=30)
@given(st.integers(3, 7), st.integers(3, 8), st.integers(4, 12), st.integers(8, 60))
def test_trees_keep_to_their_options_and_are_worth_what_they_say_and_none_comes_twice(
    max_depth: int, max_args: int, shortest: int, more: int
) -> None:
    shape = {"max_depth": max_depth, "max_args": max_args}
    lengths = {"min_length": shortest, "max_length": shortest + more}
    task = make("listops", **shape, **lengths, examples=40, test_examples=10)
    trees = [tree for split in ("train", "valid", "test") for tree in task.trees(split)]
    assert len({" ".join(symbols) for symbols, _ in trees}) == len(trees) == 60
    for symbols, value in trees:
        found, levels, members = parsed([*symbols])
        assert value == found
        assert shortest <= len(symbols) <= shortest + more
        assert levels <= max_depth
        assert 2 <= members <= max_args


class Reader(nn.Module):
    """Evaluates what it reads; of long expressions it says 0."""

    def forward(self, batch: Batch) -> Tensor:
        rows = [[token for token in row if token != PAD] for row in batch.source.tolist()]
        texts = [ListOps.input_tokens.decode(row) for row in rows]
        said = [evaluate(text) if len(text) < 24 else 0 for text in texts]
        return nn.functional.one_hot(torch.tensor(said), CLASSES).float()


def test_accuracy_is_the_share_of_right_classes() -> None:
    task = make("listops", examples=300, test_examples=200)
    trees = [(" ".join(symbols), value) for symbols, value in task.trees("test")]
    right = sum(len(text) < 24 or value == 0 for text, value in trees)
    (score,), examples = task.scores(Reader(), "test", "cpu")
    assert score == Score("accuracy", right / 200)
    assert 0.1 < right / 200 < 0.9
    assert all(e["target"] == str(evaluate(e["input"])) for e in examples)
    assert Counter(e["output"] == e["target"] for e in examples) == {True: 6, False: 6}


def test_the_trivial_answer_is_the_likeliest_class_of_train() -> None:
    task = make("listops", examples=300, test_examples=100)
    taught = Counter(value for _, value in task.trees("train"))
    asked = [value for _, value in task.trees("test")]
    (likeliest, most), (_, next_most) = taught.most_common(2)
    assert most > next_most
    loss = -sum(math.log((taught[value] + 1) / 310) for value in asked) / 100
    assert task.trivial("test") == pytest.approx(
        {"loss": loss, "accuracy": asked.count(likeliest) / 100}
    )


CPU = torch.device("cpu")
# The metric that tells, and the least share of the way from trivial to perfect that is clear.
CLEARLY = {
    "g2p": ("per", 0.7),
    "text": ("bits_per_character", 0.35),
    "translation": ("chrf", 0.2),
    "copy": ("sequence_accuracy", 0.9),
    "reverse": ("sequence_accuracy", 0.9),
    "sort": ("sequence_accuracy", 0.9),
    "recall": ("accuracy", 0.9),
    "pair": ("accuracy", 0.9),
    "listops": ("accuracy", 0.2),
}
PERFECT = {"chrf": 100.0, "per": 0.0, "bits_per_character": 0.0}


def test_every_task_is_here() -> None:
    assert set(CLEARLY) == {path.stem for path in (FOLDER / "base").glob("*.yaml")}


@pytest.mark.soak
@pytest.mark.parametrize("name", CLEARLY)
def test_a_task_is_learned(name: str) -> None:
    torch.set_num_threads(1)
    config = resolve_trial(read_yaml(FOLDER / "base" / f"{name}.yaml").values)
    task = load_task(canonical_json(config["task"]))
    model = build(config["model"], task.source_size, task.target_size, seed=0)
    training = train(model, task, TrainConfig(**config["train"]), 0, CPU, lambda *_: None)
    taken = Quality().measure(model, task, CPU, config["train"]["steps"])
    metric, share = CLEARLY[name]
    found = {
        r.metric: r.value
        for r in taken.measurements
        if r.split == "test" and set(r.coordinates) <= {"step"}
    }
    reached, trivial = found[metric], found[f"trivial_{metric}"]
    assert (training.status, training.reason) == ("ok", None)
    assert (reached - trivial) / (PERFECT.get(metric, 1.0) - trivial) > share
    assert taken.examples
