"""Tokens: nothing is lost, and what no token says is charged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablations.tasks.data.bible import KING_JAMES, read
from ablations.tasks.data.tokens import TOKENS, Characters, Tokens, Words, split

VERSE = "And God said, Let there be light: and there was light.\nAnd God saw [it]."
UNICODE = math.log(0x110000)

texts = st.text(st.characters(exclude_categories=["Cs"]))  # no halves of surrogate pairs
# Marks, letters and spaces side by side, where the rules for spaces are at work.
dense = st.text("ab 1\n\t([{“‘,.;:?!)]}”’'-`\"")


@pytest.fixture(scope="module")
def pieces() -> Tokens:
    some = "\n".join(list(read(KING_JAMES).values())[:500])
    return TOKENS.build({"name": "bpe", "size": 600}, text=some)


def words_of(text: str, size: int | None = None) -> Words:
    return Words(Words.Config(size=size), text)


@given(texts | dense)
def test_words_come_back_as_they_were(text: str) -> None:
    tokens = words_of(text)
    assert tokens.decode(tokens.encode(text)) == text
    assert tokens.spelling(text) == 0


@given(texts | dense | st.text(" \n▁a"))
def test_pieces_come_back_as_they_were_though_learned_from_another_text(
    pieces: Tokens, text: str
) -> None:
    assert pieces.decode(pieces.encode(text)) == text
    assert pieces.spelling(text) == 0


@pytest.mark.parametrize("name", TOKENS.components)
def test_a_reader_sees_each_token_as_one_word(name: str) -> None:
    tokens = TOKENS.build(name, text=VERSE)
    shown = tokens.show(tokens.encode("a\t light\n (it "))
    assert len(" ".join(shown).split()) == len(tokens.encode("a\t light\n (it "))
    assert "⏎" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("And he said, It is.", ["And", "he", "said", ",", "It", "is", "."]),
        ("the brother’s [son]", ["the", "brother’s", "[", "son", "]"]),
        ("brothers’ son", ["brothers", "’", "son"]),
        ("first-born; don`t", ["first-born", ";", "don`t"]),
        ("a\nb", ["a", "\n", "b"]),
        ("a  b", ["a", " ", " ", "b"]),
        ("a ,b", ["a", " ", ",", "", "b"]),
        ('say, "Yes"', ["say", ",", '"', "", "Yes", "", '"']),
    ],
)
def test_a_text_is_cut_into_words_and_marks(text: str, said: list[str]) -> None:
    assert split(text) == said


def test_an_unknown_word_is_charged_its_letters_and_its_end() -> None:
    train = "tot to to o"
    tokens = words_of(train, size=5)  # `to` alone has an id
    # Seen: t 4 times, o 4 times, 4 ends. Each once more, and once for a letter never seen.
    total = 4 + 4 + 4 + 3 + 1
    t, o, end = 5 / total, 5 / total, 5 / total
    other = 1 / total / 0x110000
    assert math.isclose(tokens.spelling("to to"), 0, abs_tol=1e-12)
    assert math.isclose(tokens.spelling("tot to"), -math.log(t * o * t * end))
    assert math.isclose(tokens.spelling("ox tot"), -math.log(o * other * end * t * o * t * end))


@given(st.text("abc \n,", min_size=1))
def test_letters_ends_and_the_unseen_share_all_probability(text: str) -> None:
    """So spelling is a code: no text is charged too little, whatever has an id and what has not."""
    tokens = words_of(text)
    letters = {letter for word in split(text) for letter in word}
    end = tokens._letters.cost("")
    each = [tokens._letters.cost(letter) - end for letter in letters]
    unseen = tokens._letters.cost("é") - end - UNICODE
    assert math.isclose(sum(math.exp(-cost) for cost in (*each, end, unseen)), 1)


def test_a_character_that_was_never_seen_is_charged_as_one_of_unicodes() -> None:
    tokens = Characters("abc")
    assert tokens.encode("ad")[1] == tokens.vocabulary.unknown
    assert math.isclose(tokens.spelling("abedd"), 3 * UNICODE)


def test_what_a_terminal_would_obey_and_xml_forbids_is_shown_as_a_sign() -> None:
    tokens = TOKENS.build({"name": "characters"}, text="a\x1b\x00\x9b\uffff")
    assert tokens.show(tokens.encode("a\x1b\x00\x9b\uffff")) == ["a", *"����"]
