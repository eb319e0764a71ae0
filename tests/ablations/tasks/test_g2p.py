"""The pronunciation task: what is split from what, what a batch holds, what a score means."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import Says

from ablations.evaluations.quality import Beam
from ablations.tasks import TASK
from ablations.tasks.data.cmudict import (
    LETTERS,
    PHONES,
    STRESSED,
    choose,
    from_files,
    read,
    read_file,
    stem,
)
from ablations.tasks.data.tokens import Vocabulary
from ablations.tasks.g2p import G2P
from ablations.tasks.scoring import METRICS, edits, nearest, score
from ablations.tasks.task import Budget, Score
from model.batch import EOS
from model.build import build
from model.config import ConfigError
from model.generate import beam


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
                letters = task.letters.show(token for token in source if token > EOS)
                seen["".join(letters), task.to_text([each for each in labels if each > EOS])] += 1
        if seen.total() >= count:
            return seen
    raise AssertionError("steps have no end")


def values(scores: list[Score]) -> dict[str, float | None]:
    return {each.metric: each.value for each in scores}


def oracle_of(task: G2P, answers: dict[str, str]) -> Says:
    """Says what a table says for each word."""

    def answer(letters: list[int]) -> list[int]:
        return task.phones.encode(answers["".join(task.letters.show(letters))].split())

    return Says(task.target_size, answer)


def test_a_beam_is_scored_by_the_best_of_its_answers_and_not_by_the_greedy_one() -> None:
    task = G2P(G2P.Config(words=50, valid_words=5, test_words=12))
    written = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "depth": 1}
    model = build({**written, "n_heads": 2}, task.source_size, task.target_size, seed=0)
    taken = Beam().measure(model, task, torch.device("cpu"), 1).measurements
    outputs = []
    for word in task.words["test"]:
        ((best, *_),) = beam(model, task.ask(word), task.longest - 1, width=4)
        outputs.append(best.tokens)
    said = [task.dictionary.said["test"][word] for word in task.words["test"]]
    references = [[task.phones.encode(one.split()) for one in each] for each in said]
    found = {each.metric: each.value for each in taken}
    assert found == values(score(outputs, references))
    assert found["per"] != values(task.scores(model, "test", "cpu")[0])["per"]


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
    return TASK.build({"name": "g2p", **write(folder, **FILES[format_]), **options})


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


def slow_edits(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """The definition: the cheapest of delete, insert and replace, by recursion."""

    @cache
    def cost(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        replaced = cost(i - 1, j - 1) + (left[i - 1] != right[j - 1])
        return min(cost(i - 1, j) + 1, cost(i, j - 1) + 1, replaced)

    return cost(len(left), len(right))


PHONE_STRINGS = st.lists(st.integers(3, 6), max_size=7)


@given(PHONE_STRINGS, PHONE_STRINGS)
def test_edits_are_those_of_the_definition(left: list[int], right: list[int]) -> None:
    assert edits(left, right) == slow_edits(tuple(left), tuple(right))


@given(PHONE_STRINGS, st.lists(PHONE_STRINGS, min_size=1, max_size=4))
def test_the_nearest_reference_has_fewest_edits_and_then_most_phones(
    output: list[int], references: list[list[int]]
) -> None:
    chosen = nearest(output, references)
    best = min((slow_edits(tuple(output), tuple(said)), -len(said)) for said in references)
    assert (slow_edits(tuple(output), tuple(chosen)), -len(chosen)) == best


def test_the_scorings_of_four_words_by_hand() -> None:
    ids = {phone: index for index, phone in enumerate(PHONES)}
    words = [  # what was written, what would be right
        ("T AH M EY T OW", ["T AH M AA T OW", "T AH M EY T OW"]),
        ("R EH D", ["R IY D", "R EH D Z"]),
        ("L IY D", ["L EH D Z AH", "L IY D Z"]),
        ("K AE T S", ["D AO G"]),
    ]
    encoded = [
        ([ids[p] for p in output.split()], [[ids[p] for p in one.split()] for one in said])
        for output, said in words
    ]
    scores = score([output for output, _ in encoded], [said for _, said in encoded])
    assert values(scores) == pytest.approx(
        {
            # Nearest: 0 edits of 6; 1 from both, so the longer, of 4; 1 of 4; 4 of 3.
            "per": (0 + 1 + 1 + 4) / (6 + 4 + 4 + 3),
            "wer": 3 / 4,
            # Any: the first is met by its second, the others are measured by their first.
            "per_any": (0 + 1 + 3 + 4) / (6 + 3 + 5 + 3),
            "wer_any": 3 / 4,
            "per_first": (1 + 1 + 3 + 4) / (6 + 3 + 5 + 3),
            "wer_first": 4 / 4,
            "per_one": 4 / 3,
            "wer_one": 1 / 1,
            "per_several": (0 + 1 + 1) / (6 + 4 + 4),
            "wer_several": 2 / 3,
        }
    )
    assert list(values(scores)) == list(METRICS)


def test_a_score_without_words_is_none_and_says_why() -> None:
    for references, group, words in (
        ([[3]], "several", "words with several pronunciations"),
        ([[3], [4]], "one", "words with one pronunciation"),
    ):
        missing = {s.metric: s.reason for s in score([[3]], [references]) if s.value is None}
        assert missing == dict.fromkeys((f"per_{group}", f"wer_{group}"), f"no {words}")


RELATIVES = [
    "run runs runner runners runner's running",
    "happy happier happiest happily happiness",
    "city cities city's cities'",
    "active actives actively activity activities activism activist activists",
    "organize organizes organized organizer organizers organizing organizational",
    "tie ties tied tying",
    "class classes classy classed",
    "friendly friendlier friendliest friend friends friend's",
    "could couldn't could've",
    "govern governs governed governing government governments government's governor",
    "obrien o'brien o'brien's",
]


def test_the_dictionary_has_every_word_of_plain_letters_with_stress_and_without(
    said: dict[str, tuple[str, ...]],
) -> None:
    stressed = read(True)
    assert list(stressed) == list(said)
    assert (len(said), len(PHONES), len(STRESSED)) == (124_926, 39, 69)
    assert set("".join(said)) == set(LETTERS)
    for words, phones in ((said, PHONES), (stressed, STRESSED)):
        assert {p for all_ in words.values() for one in all_ for p in one.split()} == set(phones)
    assert said["aalsmeer"] == ("AA L S M IH R",)  # its line ends in a comment
    assert (said["a"], said["mm"]) == (("AH", "EY"), ("M",))
    assert stressed["insult"] == ("IH2 N S AH1 L T", "IH1 N S AH2 L T")


def test_inflected_forms_of_one_word_have_one_stem() -> None:
    for family in RELATIVES:
        assert len({stem(word) for word in family.split()}) == 1, family


def test_the_splits_hold_every_word_once_and_no_stem_is_on_both_sides() -> None:
    for by in ("stem", "word"):
        words = choose(by, None, None, None)
        shares = {split: len(chosen) / len(read(False)) for split, chosen in words.items()}
        assert shares == pytest.approx({"train": 0.9, "valid": 0.05, "test": 0.05}, abs=0.003)
        assert sorted(word for chosen in words.values() for word in chosen) == sorted(read(False))
        stems = Counter(each for split in words.values() for each in {stem(w) for w in split})
        assert (set(stems.values()) == {1}) == (by == "stem")
        larger, smaller = choose(by, 4000, 200, None), choose(by, 1000, 200, 100)
        assert [len(smaller[split]) for split in ("train", "valid", "test")] == [1000, 200, 100]
        assert set(smaller["train"]) < set(larger["train"]), "a smaller choice is contained"
        assert smaller["valid"] == larger["valid"]
        assert set(smaller["test"]) < set(larger["test"])


CMUDICT = """\
;;; # A comment, as CMUdict 0.7b has them

READ  R IY1 D
READ(1)  R EH1 D
'BOUT  B AW1 T
insult IH2 N S AH1 L T
insult(2) IH1 N S AH2 L T # noun
# another comment
zoe Z OW1 IY0 # name
"""
WIKIPRON = "schön\tʃ øː n\nweg\tv ɛ k\nweg\tv eː k\nWeg\tv eː k\nzum Teil\tts ʊ m t2\n"


def write(folder: Path, **texts: str | bytes) -> dict[str, str]:
    """Split → the path of a file with this text."""
    for split, text in texts.items():
        (folder / split).write_bytes(text if isinstance(text, bytes) else text.encode())
    return {split: str(folder / split) for split in ("train", "valid", "test")}


# What is read


IN_CMUDICT = {
    "read": ("R IY1 D", "R EH1 D"),
    "'bout": ("B AW1 T",),
    "insult": ("IH2 N S AH1 L T", "IH1 N S AH2 L T"),
    "zoe": ("Z OW1 IY0",),
}
IN_WIKIPRON = {
    "schön": ("ʃ øː n",),
    "weg": ("v ɛ k", "v eː k"),
    "Weg": ("v eː k",),
    "zum Teil": ("ts ʊ m t2",),
}


def test_either_format_is_read_whatever_its_line_ends_and_stress_is_cmudicts(
    tmp_path: Path,
) -> None:
    unstressed = {
        word: tuple(dict.fromkeys(re.sub("[012]", "", one) for one in stressed))
        for word, stressed in IN_CMUDICT.items()
    }
    assert unstressed["insult"] == ("IH N S AH L T",), "what became equal is one"
    for text, stressed, said in (
        (CMUDICT, IN_CMUDICT, unstressed),
        (WIKIPRON, IN_WIKIPRON, IN_WIKIPRON),
    ):
        for written in (text, f"\ufeff{text}", f"{text}\n\n", text.replace("\n", "\r\n")):
            path = write(tmp_path, train=written)["train"]
            assert read_file(path, stress=True) == stressed
            assert list(read_file(path, stress=False).items()) == list(said.items())


def test_letters_and_phones_are_those_of_the_whole_training_file(tmp_path: Path) -> None:
    paths = write(tmp_path, train=WIKIPRON, valid="weg\tv ɛ k\n", test="nö\tn\n")
    task: G2P = TASK.build({"name": "g2p", **paths, "words": 1, "valid_words": 5})
    assert task.words == {"train": ("schön",), "valid": ("weg",), "test": ("nö",)}
    assert task.dictionary.letters == sorted(set("schönwegWegzum Teil"))
    assert task.dictionary.phones == sorted(
        ["ʃ", "øː", "n", "v", "ɛ", "k", "eː", "ts", "ʊ", "m", "t2"]
    )
    assert task.longest == 2 + len("zum Teil")
    card = task.card()
    assert (card["licence"], card["source"]) == ("the user's own", "train, valid, test")
    assert card["split"].endswith("1 words of valid and 0 words of test are in train too")


# What is said of a bad file


def test_what_is_never_taught_is_named_with_its_line(tmp_path: Path) -> None:
    texts = {"train": "fa\tf a\n", "valid": "af\ta f\n", "test": "af\ta f\n"}
    for split in ("valid", "test"):
        for line, symbol in [("fax\tf a", "letter 'x'"), ("fa\tf ɔː", "phone 'ɔː'")]:
            paths = write(tmp_path, **{**texts, split: f"aa\ta a\n{line}\n"})
            with pytest.raises(ConfigError) as caught:
                from_files(paths, stress=False)
            said = f"no word of train has the {symbol}; drop this line, or teach a word with it"
            assert caught.value.problems == [f"{split}={paths[split]}:2: {said}"]


BAD_FILES: dict[str, str | bytes] = {
    "train:1: the file is empty; write some text in it": " \n\n",
    "train: no words; write one a line, as in WORD  P H O N E S": ";;; only\n\n",
    "train:2: not UTF-8; save the file as UTF-8": b"a AH0\nd\xc9j\xc0 D EY1\n",
    "train:1: not UTF-8; save the file as UTF-8": "a AH0".encode("utf-16"),
    "train:3: no phones for 'b'; write WORD  P H O N E S": "a AH0\n\nb\n",
    "train:1: no phones for 'a'; write WORD  P H O N E S": "a # AH0\n",
    "train:2: not two columns; write word<TAB>p h o n e s": "a\tə\nb ə\n",
    "train:1: not two columns; write word<TAB>p h o n e s": "a\tə\t3\n",
    "train:2: no phones for 'b'; write word<TAB>p h o n e s": "a\tə\nb\t \n",
    "train:1: no word before the tab; write word<TAB>p h o n e s": " \tə\n",
}


def test_a_malformed_file_is_named_with_its_line_and_the_remedy(tmp_path: Path) -> None:
    for said, text in BAD_FILES.items():
        path = write(tmp_path, train=text)["train"]
        with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as caught:
            read_file(path, stress=False)
        assert str(caught.value) == f"{tmp_path}/{said}"


def test_an_unknown_symbol_has_the_fourth_id_or_is_named() -> None:
    knowing, strict = Vocabulary("ab", unknown=True), Vocabulary("ab")
    assert (knowing.unknown, strict.unknown) == (3, None)
    assert knowing.encode("abc") == [4, 5, 3]
    assert knowing.show([3]) == ["<unk>"]
    with pytest.raises(ValueError, match="'c' is not in the vocabulary"):
        strict.encode("abc")
