"""The CMU Pronouncing Dictionary: what is read from it, and which words are kept apart."""

from __future__ import annotations

from collections import Counter

import pytest

from ablations.tasks.data.cmudict import LETTERS, PHONES, STRESSED, choose, read, stem

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


@pytest.fixture(scope="module")
def said() -> dict[str, tuple[str, ...]]:
    return read(False)


def test_the_dictionary_has_every_word_of_plain_letters_and_no_stress(
    said: dict[str, tuple[str, ...]],
) -> None:
    assert len(said) == 124_926
    assert set("".join(said)) == set(LETTERS)
    assert {phone for all_ in said.values() for one in all_ for phone in one.split()} == set(PHONES)
    assert said["aalsmeer"] == ("AA L S M IH R",)  # its line ends in a comment
    assert said["a"] == ("AH", "EY")
    assert said["mm"] == ("M",)


def test_with_stress_there_are_69_phones_and_more_pronunciations(
    said: dict[str, tuple[str, ...]],
) -> None:
    stressed = read(True)
    phones = {phone for all_ in stressed.values() for one in all_ for phone in one.split()}
    assert phones == set(STRESSED)
    assert len(STRESSED) == len(phones) == 69
    assert list(stressed) == list(said)
    assert stressed["insult"] == ("IH2 N S AH1 L T", "IH1 N S AH2 L T")


@pytest.mark.parametrize("family", RELATIVES)
def test_inflected_forms_of_one_word_have_one_stem(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


def test_no_stem_is_on_both_sides_of_the_stem_split() -> None:
    words = choose("stem", None, None, None)
    stems = Counter(each for split in words.values() for each in {stem(word) for word in split})
    assert set(stems.values()) == {1}


@pytest.mark.parametrize("by", ["stem", "word"])
def test_the_splits_are_near_90_5_5_and_hold_every_word_once(by: str) -> None:
    words = choose(by, None, None, None)
    shares = {split: len(chosen) / len(read(False)) for split, chosen in words.items()}
    assert shares == pytest.approx({"train": 0.9, "valid": 0.05, "test": 0.05}, abs=0.003)
    assert sorted(word for chosen in words.values() for word in chosen) == sorted(read(False))


@pytest.mark.parametrize("by", ["stem", "word"])
def test_a_smaller_choice_of_words_is_contained_in_a_larger(by: str) -> None:
    larger = choose(by, 4000, 200, None)
    smaller = choose(by, 1000, 200, 100)
    assert [len(smaller[split]) for split in ("train", "valid", "test")] == [1000, 200, 100]
    assert set(smaller["train"]) < set(larger["train"])
    assert smaller["valid"] == larger["valid"]
    assert set(smaller["test"]) < set(larger["test"])
