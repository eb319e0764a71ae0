"""Translation: pairs that belong together, scores that others can compute, files with mistakes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sacrebleu import corpus_bleu, corpus_chrf
from small_models import Says

from ablations.tasks.data.files import KING_JAMES, WORLD_ENGLISH, read
from ablations.tasks.task import TASK, Score
from ablations.tasks.translation import FILES, Translation
from model.batch import EOS
from model.config import ConfigError

BAD_FILES: dict[str, tuple[bytes | None, str]] = {
    "train_source": (b"", ":1: the file is empty; write some text in it"),
    "valid_target": (b"a\n\xe9\n", ":2: not UTF-8; save the file as UTF-8"),
    "test_source": (b"a\n \n", ":2: the line is empty; write one sentence in each line"),
    "test_target": (None, ": No such file or directory; name a file that can be read"),
}

SMALL = {"tokens": {"name": "bpe", "size": 500}, "max_words": 9, "valid_sentences": 40}


@pytest.fixture(scope="module")
def small() -> Translation:
    return make(**SMALL)


def make(**options: Any) -> Translation:
    return TASK.build({"name": "translation", **options})


def own(folder: Path, **instead: Sequence[str]) -> dict[str, str]:
    """Six files, and the options that name them."""
    contents: dict[str, Sequence[str]] = {
        "train_source": ["thou art here", "he goeth away", "thou goeth"],
        "train_target": ["you are here", "he goes away", "you go"],
        "valid_source": ["thou art away", "He, goeth!"],
        "valid_target": ["you are away", "he goes"],
        "test_source": ["he hath gone", "here"],
        "test_target": ["he has gone", "here"],
        **instead,
    }
    paths = {option: str(folder / f"{option}.txt") for option in FILES}
    for option, path in paths.items():
        Path(path).write_text("".join(f"{line}\n" for line in contents[option]), encoding="utf-8")
    return paths


def saying(task: Translation, answers: dict[str, str]) -> Says:
    """Answers with the target, or whatever else, that goes with each source it knows."""
    encode = task.tokens.encode
    known = {tuple(encode(source)): encode(answer) for source, answer in answers.items()}
    return Says(task.target_size, lambda source: known[tuple(source)])


def values(scores: Sequence[Score]) -> dict[str, float | None]:
    return {score.metric: score.value for score in scores}


# The data


def test_pairs_with_too_many_words_on_either_side_are_left_out_and_counted() -> None:
    task = make(max_words=12)
    old, new = read(KING_JAMES), read(WORLD_ENGLISH)
    both = old.keys() & new.keys()
    short = [v for v in both if max(len(bible[v].split()) for bible in (old, new)) <= 12]
    assert sum(map(len, task.sentences.values())) == len(short)
    card = task.card()
    assert card["left_out"] == task.left_out
    assert card["size"] == {split: len(pairs) for split, pairs in task.sentences.items()}


def test_source_and_target_share_one_vocabulary_learned_from_both_sides_of_train(
    tmp_path: Path,
) -> None:
    task = make(**own(tmp_path), tokens={"name": "words", "size": None})
    assert task.source_size == task.target_size == task.tokens.size
    names = {"thou", "art", "here", "he", "goeth", "away", "you", "are", "goes", "go"}
    named = {task.tokens.decode([index]) for index in range(4, task.target_size)}
    assert names <= named
    assert not {"hath", "gone", "has", "He"} & named, "valid and test teach nothing"


# Scores


def test_scores_are_sacrebleus_own(small: Translation) -> None:
    pairs = small.sentences["valid"]
    answers = dict(pairs) | {pairs[0][0]: "Something else.", pairs[1][0]: ""}
    outputs = [small.tokens.decode(small.tokens.encode(answers[source])) for source, _ in pairs]
    scores, _ = small.scores(saying(small, answers), "valid", "cpu")
    targets = [target for _, target in pairs]
    assert 0 < (values(scores)["bleu"] or 0) < 100
    assert values(scores)["bleu"] == pytest.approx(corpus_bleu(outputs, [targets]).score)
    assert values(scores)["chrf"] == pytest.approx(corpus_chrf(outputs, [targets]).score)
    assert values(scores).keys() == Translation.metrics.keys()


def test_sentences_with_a_word_that_train_never_had_are_scored_apart(small: Translation) -> None:
    known = {
        word
        for source, _ in small.sentences["train"]
        for word in re.split(r"\W+", source.casefold())
    }
    groups: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for source, target in small.sentences["valid"]:
        new = any(word not in known for word in re.split(r"\W+", source.casefold()))
        groups[new].append((source, target))
    assert all(len(group) > 5 for group in groups.values()), "the case is tried"
    # Right where every word was seen, and the source unchanged where not.
    answers = dict(groups[False]) | {source: source for source, _ in groups[True]}
    taken = values(small.scores(saying(small, answers), "valid", "cpu")[0])
    sources, targets = zip(*groups[True], strict=True)
    assert taken["bleu_seen"] == pytest.approx(100)
    assert taken["chrf_seen"] == pytest.approx(100)
    assert taken["bleu_unseen"] == pytest.approx(corpus_bleu(sources, [targets]).score)
    assert taken["chrf_unseen"] == pytest.approx(corpus_chrf(sources, [targets]).score)


def test_the_card_says_how_scores_are_taken_and_what_copying_would_score(
    small: Translation,
) -> None:
    card = small.card()
    assert re.fullmatch(r"nrefs:1\|case:mixed\|.*version:[\d.]+", card["signatures"]["bleu"])
    assert re.fullmatch(r"nrefs:1\|case:mixed\|.*nc:6\|.*", card["signatures"]["chrf"])
    sources, targets = zip(*small.sentences["test"], strict=True)
    copied = card["copying_the_source"]["test"]
    assert copied["bleu"] == pytest.approx(corpus_bleu(sources, [targets]).score)
    assert copied["chrf"] == pytest.approx(corpus_chrf(sources, [targets]).score)
    assert card["licence"] == "public domain"


def test_the_trivial_answer_is_the_most_frequent_sentence_and_token_frequencies(
    small: Translation,
) -> None:
    trivial = small.trivial("valid")
    usual = Counter(target for _, target in small.sentences["train"]).most_common(1)[0][0]
    targets = [target for _, target in small.sentences["valid"]]
    assert trivial["bleu"] == pytest.approx(corpus_bleu([usual] * 40, [targets]).score)
    assert trivial["chrf"] == pytest.approx(corpus_chrf([usual] * 40, [targets]).score)
    train, valid = (
        [token for _, side in small.sentences[split] for token in (*small.tokens.encode(side), EOS)]
        for split in ("train", "valid")
    )
    counts, total = Counter(train), len(train) + small.target_size - 2
    nats = -sum(math.log((counts[token] + 1) / total) for token in valid)
    assert trivial["loss"] == pytest.approx(nats / len(valid))


# Options and files


def test_own_files_are_read_line_by_line(tmp_path: Path) -> None:
    paths = own(tmp_path)
    task = make(**paths, tokens="words")
    assert task.sentences["train"][1] == ("he goeth away", "he goes away")
    assert task.card()["size"] == {"train": 3, "valid": 2, "test": 2}
    assert task.card()["source"].startswith("train_source.txt, train_target.txt, valid")


def test_a_bad_file_is_named_with_its_line(tmp_path: Path) -> None:
    for option, (content, line) in BAD_FILES.items():
        paths = own(tmp_path)
        Path(paths[option]).unlink()
        if content is not None:
            Path(paths[option]).write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            make(**paths)
        assert caught.value.problems == [f"{option}={paths[option]}{line}"]


def test_files_of_different_length_are_refused_at_the_first_line_without_its_pair(
    tmp_path: Path,
) -> None:
    paths = own(tmp_path, valid_target=["one", "two", "three", "four"], test_target=["one"])
    with pytest.raises(ConfigError) as caught:
        make(**paths)
    advice = "has no such line; give every sentence its translation in the same line"
    assert caught.value.problems == [
        f"valid_target={paths['valid_target']}:3: {paths['valid_source']} {advice}",
        f"test_source={paths['test_source']}:2: {paths['test_target']} {advice}",
    ]
