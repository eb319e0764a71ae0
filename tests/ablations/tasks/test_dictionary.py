"""Dictionaries of a user's own: what is read from a file, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablations.tasks.data.cmudict import from_files, read_file
from ablations.tasks.data.tokens import Vocabulary
from model.config import ConfigError

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
ALL = {"train": None, "valid": None, "test": None}


def write(folder: Path, **texts: str | bytes) -> dict[str, str]:
    """Split → the path of a file with this text."""
    for split, text in texts.items():
        (folder / split).write_bytes(text if isinstance(text, bytes) else text.encode())
    return {split: str(folder / split) for split in ("train", "valid", "test")}


# What is read


def test_a_file_in_the_format_of_cmudict_with_stress_and_without(tmp_path: Path) -> None:
    path = write(tmp_path, train=CMUDICT)["train"]
    assert read_file(path, stress=True) == {
        "read": ("R IY1 D", "R EH1 D"),
        "'bout": ("B AW1 T",),
        "insult": ("IH2 N S AH1 L T", "IH1 N S AH2 L T"),
        "zoe": ("Z OW1 IY0",),
    }
    said = read_file(path, stress=False)
    assert said["read"] == ("R IY D", "R EH D")
    assert said["insult"] == ("IH N S AH L T",), "what became equal is one"


def test_a_file_of_two_columns_is_read_as_it_stands(tmp_path: Path) -> None:
    path = write(tmp_path, train=WIKIPRON)["train"]
    expected = {
        "schön": ("ʃ øː n",),
        "weg": ("v ɛ k", "v eː k"),
        "Weg": ("v eː k",),
        "zum Teil": ("ts ʊ m t2",),
    }
    assert read_file(path, stress=False) == read_file(path, stress=True) == expected
    assert list(read_file(path, stress=False)) == list(expected)


@pytest.mark.parametrize(
    ("text", "change"),
    [(CMUDICT, "\ufeff{}"), (WIKIPRON, "{}\n\n"), (WIKIPRON, "\r\n")],
    ids=["mark", "blank", "dos"],
)
def test_a_byte_order_mark_blank_lines_and_carriage_returns_change_nothing(
    tmp_path: Path, text: str, change: str
) -> None:
    written = change.format(text) if "{}" in change else text.replace("\n", change)
    paths = write(tmp_path, train=text, valid=written)
    assert read_file(paths["train"], stress=True) == read_file(paths["valid"], stress=True)


def test_letters_and_phones_are_those_of_the_whole_training_file(tmp_path: Path) -> None:
    paths = write(tmp_path, train=WIKIPRON, valid="weg\tv ɛ k\n", test="nö\tn\n")
    cut = from_files(paths, {**ALL, "train": 1}, stress=False)
    assert cut.words == {"train": ("schön",), "valid": ("weg",), "test": ("nö",)}
    assert cut.letters == sorted(set("schönwegWegzum Teil"))
    assert cut.phones == sorted(["ʃ", "øː", "n", "v", "ɛ", "k", "eː", "ts", "ʊ", "m", "t2"])
    assert cut.longest == len("zum Teil")
    assert cut.licence == "the user's own"
    assert cut.source == "train, valid, test"
    assert cut.rule.endswith("1 words of valid and 0 words of test are in train too")


# What is said of a bad file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "train:1: the file is empty; write some text in it"),
        (" \n\n", "train:1: the file is empty; write some text in it"),
        (";;; only\n\n", "train: no words; write one a line, as in WORD  P H O N E S"),
        (b"a AH0\nd\xc9j\xc0 D EY1\n", "train:2: not UTF-8; save the file as UTF-8"),
        ("a AH0".encode("utf-16"), "train:1: not UTF-8; save the file as UTF-8"),
        ("a AH0\n\nb\n", "train:3: no phones for 'b'; write WORD  P H O N E S"),
        ("a # AH0\n", "train:1: no phones for 'a'; write WORD  P H O N E S"),
        ("a\tə\nb ə\n", "train:2: not two columns; write word<TAB>p h o n e s"),
        ("a\tə\t3\n", "train:1: not two columns; write word<TAB>p h o n e s"),
        ("a\tə\nb\t \n", "train:2: no phones for 'b'; write word<TAB>p h o n e s"),
        (" \tə\n", "train:1: no word before the tab; write word<TAB>p h o n e s"),
    ],
)
def test_a_malformed_file_is_named_with_its_line_and_the_remedy(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    path = write(tmp_path, train=text)["train"]
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as caught:
        read_file(path, stress=False)
    assert str(caught.value) == f"{tmp_path}/{said}"


@pytest.mark.parametrize(
    ("line", "symbol"), [("fax\tf a", "letter 'x'"), ("fa\tf ɔː", "phone 'ɔː'")]
)
@pytest.mark.parametrize("split", ["valid", "test"])
def test_what_was_never_taught_is_named_with_its_line(
    tmp_path: Path, split: str, line: str, symbol: str
) -> None:
    texts = {"train": "fa\tf a\n", "valid": "af\ta f\n", "test": "af\ta f\n"}
    paths = write(tmp_path, **{**texts, split: f"aa\ta a\n{line}\n"})
    with pytest.raises(ConfigError) as caught:
        from_files(paths, ALL, stress=False)
    said = f"no word of train has the {symbol}; drop this line, or teach a word with it"
    assert caught.value.problems == [f"{split}={paths[split]}:2: {said}"]


def test_an_unknown_symbol_has_the_fourth_id_or_is_named() -> None:
    knowing, strict = Vocabulary("ab", unknown=True), Vocabulary("ab")
    assert (knowing.unknown, strict.unknown) == (3, None)
    assert knowing.encode("abc") == [4, 5, 3]
    assert knowing.decode([3]) == ["<unk>"]
    with pytest.raises(ValueError, match="'c' is not in the vocabulary"):
        strict.encode("abc")
