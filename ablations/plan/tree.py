"""Settings as a tree: values by dotted path, replaced whole, and references between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from model.config import ConfigError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")


def get(tree: Mapping[str, Any], path: str) -> Any:
    for key in path.split("."):
        if not isinstance(tree, Mapping) or key not in tree:
            raise KeyError(path)
        tree = tree[key]
    return tree


def replaced(tree: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the tree with the value at `path` replaced whole: nothing of the old one leaks."""
    head, _, rest = path.partition(".")
    below = tree.get(head)
    if rest:
        if isinstance(below, str):
            below = {"name": below}  # a bare name given an option
        value = replaced(below if isinstance(below, Mapping) else {}, rest, value)
    return {**tree, head: value}


def referred(value: Any, tree: Mapping[str, Any], place: str) -> Any:
    """The value with each `${path}` replaced by what stands there in the tree.

    Nothing else is substituted: no environment, no resolvers.
    """
    if isinstance(value, Mapping):
        return {key: referred(below, tree, place) for key, below in value.items()}
    if isinstance(value, list):
        return [referred(below, tree, place) for below in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    match = _REFERENCE.fullmatch(value)
    try:
        assert match
        return get(tree, match[1])
    except (AssertionError, KeyError):
        raise ConfigError(
            [f"{place}: '{value}' refers to nothing; write ${{model.d_model}}"]
        ) from None
