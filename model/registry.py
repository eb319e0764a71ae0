"""A place in a model and the parts that can stand there.

A choice is `{name: …, option: …}` (or the bare name). The options of a part are the fields of its
own nested `Config`; a part declares what else it needs by the names of its constructor's arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, TypeVar

from model.config import ConfigError, nearest, validate

T = TypeVar("T")


@dataclass(frozen=True)
class NoOptions:
    """The Config of a part that has nothing to choose."""


def choice(family: Registry, default: str, **options: Any) -> Any:
    """A Config field that holds a choice of `family`."""
    return field(default_factory=lambda: {"name": default, **options}, metadata={"family": family})


class Registry:
    """Names → parts, and the way from a written choice to a built part."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.components: dict[str, Any] = {}
        self._known: dict[Any, Any] = {}

    def register(self, name: str) -> Callable[[T], T]:
        def enter(part: T) -> T:
            if name in self.components:
                raise ValueError(f"{self.word} '{name}' is registered twice")
            self.components[name] = part
            return part

        return enter

    def component(self, name: str, path: str = "") -> Any:
        if name not in self.components:
            where = f"{path}: " if path else ""
            raise ConfigError([f"{where}no {self.word} '{name}'. {nearest(name, self.components)}"])
        return self.components[name]

    def resolve(self, written: Any, path: str = "") -> dict[str, Any]:
        """The choice with every default written out; ConfigError lists all that is wrong."""
        name, config = self._read(written, path or self.word)
        return {"name": name, **asdict(config)}

    def build(self, written: Any, **given: Any) -> Any:
        """The part, built from its options and from whatever of `given` its constructor names."""
        name, config = self._read(written, self.word)
        part = self.components[name]
        given["config"] = config
        asked = _asked(part)
        missing = set(asked) - set(given)
        assert not missing, f"{self.word} {part.__name__} asks for unknown {missing}"
        return part(**{name: given[name] for name in asked})

    def _read(self, written: Any, path: str) -> tuple[str, Any]:
        """The part's name and its Config; a choice that was read before is not read again."""
        if isinstance(written, str):
            written = {"name": written}
        if not isinstance(written, Mapping) or not isinstance(written.get("name"), str):
            raise ConfigError([f"{path}: expected a {self.word}'s name, got {written!r}"])
        part = self.component(written["name"], path)
        key = (part, repr(written))
        if key not in self._known:
            options = {key: value for key, value in written.items() if key != "name"}
            config = validate(getattr(part, "Config", NoOptions), options, path)
            resolved = {"name": written["name"], **asdict(config)}
            self._known[key] = self._known[part, repr(resolved)] = config
        return written["name"], self._known[key]


@cache
def _asked(part: Any) -> list[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(part).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in named]


MODEL = Registry("model")
"""Whole models."""
