"""Settings as people write them: YAML without its traps.

Every value remembers where it was written, so that a mistake can be named by file and line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from model.config import ConfigError

_FLOAT = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?\.inf|\.nan", re.IGNORECASE)
_DIGITS = 400  # no number needs more, and Python reads no more than 4,300
_INT = re.compile(r"[-+]?(0|[1-9]\d*)")
_VALUES = 100_000  # in one file, every alias written out
_DEEPEST = 100  # nested collections; the recursive C parser breaks at many more


class _Loader(yaml.CSafeLoader):
    """YAML without its traps: `1e-3` is a number, `no` is a word, a key comes once."""

    name = ""
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (SafeLoader's own attribute)


def _scalar(loader: _Loader, node: yaml.ScalarNode) -> Any:
    text = node.value
    if node.style:  # quoted: words stay words
        return text
    if text in ("", "~", "null"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if not _FLOAT.fullmatch(text):
        return text
    if len(text) > _DIGITS:
        line = node.start_mark.line + 1
        raise ConfigError([f"{loader.name}:{line}: a number of {len(text)} digits"])
    if _INT.fullmatch(text):
        return int(text)
    return float(re.sub(r"\.(?=inf|nan)", "", text, flags=re.IGNORECASE))


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = str(loader.construct_object(key_node, deep=True))
        if key in seen:
            line = key_node.start_mark.line + 1
            raise ConfigError([f"{loader.name}:{line}: '{key}' comes twice"])
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor("tag:yaml.org,2002:str", _scalar)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


@dataclass
class Source:
    """One file or the command line: its values, and the line of each path in it."""

    name: str
    values: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)

    def place(self, path: str) -> str:
        """File and line of a path, or of the nearest path above it."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        line = self.lines.get(path)  # 0: written in no file
        return f"{self.name}:{line}" if line else self.name


def parse_yaml(text: str, name: str) -> Source:
    try:
        _refuse_deep(text, name)
        loader = _Loader(text)
        loader.name = name
        node = loader.get_single_node()
        if node is not None:
            _size(node, name, {})
        values = {} if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError([f"{name}:{line}: {error.problem}"]) from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # half a character of a typed word
        raise ConfigError([f"{name}: {str(error).splitlines()[0]}"]) from None
    if not isinstance(values, dict):
        raise ConfigError([f"{name}:1: expected `key: value` lines"])
    source = Source(name, values)
    if node is not None:
        _note_lines(node, "", source.lines)
    return source


def _refuse_deep(text: str, name: str) -> None:
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ConfigError([f"{name}:{event.start_mark.line + 1}: nested too deeply"])


def _size(node: yaml.Node, name: str, known: dict[int, int]) -> int:
    """Values in a node with every alias written out: aliases of aliases multiply."""
    if id(node) not in known:
        known[id(node)] = _VALUES  # of a node that holds itself
        below: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            below = [each for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            below = node.value
        size = 1 + sum(_size(each, name, known) for each in below)
        if size > _VALUES:
            line = node.start_mark.line + 1
            raise ConfigError([f"{name}:{line}: more than {_VALUES:,} values, aliases written out"])
        known[id(node)] = size
    return known[id(node)]


def _note_lines(node: yaml.Node, path: str, lines: dict[str, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            lines[below] = key.start_mark.line + 1
            _note_lines(value, below, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            below = f"{path}.{index}"
            lines[below] = value.start_mark.line + 1
            _note_lines(value, below, lines)


def parse_value(text: str) -> Any:
    """The value behind the = of `path=value` on a command line, read as in a file."""
    return parse_yaml(f"value: {text}", "command line").values["value"]
