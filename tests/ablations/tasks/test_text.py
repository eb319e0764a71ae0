"""Language modelling: every token asked once, every character paid for."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ablations.tasks import batching
from ablations.tasks.batching import Padded, Windows
from ablations.tasks.data.files import KING_JAMES, WORLD_ENGLISH, chapters, find, read
from ablations.tasks.data.tokens import TOKENS, Characters, Tokens, Words, split
from ablations.tasks.g2p import G2P
from ablations.tasks.task import TASK, Budget
from ablations.tasks.text import Text
from model.batch import BOS, EOS, IGNORE, PAD, Batch
from model.build import build

CHOICES = [{"name": "characters"}, {"name": "words", "size": 200}, {"name": "bpe", "size": 400}]


@pytest.fixture(scope="module", params=CHOICES, ids=lambda choice: choice["name"])
def small(request: pytest.FixtureRequest) -> Text:
    return make(tokens=request.param)


def make(**options: Any) -> Text:
    few = {"length": 16, "characters": 20_000, "valid_characters": 900, "test_characters": 901}
    return TASK.build({"name": "text", **few, **options})


def tiny(task: Text) -> nn.Module:
    written = {"name": "transformer", "kind": "decoder", "d_model": 8, "depth": 1, "n_heads": 1}
    return build(written, None, task.target_size, seed=0)


def labels(batches: Iterator[Batch] | list[Batch]) -> list[int]:
    return [label for batch in batches for row in batch.labels.tolist() for label in row]


def test_lines_are_split_in_their_order() -> None:
    task = Text(Text.Config())
    counts = {part: text.count("\n") for part, text in task.texts.items()}
    assert counts == {"train": 31_102 - 2 * 1555, "valid": 1555, "test": 1555}
    assert task.texts["train"].startswith("In the beginning God created")
    assert task.texts["test"].endswith("[be] with you all. Amen.\n")
    assert all(text.endswith("\n") for text in task.texts.values())
    for part in ("valid", "test"):
        assert task.tokens.spelling(task.texts[part]) == 0, "no character is new"


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_window_reads_the_token_before_it_and_every_token_is_asked_once(
    small: Text, part: str
) -> None:
    ids = small.tokens.encode(small.texts[part])
    assert labels(small.evaluation_batches(part)) == ids
    reads = [row for batch in small.evaluation_batches(part) for row in batch.inputs.tolist()]  # type: ignore[union-attr]
    starts = range(0, len(ids), small.config.length)
    read = [BOS, *ids[:-1]]
    assert reads == [read[start : start + small.config.length] for start in starts]


@given(
    tokens=st.integers(1, 200),
    length=st.integers(2, 20),
    budget=st.builds(Budget, st.integers(1, 100), st.integers(1, 3)),
    seed=st.integers(0, 5),
)
def test_an_epoch_learns_no_token_twice_and_leaves_out_less_than_two_windows(
    tokens: int, length: int, budget: Budget, seed: int
) -> None:
    windows = Windows(range(100, 100 + tokens), length)
    width = min(length, tokens)
    count = max(1, tokens // width - 1)
    part = max(1, budget.batch_tokens // width)
    steps = math.ceil(count / (part * budget.micro_batches))
    epochs = list(islice(windows.steps(seed, "text", budget), 2 * steps))
    for epoch in (epochs[:steps], epochs[steps:]):
        seen = Counter(labels([batch for parts in epoch for batch in parts]))
        assert set(seen.values()) == {1}
        assert len(seen) == count * width
        assert tokens - len(seen) < 2 * width
        for parts in epoch:
            assert len(parts) <= budget.micro_batches
            for batch in parts:
                assert batch.inputs.numel() <= max(budget.batch_tokens, width)
                follows = torch.where(batch.labels == 100, BOS, batch.labels - 1)
                assert torch.equal(batch.inputs, follows)


def test_bits_per_character_count_every_token_and_every_unknown_word(small: Text) -> None:
    """Slowly: one window after the other, one label after the other."""
    model = tiny(small).eval()
    text = small.texts["valid"]
    ids = small.tokens.encode(text)
    nats = 0.0
    with torch.inference_mode():
        for start in range(0, len(ids), small.config.length):
            targets = ids[start : start + small.config.length]
            given = torch.tensor([[BOS, *ids][start : start + len(targets)]])
            rows = model(Batch(given, inputs=given))[0].double()
            for row, target in zip(rows, targets, strict=True):
                nats += float(row.logsumexp(0) - row[target])
    spelling = small.tokens.spelling(text)
    assert (spelling == 0) == (small.config.tokens["name"] == "bpe"), "the case is tried"
    (score,), _ = small.scores(model, "valid", "cpu")
    assert score.metric == "bits_per_character"
    assert score.value == pytest.approx((nats + spelling) / math.log(2) / len(text), rel=1e-5)


def test_the_trivial_answer_is_the_frequency_of_each_token(small: Text) -> None:
    train, valid = (small.tokens.encode(small.texts[part]) for part in ("train", "valid"))
    counts = Counter(train)
    total = len(train) + small.tokens.size - 2  # every id but PAD and BOS once more
    nats = -sum(math.log((counts[token] + 1) / total) for token in valid)
    trivial = small.trivial("valid")
    assert trivial["loss"] == pytest.approx(nats / len(valid))
    spelling = small.tokens.spelling(small.texts["valid"])
    assert trivial["bits_per_character"] == pytest.approx((nats + spelling) / math.log(2) / 900)


# Options and files


def test_a_file_is_cut_at_line_borders_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    content = "".join(f"line {number}\r\n" for number in range(39)) + "last: ß, no end"
    path.write_text(content, encoding="utf-8", newline="")
    task = Text(Text.Config(file=str(path)))
    assert "".join(task.texts.values()) == content
    assert task.texts["valid"] == "line 36\r\nline 37\r\n"
    assert task.texts["test"] == "line 38\r\nlast: ß, no end"
    assert task.card()["source"] == "mine.txt"
    assert task.tokens.spelling(task.texts["test"]) > 0, "ß was never seen"
    (score,), _ = task.scores(tiny(task), "test", "cpu")
    assert math.isfinite(score.value)


def test_the_borders_of_windows_move_from_epoch_to_epoch() -> None:
    epochs = Windows(range(100, 1100), 10).steps(0, "text", Budget(10_000))
    assert len({int(parts[0].labels.min()) % 10 for parts in islice(epochs, 50)}) == 10


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


@given(texts | dense | st.text(" \n▁a"))
def test_words_come_back_as_they_were_and_pieces_though_learned_from_another_text(
    pieces: Tokens, text: str
) -> None:
    for tokens in (words_of(text), pieces):
        assert tokens.decode(tokens.encode(text)) == text
        assert tokens.spelling(text) == 0


@pytest.mark.parametrize("name", TOKENS.components)
def test_a_reader_sees_each_token_as_one_word(name: str) -> None:
    tokens = TOKENS.build(name, text=VERSE)
    shown = tokens.show(tokens.encode("a\t light\n (it "))
    assert len(" ".join(shown).split()) == len(tokens.encode("a\t light\n (it "))
    assert "⏎" in shown


def test_a_text_is_cut_into_words_and_marks() -> None:
    for text, said in {
        "And he said, It is.": ["And", "he", "said", ",", "It", "is", "."],
        "the brother’s [son]": ["the", "brother’s", "[", "son", "]"],
        "brothers’ son": ["brothers", "’", "son"],
        "first-born; don`t": ["first-born", ";", "don`t"],
        "a\nb": ["a", "\n", "b"],
        "a  b": ["a", " ", " ", "b"],
        "a ,b": ["a", " ", ",", "", "b"],
        'say, "Yes"': ["say", ",", '"', "", "Yes", "", '"'],
    }.items():
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
    for side, pairs in splits.items():
        for row, pair in enumerate(pairs):
            places.setdefault(pair, []).append((side, row))
    for chapter in by_chapter.values():
        found = [
            (side, row)
            for side, row in places[chapter[0]]
            if list(splits[side][row : row + len(chapter)]) == chapter
        ]
        assert len(found) == 1


def test_seed_name_and_epoch_decide_the_order_and_each_changes_it(some: Padded) -> None:
    def order(seed: int, name: str) -> list[int]:
        steps = islice(some.steps(seed, name, Budget(300, 2)), 240)
        return [row for step in steps for batch in rows(step) for row in batch]

    first = order(1, "g2p")
    assert order(1, "g2p") == first
    for other in (order(2, "g2p"), order(1, "text"), first[2000:]):
        assert sum(a == b for a, b in zip(first, other, strict=False)) < 0.05 * len(other)


FIRST = EOS + 1
Steps = Iterator[tuple[Batch, ...]]


def made(lengths: list[tuple[int, int]], has_source: bool = True) -> Padded:
    """Examples of given source and target length, each with a first token of its own."""
    targets = [
        [BOS, index + FIRST, *[FIRST] * (target - 1), EOS]
        for index, (_, target) in enumerate(lengths)
    ]
    sources = [
        [index + FIRST, *[FIRST] * (source - 1), EOS] for index, (source, _) in enumerate(lengths)
    ]
    return Padded(sources if has_source else None, targets)


def rows(step: tuple[Batch, ...]) -> list[list[int]]:
    """Which examples are in each batch of a step."""
    return [(batch.labels[:, 0] - FIRST).tolist() for batch in step]


def epoch(steps: Steps, size: int) -> list[tuple[Batch, ...]]:
    """Steps until so many examples have come."""
    taken: list[tuple[Batch, ...]] = []
    count = 0
    while count < size:
        taken.append(next(steps))
        count += sum(map(len, rows(taken[-1])))
    assert count == size, "an epoch ends where a step ends"
    return taken


@pytest.fixture(scope="module")
def words() -> Padded:
    return G2P(G2P.Config(valid_words=10, test_words=10)).pairs("train")


@pytest.fixture(scope="module")
def some() -> Padded:
    draw = random.Random(0)
    return made([(draw.randint(1, 15), draw.randint(1, 15)) for _ in range(2000)])


LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=60)
BUDGETS = st.builds(Budget, tokens=st.integers(1, 400), micro_batches=st.integers(1, 5))


@pytest.mark.parametrize("budget", [Budget(2100, 2), Budget(4200, 4)], ids=str)
def test_less_than_a_twentieth_of_a_step_is_padding_and_it_goes_from_short_to_long(
    words: Padded, budget: Budget
) -> None:
    real = held = 0
    for step in islice(words.steps(0, "g2p", budget), 300):
        assert len(step) == budget.micro_batches
        lengths = [(batch.source != PAD).sum(dim=1) for batch in step]
        assert all(shorter.max() <= longer.min() for shorter, longer in pairwise(lengths))
        assert budget.micro_batches < 4 or lengths[0].max() < lengths[-1].min()
        for batch in step:
            # Not inputs != PAD: the EOS of a shorter word stands there and is padding too.
            real += int((batch.source != PAD).sum()) + batch.tokens
            held += batch.source.numel() + batch.labels.numel()
    assert 1 - real / held < 0.05
    assert held / 300 == pytest.approx(budget.tokens, rel=0.05)


@given(LENGTHS, st.integers(1, 400))
def test_by_length_has_every_row_once_from_short_to_long(
    lengths: list[tuple[int, int]], tokens: int
) -> None:
    batches = made(lengths).by_length(tokens)
    order = [row for rows_B in batches for row in rows_B.tolist()]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[row][0] for row in order] == sorted(source for source, _ in lengths)


@given(LENGTHS, BUDGETS, st.booleans())
def test_an_epoch_has_every_example_once_and_lengths_only_where_something_is_padded(
    lengths: list[tuple[int, int]], budget: Budget, has_source: bool
) -> None:
    steps = made(lengths, has_source).steps(0, "any", budget)
    for taken in [epoch(steps, len(lengths)) for _ in range(3)]:
        batches = [both for step in taken for both in zip(step, rows(step), strict=True)]
        assert sorted(row for _, chosen in batches for row in chosen) == [*range(len(lengths))]
        for batch, chosen in batches:
            sides = [(batch.inputs, batch.lengths, [lengths[row][1] + 1 for row in chosen])]
            if has_source:
                real = [lengths[row][0] + 1 for row in chosen]
                sides.append((batch.source, batch.source_lengths, real))
            else:
                assert batch.source is batch.source_lengths is None
            for tokens, said, real in sides:
                assert tokens.shape == (len(chosen), max(real))
                assert (said is None) == (len(set(real)) == 1)
                assert said is None or said.tolist() == real
            read = cast(Tensor, batch.inputs).tolist()
            for row, labels, inputs in zip(chosen, batch.labels.tolist(), read, strict=True):
                asked = [row + FIRST, *[FIRST] * (lengths[row][1] - 1), EOS]
                assert labels == asked + [IGNORE] * (len(labels) - len(asked))
                assert inputs[: len(asked)] == [BOS, *asked[:-1]]


def test_evaluation_batches_made_in_inference_mode_serve_a_backward_pass() -> None:
    padded = made([(2, 3), (3, 2)])
    with torch.inference_mode():
        ((_, batch),) = padded.asked
    assert batch.source is not None
    torch.nn.Embedding(9, 2)(batch.source).sum().backward()


def test_a_vocabulary_of_more_than_a_byte_keeps_its_ids() -> None:
    pairs = Padded([[70_000, EOS], [3, EOS]], [[BOS, 255, EOS], [BOS, 256, 257, EOS]])
    batch = pairs.batch(torch.tensor([0, 1]))
    assert batch.source.tolist() == [[70_000, EOS], [3, EOS]]
    assert batch.labels.tolist() == [[255, EOS, IGNORE], [256, 257, EOS]]
    assert batch.labels.dtype == batch.source.dtype == torch.int64


def test_every_so_many_th_example_is_read_whatever_the_batches() -> None:
    rows = torch.arange(30)[:, None].expand(30, 4)
    whole = [Batch(rows[a:b], inputs=rows[a:b]) for a, b in ((0, 7), (7, 9), (9, 30))]
    assert sum(batch.tokens for batch in batching.some(whole, 1000)) == 120
    chosen = torch.cat([batch.labels[:, 0] for batch in batching.some(whole, 40)])
    assert chosen.tolist() == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]
