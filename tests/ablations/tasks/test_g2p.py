"""The pronunciation task: what is split from what, what a batch holds, what a score means."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import Says
from torch import Tensor, nn

from ablations.evaluations.quality import Beam
from ablations.tasks import TASK
from ablations.tasks.data.cmudict import PHONES, read
from ablations.tasks.g2p import G2P
from ablations.tasks.scoring import METRICS, edits
from ablations.tasks.task import Budget, Score
from model.batch import BOS, EOS
from model.generate import Decoding


@pytest.fixture(scope="module")
def small() -> G2P:
    return G2P(G2P.Config(words=3000, valid_words=300, test_words=300))


@pytest.fixture(scope="module")
def said() -> dict[str, tuple[str, ...]]:
    return read(False)


def taught(task: G2P, count: int) -> Counter[tuple[str, str]]:
    """The words and pronunciations of the first training steps, until there are so many."""
    seen: Counter[tuple[str, str]] = Counter()
    for step in task.steps(0, Budget(1000, 2)):
        for batch in step:
            for source, labels in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
                letters = task.letters.decode(token for token in source if token > EOS)
                seen["".join(letters), task.tell([each for each in labels if each > EOS])] += 1
        if seen.total() >= count:
            return seen
    raise AssertionError("steps have no end")


def test_the_sizes_of_other_splits_do_not_move_what_is_taught(small: G2P) -> None:
    other = G2P(G2P.Config(words=3000, valid_words=10, test_words=20))
    assert other.words["train"] == small.words["train"]


def values(scores: list[Score]) -> dict[str, float | None]:
    return {each.metric: each.value for each in scores}


def oracle_of(task: G2P, answers: dict[str, str]) -> Says:
    """Says what a table says for each word."""

    def answer(letters: list[int]) -> list[int]:
        return task.phones.encode(answers["".join(task.letters.decode(letters))].split())

    return Says(task.target_size, answer)


@pytest.mark.parametrize("which", [0, -1])
def test_a_model_that_gives_any_of_the_references_makes_no_error_but_against_the_first(
    small: G2P, said: dict[str, tuple[str, ...]], which: int
) -> None:
    oracle = oracle_of(small, {word: all_[which] for word, all_ in said.items()})
    scores, examples = small.scores(oracle, "test", "cpu")
    several = sum(len(said[word]) > 1 for word in small.words["test"])
    assert several > 5
    assert values(scores)["wer_first"] == pytest.approx(several / 300 if which else 0)
    assert {value for name, value in values(scores).items() if "first" not in name} == {0}
    assert len(examples) == 12
    for example in examples:
        assert example["output"] == example["target"] == said[example["input"]][which]


class Garden(nn.Module):
    """Its likeliest first phone leads to answers that are unlikely: AA, then anything; or B C."""

    def begin(self, sequences: int, *_: Any) -> Decoding:
        return Decoding(0, ())

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        first, other, *rest = range(EOS + 1, 3 + len(PHONES))
        logits_BV = torch.full((len(tokens_BT), 3 + len(PHONES)), -30.0)
        for row, token in enumerate(tokens_BT[:, -1].tolist()):
            if token == BOS:
                logits_BV[row, [first, other]] = torch.tensor([0.6, 0.4]).log()
            elif token == first:
                logits_BV[row, rest] = 0.0
            else:
                logits_BV[row, EOS] = 0.0
        return logits_BV[:, None], Decoding(decoding.start + 1, ())


def test_the_measure_of_a_beam_finds_what_greed_does_not() -> None:
    task = G2P(G2P.Config(words=10, valid_words=10, test_words=10))
    (greed, *_), _ = task.scores(Garden(), "test", "cpu")
    measurements = Beam().measure(Garden(), task, torch.device("cpu"), step=7).measurements
    (found, *_) = measurements
    assert (found.metric, found.split, found.coordinates) == (
        greed.metric,
        "test",
        {"step": 7, "beam": 4},
    )
    assert found.value != greed.value
    assert {measurement.metric for measurement in measurements} == set(task.metrics)


@pytest.mark.parametrize(("pronunciations", "split"), [("first", "valid"), ("all", "test")])
def test_the_trivial_loss_is_that_of_counted_phones(
    said: dict[str, tuple[str, ...]], pronunciations: Any, split: str
) -> None:
    config = G2P.Config(words=2000, valid_words=200, test_words=100, pronunciations=pronunciations)
    task = G2P(config)
    count = 1 if pronunciations == "first" else None
    counts = Counter(
        label
        for word in task.words["train"]
        for one in said[word][:count]
        for label in [*one.split(), "the end"]
    )
    total = counts.total() + len(PHONES) + 1
    labels = [label for word in task.words[split] for label in [*said[word][0].split(), "the end"]]
    losses = [-math.log((counts[label] + 1) / total) for label in labels]
    assert task.trivial(split)["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-9)


def test_the_trivial_answer_is_the_most_frequent_phone_as_often_as_is_best_in_train(
    small: G2P, said: dict[str, tuple[str, ...]]
) -> None:
    first = [said[word][0].split() for word in small.words["train"]]
    (phone, _), *_ = Counter(phone for one in first for phone in one).most_common()
    best = min(range(12), key=lambda k: sum(edits([phone] * k, one) for one in first))
    answers = dict.fromkeys(said, " ".join([phone] * best))
    scores, _ = small.scores(oracle_of(small, answers), "test", "cpu")
    reached = small.trivial("test")
    assert {name: reached[name] for name in METRICS} == values(scores)
    assert 0.5 < reached["per"] < 1


# Files of a user's own

FILES = {
    "cmudict": {
        "train": "CAT  K AE1 T\nCATS  K AE1 T S\nREAD  R IY1 D\nREAD(2)  R EH1 D\n",
        "valid": "tad T AE1 D\n",
        "test": "care K EH1 R\ntread T R EH1 D\ntread(2) T R IY1 D\n",
    },
    "wikipron": {
        "train": "ñu\tɲ u\n日本\tn i h o n\n日本\tn i pː o n\nun\tu n\n",
        "valid": "nu\tn u\n",
        "test": "本日\th o n\nnuñu\tn u ɲ u\n本\th o n\n本\tpː o n\n",
    },
}


def own(folder: Path, format_: str, **options: Any) -> G2P:
    for split, text in FILES[format_].items():
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")
    paths = {split: str(folder / f"{split}.txt") for split in FILES[format_]}
    return TASK.build({"name": "g2p", **paths, **options})


def test_a_dictionary_like_cmudict_becomes_a_task(tmp_path: Path) -> None:
    task = own(tmp_path, "cmudict")
    assert task.words == {
        "train": ("cat", "cats", "read"),
        "valid": ("tad",),
        "test": ("care", "tread"),
    }
    assert (task.source_size, task.target_size) == (3 + len(set("catsread")), 3 + len("KATSRIDE"))
    assert own(tmp_path, "cmudict", stress=True).phones.names[3:5] == ("AE1", "D")
    first = Counter([("cat", "K AE T"), ("cats", "K AE T S"), ("read", "R IY D")])
    assert taught(task, 3) == first
    both = own(tmp_path, "cmudict", pronunciations="all")
    assert taught(both, 4) == first + Counter([("read", "R EH D")])


def test_a_dictionary_of_two_columns_in_any_script_becomes_a_task(tmp_path: Path) -> None:
    task = own(tmp_path, "wikipron")
    assert task.words["test"] == ("本日", "nuñu", "本")
    assert task.longest == 2 + 5
    answers = {"本日": "h o n", "nuñu": "n u", "本": "pː o n"}
    scores, examples = task.scores(oracle_of(task, answers), "test", "cpu")
    found = values(scores)
    assert (found["per"], found["wer"]) == pytest.approx((2 / 10, 1 / 3))
    assert (found["per_first"], found["wer_first"]) == pytest.approx((3 / 10, 2 / 3))
    assert (found["wer_one"], found["wer_several"]) == pytest.approx((1 / 2, 0))
    assert {"input": "nuñu", "target": "n u ɲ u", "output": "n u"} in examples
    with pytest.raises(ValueError, match="letters of the training file only"):
        task.ask("nux")
