"""Settings as people write them: strict YAML, overrides, replacement, references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ablations.config import interpolated, override, parse_overrides, read_yaml
from model.config import ConfigError
from model.strict_yaml import Source, parse_yaml


def problem(error: pytest.ExceptionInfo[ConfigError]) -> str:
    """The one line that a mistake is answered with."""
    (line,) = error.value.problems
    assert "\n" not in line
    return line


def value(text: str) -> Any:
    return parse_yaml(f"key: {text}\n", "my.yaml").values["key"]


def test_what_looks_like_a_number_is_one_unless_it_is_quoted() -> None:
    for text, number in [
        ("1e-3", 0.001),
        ("3E4", 30000.0),
        ("-2.5e+2", -250.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("0", 0),
        ("-2", -2),
        ("+2", 2),
        (".inf", float("inf")),
        ("-.inf", float("-inf")),
        ("true", True),
        ("~", None),
        ("", None),
        *((f'"{word}"', word) for word in ("1e-3", "8", "true", "null", "", "no")),
    ]:
        assert (value(text), type(value(text))) == (number, type(number))


WORDS = "no off on yes No OFF y n True 1_000 0x10 0o10 12:30:00 2026-01-02 = << 1e e5 . -x"


def test_words_that_yaml_would_take_for_something_else_stay_words() -> None:
    for word in WORDS.split():
        assert value(word) == word


def test_a_key_that_stands_twice_or_a_file_that_is_not_utf_8_is_named_by_its_line(
    tmp_path: Path,
) -> None:
    file = tmp_path / "wrong.yaml"
    for text, line in [
        (b"model:\n  depth: 2\n  width: 4\n  depth: 3\n", "4: 'depth' comes twice"),
        (b"question: fine\nfixed: caf\xe9\n", "2: not UTF-8; save the file as UTF-8"),
        (b"key: [{b: 1, b: 2}]\n", "1: 'b' comes twice"),
    ]:
        file.write_bytes(text)
        with pytest.raises(ConfigError) as error:
            read_yaml(file)
        assert problem(error) == f"{file}:{line}"


BROKEN = [
    "a: [1, 2\nb: 3\n",
    "a: b: c\n",
    "\ta: 1\n",
    "a: *nowhere\n",
    "a: 'open\n",
    "a: !mine 3\n",
]
BROKEN += ["a: !!python/object/apply:os.getcwd []\n", "a: &a [*a]\n", "--- {a: 1}\n--- {b: 1}\n"]
BROKEN += ["a: bell \x07\n", "a: nul \0\n", "a: \udc80\n", "a: " + "9" * 5000]
BROKEN += ["a: " + "[" * 100_000, "a:\n" + "- " * 100_000, "{a: " * 100_000]


def test_a_broken_file_is_one_line_that_names_it() -> None:
    for text in BROKEN:
        with pytest.raises(ConfigError) as error:
            parse_yaml(text, "my.yaml")
        assert problem(error).startswith("my.yaml"), text[:20]
        assert len(problem(error)) < 300


def test_a_file_must_be_keys_and_values() -> None:
    for text in ["- 1\n- 2\n", "3\n", "only words\n", "[]\n"]:
        with pytest.raises(ConfigError) as error:
            parse_yaml(text, "my.yaml")
        assert problem(error) == "my.yaml:1: expected `key: value` lines"


def test_a_value_is_found_at_the_line_of_the_nearest_key_above_it() -> None:
    text = "# prose\nmodel:\n  position:\n    name: learned\n"
    source = parse_yaml(text, "my.yaml")
    assert source.place("model.position.name") == "my.yaml:4"
    assert source.place("model.position.base") == "my.yaml:3"
    assert source.place("model.norm.eps") == "my.yaml:2"
    assert source.place("train") == "my.yaml"
    assert Source("command line", {}).place("train") == "command line"


def test_overrides_are_read_as_in_yaml_and_a_list_by_level_as_it_is_written() -> None:
    words = ["model.n_heads=8", "a.rate=1e-3,3e-3", "b=off", "c=null", "d={name: x, y: [1, 2]}"]
    words += ["e=x=y", "model.d_model=32, 64", 'f="x,y"', "g=[1, 2]"]
    values, factors = parse_overrides(words)
    assert factors == {
        "a.rate": {"1e-3": 1e-3, "3e-3": 3e-3},
        "model.d_model": {"32": 32, "64": 64},
    }
    d = {"name": "x", "y": [1, 2]}
    plain = {"model.n_heads": 8, "b": "off", "c": None, "d": d, "e": "x=y", "f": "x,y", "g": [1, 2]}
    assert values == plain


def test_an_override_that_cannot_be_read_is_one_short_line() -> None:
    words = ["=3", "a..b=1", ".a=1", "a.=1", "1a=2", "a b=1", "../../x=1", "a\0=1", "a=[", "a=b: c"]
    words += ["-" * 5000 + "=1", "a=" + "9" * 5000, "a=\udc80"]
    words += [
        f"a={levels}" for levels in ("1,,2", "1,2,1", ",", "1,2,", "32, 32", "1,1.0", "null,~")
    ]
    for each in (*([word] for word in words), ["a=1", "a=2"]):
        with pytest.raises(ConfigError) as error:
            parse_overrides(each)
        assert len(problem(error)) < 300


def test_what_replaces_leaks_nothing_of_its_sibling() -> None:
    tree = {"model": {"position": {"name": "sinusoidal", "base": 500.0}, "depth": 2}}
    after = override(tree, {"model.position": {"name": "learned"}})
    assert after == {"model": {"position": {"name": "learned"}, "depth": 2}}
    assert tree["model"]["position"] == {"name": "sinusoidal", "base": 500.0}
    bare = override({"model": {"position": "sinusoidal"}}, {"model.position.base": 500.0})
    assert bare == {"model": {"position": {"name": "sinusoidal", "base": 500.0}}}


def test_a_reference_takes_the_value_that_stands_there() -> None:
    tree = {"model": {"d_model": 32, "position": {"name": "none"}}}
    written = {"a": "${model.d_model}", "b": [{"c": "${model.position}"}], "d": "$5", "e": 1.5}
    assert interpolated(written, tree, "model") == {
        "a": 32,
        "b": [{"c": {"name": "none"}}],
        "d": "$5",
        "e": 1.5,
    }
