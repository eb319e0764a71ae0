"""Registries of components, and their options as checked dataclasses.

Defaults live in the Config of each component and nowhere else.
"""

from __future__ import annotations

import difflib
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException


class ConfigError(ValueError):
    """A configuration that cannot be built, with every problem in a line of its own."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def nearest(word: str, names: Iterable[str]) -> str:
    """A hint for a misspelt name: the nearest right one, or all of them."""
    names = sorted(names)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"Did you mean '{close[0]}'?" if close else f"Choose from: {', '.join(names)}."


def is_number(value: Any) -> bool:
    """Whether it is a finite number: `.inf` and `.nan` are left for `validate` to refuse."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def validate(config: Any, options: Mapping[str, Any], path: str) -> Any:
    """An instance of the dataclass `config`, each option replacing its default whole."""
    if not isinstance(options, Mapping):
        raise ConfigError([f"{path}: expected options, got {options!r}"])
    needed = {f.name for f in fields(config) if f.default is f.default_factory is MISSING}
    given: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in options.items():
        try:
            given[key] = _converted(config, key, value, f"{path}.{key}".lstrip("."))
        except ConfigError as error:
            problems += error.problems
    problems += [
        f"{path}.{key}: must be given".lstrip(".") for key in sorted(needed - set(options))
    ]
    if needed - set(given):
        raise ConfigError(problems)
    try:  # even after a problem, so that all of them are listed at once
        made = config(**given)
    except ConfigError as error:
        # A refused option has its default here: problems with that are not reported.
        refused = [f"{key}=" for key in options.keys() - given.keys()]
        problems += [
            f"{path}.{line}".lstrip(".")
            for line in error.problems
            if not any(word in line for word in refused)
        ]
    if problems:
        raise ConfigError(problems)
    return made


def ranged(default: Any, **limits: float) -> Any:
    """A Config field with limits: `least`, `above`, `most` or `below`. None is always allowed."""
    return field(default=default, metadata={"limits": limits})


_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "most": ("at most", operator.le),
    "below": ("below", operator.lt),
}


class Checked:
    """A Config whose constructor raises a ConfigError with all of its `problems`."""

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise ConfigError(problems)

    def problems(self) -> list[str]:
        """One line for each problem; a subclass may add its own."""
        found = []
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name)
            limits = [(*_LIMITS[n], x) for n, x in option.metadata.get("limits", {}).items()]
            if value is not None and not all(keeps(value, x) for _, keeps, x in limits):
                said = " and ".join(f"{words} {x:,}" for words, _, x in limits)
                found.append(f"{option.name}={value}: must be {said}")
        return found


@cache
def _hints(config: Any) -> dict[str, Any]:
    return get_type_hints(config)


@cache
def _tree(config: Any) -> Any:
    """The structured config of a dataclass."""
    tree = OmegaConf.structured(config)
    OmegaConf.set_readonly(tree, False)  # frozen dataclasses arrive locked
    return tree


def _converted(config: Any, key: str, value: Any, path: str) -> Any:
    """The value of one option, converted to the field's type."""
    hints = _hints(config)
    if key not in hints:
        problem = f"no such option. {nearest(str(key), hints)}" if hints else "takes no options"
        raise ConfigError([f"{path}: {problem}"])
    if isinstance(value, str) and ("${" in value or value == "???"):
        raise ConfigError([f"{path}: '{value}' is not a value"])
    for number in value if isinstance(value, list) else [value]:
        if isinstance(number, float) and not math.isfinite(number):
            raise ConfigError([f"{path}: {number} is not a finite number"])
    hint = hints[key]
    registry = config.__dataclass_fields__[key].metadata.get("registry")
    if registry is not None:
        return registry.resolve(value, path)
    if isinstance(value, float) and value.is_integer() and int in (hint, *get_args(hint)):
        value = int(value)
    if _is_plain(value, hint):
        return value  # OmegaConf takes a hundred times as long to say that it is right
    tree = _tree(config)
    try:
        OmegaConf.update(tree, key, value, merge=False)
    except (OmegaConfBaseException, OverflowError) as error:
        problem = _mismatch(value, hint) or str(error).splitlines()[0]
        raise ConfigError([f"{path}: {problem}"]) from None
    node = tree[key]
    return OmegaConf.to_container(node, resolve=False) if OmegaConf.is_config(node) else node


def _is_plain(value: Any, hint: Any) -> bool:
    """Whether a value already has the type of a simple hint."""
    if hint in (list[Any], dict[str, Any]):
        return type(value) is get_origin(hint)
    if get_origin(hint) is Literal:
        return type(value) is str and value in get_args(hint)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return type(value) in kinds and type(value) in (int, float, bool, str, NoneType)


WORDS = {
    int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null",
}  # fmt: skip


def _mismatch(value: Any, hint: Any) -> str | None:
    """The kind of value that a simple field expects, in words; None for other fields."""
    kinds = get_args(hint) or (hint,)
    words = list(kinds) if get_origin(hint) is Literal else [WORDS.get(kind, "") for kind in kinds]
    if get_origin(hint) is list or "" in words:
        return None
    *others, last = words
    expected = f"{', '.join(others)} or {last}" if others else last
    return f"expected {expected}, got {'null' if value is None else repr(value)[:80]}"


T = TypeVar("T")


@dataclass(frozen=True)
class NoOptions:
    """The Config of a component without options."""


def choice(registry: Registry, default: str) -> Any:
    """A Config field that holds a choice of `registry`."""
    return field(default_factory=lambda: registry.resolve(default), metadata={"registry": registry})


class Registry:
    """Names → components, and how a written choice becomes a built component."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.components: dict[str, Any] = {}
        self._known: dict[Any, Any] = {}

    def register(self, name: str) -> Callable[[T], T]:
        def enter(component: T) -> T:
            if name in self.components:
                raise ValueError(f"{self.word} '{name}' is registered twice")
            self.components[name] = component
            return component

        return enter

    def component(self, name: str, path: str = "") -> Any:
        if name not in self.components:
            where = f"{path}: " if path else ""
            raise ConfigError([f"{where}no {self.word} '{name}'. {nearest(name, self.components)}"])
        return self.components[name]

    def resolve(self, written: Any, path: str = "") -> dict[str, Any]:
        """The choice with every default written out; ConfigError lists all problems."""
        name, config = self._read(written, path or self.word)
        return {"name": name, **asdict(config)}

    def build(self, written: Any, **given: Any) -> Any:
        """Build the component from its options and what its constructor names of `given`."""
        name, config = self._read(written, self.word)
        component = self.components[name]
        given["config"] = config
        asked = _asked(component)
        missing = set(asked) - set(given)
        assert not missing, f"{self.word} {component.__name__} asks for unknown {missing}"
        return component(**{name: given[name] for name in asked})

    def _read(self, written: Any, path: str) -> tuple[str, Any]:
        """The component's name and its Config; a choice is read once."""
        if isinstance(written, str):
            written = {"name": written}
        if not isinstance(written, Mapping) or not isinstance(written.get("name"), str):
            raise ConfigError([f"{path}: expected a {self.word}'s name, got {written!r}"])
        component = self.component(written["name"], path)
        key = (component, repr(written))
        if key not in self._known:
            options = {key: value for key, value in written.items() if key != "name"}
            config = validate(getattr(component, "Config", NoOptions), options, path)
            resolved = {"name": written["name"], **asdict(config)}
            self._known[key] = self._known[component, repr(resolved)] = config
        return written["name"], self._known[key]


@cache
def _asked(component: Any) -> list[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(component).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in named]


MODEL = Registry("model")
"""Whole models."""
