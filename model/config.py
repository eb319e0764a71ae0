"""Options as dataclasses: a value is checked, converted and, where it is wrong, named.

Defaults live in the Config of each part and nowhere else.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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


@cache
def _hints(config: Any) -> dict[str, Any]:
    return get_type_hints(config)


def validate(config: Any, options: Mapping[str, Any], path: str) -> Any:
    """An instance of the dataclass `config`, each option replacing its default whole."""
    if not isinstance(options, Mapping):
        raise ConfigError([f"{path}: expected options, got {options!r}"])
    hints = _hints(config)
    families = {f.name: f.metadata["family"] for f in fields(config) if "family" in f.metadata}
    needed = {f.name for f in fields(config) if f.default is f.default_factory is MISSING}
    given: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in options.items():
        try:
            problem = _unusable(key, value, hints)
            if problem is None:
                if key in families:
                    given[key] = families[key].resolve(value, f"{path}.{key}")
                else:
                    given[key] = _converted(config, key, value, hints[key])
        except ConfigError as error:
            problems += error.problems
        except (OmegaConfBaseException, OverflowError) as error:
            problem = _mismatch(value, hints[key]) or str(error).splitlines()[0]
        if problem is not None:
            problems.append(f"{path}.{key}: {problem}".lstrip("."))
    for key in families.keys() - options.keys():  # fill the defaults of default parts
        given[key] = families[key].resolve(getattr(config(), key))
    problems += [
        f"{path}.{key}: must be given".lstrip(".") for key in sorted(needed - set(options))
    ]
    if needed - set(given):
        raise ConfigError(problems)
    try:  # also where something was wrong: what is impossible is to be listed beside it
        made = config(**given)
    except ConfigError as error:
        refused = [f"{key}=" for key in options.keys() - given.keys()]  # their defaults stood in
        problems += [
            f"{path}.{line}".lstrip(".")
            for line in error.problems
            if not any(word in line for word in refused)
        ]
    if problems:
        raise ConfigError(problems)
    return made


def too_small(config: Any, **least: int) -> list[str]:
    """A problem for each option that is below the least it may be."""
    return [
        f"{name}={getattr(config, name)}: must be at least {number}"
        for name, number in least.items()
        if getattr(config, name) < number
    ]


@cache
def _tree(config: Any) -> Any:
    """The dataclass as OmegaConf knows it; only values that were just written are read from it."""
    tree = OmegaConf.structured(config)
    OmegaConf.set_readonly(tree, False)  # frozen dataclasses arrive locked
    return tree


def _converted(config: Any, key: str, value: Any, hint: Any) -> Any:
    """The value as the field's type has it."""
    if isinstance(value, float) and value.is_integer() and int in (hint, *get_args(hint)):
        value = int(value)
    if _is_plain(value, hint):
        return value  # OmegaConf takes a hundred times as long to say that it is right
    tree = _tree(config)
    OmegaConf.update(tree, key, value, merge=False)
    node = tree[key]
    return OmegaConf.to_container(node, resolve=False) if OmegaConf.is_config(node) else node


def _is_plain(value: Any, hint: Any) -> bool:
    """Whether a value needs no conversion to be what a simple hint says."""
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
    """What a plain field expects, in words; None where it is not so plain."""
    kinds = get_args(hint) or (hint,)
    words = list(kinds) if get_origin(hint) is Literal else [WORDS.get(kind, "") for kind in kinds]
    if get_origin(hint) is list or "" in words:
        return None
    *others, last = words
    expected = f"{', '.join(others)} or {last}" if others else last
    return f"expected {expected}, got {'null' if value is None else repr(value)[:80]}"


def _unusable(key: Any, value: Any, hints: Mapping[str, Any]) -> str | None:
    if key not in hints:
        return f"no such option. {nearest(str(key), hints)}" if hints else "takes no options"
    if isinstance(value, str) and ("${" in value or value == "???"):
        return f"'{value}' is not a value"
    for number in value if isinstance(value, list) else [value]:
        if isinstance(number, float) and not math.isfinite(number):
            return f"{number} is not a finite number"
    return None
