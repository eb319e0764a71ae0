"""What an answer is measured against, and what its errors are."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablations.tasks.data.cmudict import PHONES
from ablations.tasks.scoring import METRICS, edits, nearest, score
from ablations.tasks.task import Score


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


def values(scores: list[Score]) -> dict[str, float | None]:
    return {each.metric: each.value for each in scores}


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
    one, several = score([[3]], [[[3]]]), score([[3]], [[[3], [4]]])
    missing = {each.metric: each.reason for each in one + several if each.value is None}
    assert missing == {
        "per_one": "no words with one pronunciation",
        "wer_one": "no words with one pronunciation",
        "per_several": "no words with several pronunciations",
        "wer_several": "no words with several pronunciations",
    }
