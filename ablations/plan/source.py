"""Where settings come from: YAML files, and `path=value` on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ablations.store.files import read_file
from model.config import ConfigError
from model.strict_yaml import Source, parse_value, parse_yaml

FOLDER = Path(__file__).parents[1]
_PATH = 200  # characters; no setting is that far down


def read_yaml(path: Path) -> Source:
    return parsed(*yaml_text(path))


def yaml_text(path: Path) -> tuple[str, str]:
    """What a file says, and what people are told that it is called."""
    name = "/".join(path.parts[-2:]) if path.is_relative_to(FOLDER) else str(path)
    try:
        text = read_file(path).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{name}:{line}: not UTF-8; save the file as UTF-8"]) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        raise ConfigError([f"{name}: {getattr(error, 'strerror', None) or error}"]) from None
    return text, name


@lru_cache(maxsize=512)
def parsed(text: str, name: str) -> Source:
    """One and the same for the same text: nobody writes to it."""
    return parse_yaml(text, name)


def located(error: ConfigError, origins: Sequence[tuple[str, Source]]) -> ConfigError:
    """The same problems, each with the file and line that wrote what is wrong.

    `origins` are (prefix, source) from the last written to the first.
    """

    def place(problem: str) -> str:
        path = re.match(r"[\w.-]*", problem)[0]  # type: ignore[index]
        for prefix, source in origins:
            written = path
            while written:
                if prefix + written in source.lines:
                    line = source.lines[prefix + written]
                    return (
                        f"{source.name}:{line}: {problem}" if line else f"{source.name}: {problem}"
                    )
                written = written.rpartition(".")[0]
        return problem

    return ConfigError([place(problem) for problem in error.problems])


def parse_overrides(words: Iterable[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """`path=value` words, a value read as in YAML; and `path=a,b,c`, by level as it is written."""
    values: dict[str, Any] = {}
    factors: dict[str, dict[str, Any]] = {}
    for word in words:
        path, _, text = word.partition("=")
        if len(path) > _PATH or not re.fullmatch(r"[A-Za-z_][\w-]*(\.[\w-]+)*", path):
            raise ConfigError([f"{word[:80]!r}: expected path=value, such as model.n_heads=8"])
        if re.search(r"\..+\.name$", path):  # the options of another part would stay beside it
            raise ConfigError([f"{word[:80]}: write {path.removesuffix('.name')}={text[:80]}"])
        if path in values or path in factors:
            raise ConfigError([f"{path}: given twice on the command line"])
        if "," in text and text.lstrip()[:1] not in tuple("[{\"'"):
            factors[path] = _levels(path, text)
        else:
            values[path] = parse_value(text)
    return values, factors


def _levels(path: str, text: str) -> dict[str, Any]:
    levels = [level.strip() for level in text.split(",")]
    values = [parse_value(level) for level in levels]
    if "" in levels or any(value in values[:index] for index, value in enumerate(values)):
        problem = "a list of different values" if "" not in levels else "a value between commas"
        raise ConfigError([f"{path}={text[:80]}: expected {problem}, such as {path}=1,2"])
    return dict(zip(levels, values, strict=True))
