"""A fingerprint of the code that made a trial's numbers.

It covers the modules that the built model, the task and the trainer come from and all that these
import from this project, as syntax trees without docstrings: comments and prose do not count, and
a part that the trial does not use does not either.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

PROJECT = ("model", "ablations")
KEEPING = {
    "ablations.store.record",
    "ablations.train.unfinished",
}  # where numbers go, not where they come from


def digest(model: nn.Module, task: Any, parts: Iterable[Any] = ()) -> str:
    """Twelve hex digits. `parts` are those that are no modules, such as an optimiser.

    A part from a user's own module counts with its own file.
    """
    roots = {type(module).__module__ for module in model.modules()}
    roots = {name for name in roots if name.split(".")[0] not in ("torch", "builtins")}
    roots |= {"ablations.train.loop", "model.initialise", type(task).__module__}
    roots |= {part.__module__ for part in parts}
    reached = {*roots, "model.build"}  # which imports every part, used or not
    waiting = list(roots)
    while waiting:
        for name in _imports(waiting.pop()) - reached - KEEPING:
            reached.add(name)
            waiting.append(name)
    text = "\n".join(f"{name} {_syntax(name)}" for name in sorted(reached))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _tree(module: str) -> ast.Module:
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    return ast.parse(Path(found.origin).read_text(encoding="utf-8"))


@cache
def _syntax(module: str) -> str:
    tree = _tree(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [line for line in node.body if not _is_text(line)]
    return hashlib.sha256(repr(_plain(tree)).encode()).hexdigest()


def _plain(node: Any) -> Any:
    """A tree without its empty places: Python versions differ in those alone."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, ast.AST):
        return node
    filled = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return type(node).__name__, [(name, _plain(value)) for name, value in filled]


def _is_text(line: ast.stmt) -> bool:
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


@cache
def _imports(module: str) -> set[str]:
    """What a module imports from this project at its top level."""
    found: set[str] = set()
    for node in _tree(module).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        ours = [name for name in names if name.split(".")[0] in PROJECT]
        found |= {name for name in ours if _is_module(name)}
    return found


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
