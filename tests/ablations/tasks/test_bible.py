"""The two Bibles: every verse, aligned, and chapters that stay together."""

from __future__ import annotations

import re

from ablations.tasks.data.files import KING_JAMES, WORLD_ENGLISH, chapters, find, read


def test_both_bibles_have_every_verse() -> None:
    old, new = read(KING_JAMES), read(WORLD_ENGLISH)
    assert len(old) == len(new) == 31_102
    assert len({verse // 1_000_000 for verse in old}) == 66
    assert len({verse // 1000 for verse in old}) == 1189
    assert old[1_001_001] == "In the beginning God created the heaven and the earth."
    assert new[1_001_001] == "In the beginning God created the heavens and the earth."
    assert old[43_011_035] == new[43_011_035] == "Jesus wept."
    assert old[66_022_021] == "The grace of our Lord Jesus Christ [be] with you all. Amen."
    for text in (*old.values(), *new.values()):
        assert text
        assert text == " ".join(text.split())


def test_the_headings_of_the_psalms_are_no_part_of_the_verses_before_them() -> None:
    raw = find(WORLD_ENGLISH).read_text(encoding="utf-8")
    assert len(re.findall(r"\sPsalm \d+", raw)) == 150
    new = read(WORLD_ENGLISH)
    assert not [text for text in new.values() if re.search(r"Psalm \d|BOOK I", text)]
    assert new[18_042_017] == "So Job died, being old and full of days."
    assert new[19_002_012].endswith("Blessed are all those who take refuge in him.")


def test_a_chapter_is_on_one_side_whole_and_in_its_order() -> None:
    old, new = read(KING_JAMES), read(WORLD_ENGLISH)
    by_chapter: dict[int, list[tuple[str, str]]] = {}
    for verse in sorted(old.keys() & new.keys()):
        by_chapter.setdefault(verse // 1000, []).append((old[verse], new[verse]))
    splits = chapters()
    places: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for split, pairs in splits.items():
        for row, pair in enumerate(pairs):
            places.setdefault(pair, []).append((split, row))
    for chapter in by_chapter.values():
        found = [
            (split, row)
            for split, row in places[chapter[0]]
            if list(splits[split][row : row + len(chapter)]) == chapter
        ]
        assert len(found) == 1
