"""Stamps: which source files made a number, and whether they have changed since.

A stamp lists files with a digest of each: its syntax tree without docstrings, so that comments and
prose do not count. It is made and compared from the files alone; nothing of them is imported.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ablations.store.identity import canonical_json

Stamp = dict[str, str]
"""File → twelve hex digits. A file of this project by its path in it, a user's by its module."""

ROOT = Path(__file__).parents[2]
PROJECT = ("model", "ablations")
_LOADED: dict[str, tuple[ModuleType, bytes]] = {}
_LIBRARIES = tuple(
    os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib", "stdlib")
)


def stamp(modules: Iterable[str], is_aside: Callable[[str], bool] = lambda _: False) -> Stamp:
    """The stamp of these modules and all that they import, without libraries and `is_aside`."""
    reached = waiting = set(modules)
    while waiting:
        found = {name for module in waiting for name in _imports(module)}
        waiting = {name for name in found - reached if not is_aside(name)}
        reached = reached | waiting
    files = {module: _file(module) for module in sorted(reached)}
    return {
        path.relative_to(ROOT).as_posix() if _is_ours(module) else module: digest_of(path)
        for module, path in files.items()
    }


def sources(modules: Iterable[str]) -> dict[str, Path]:
    """Path on Python's search path → file, for the user's own files that these modules import."""
    own = {name for name in stamp(modules) if not name.endswith(".py")}
    own |= {name[: dot.start()] for name in own for dot in re.finditer(r"\.", name)}
    paths = {name.replace(".", "/"): path for name in sorted(own) if (path := _elsewhere(name))}
    return {
        f"{name}/__init__.py" if path.stem == "__init__" else f"{name}.py": path
        for name, path in paths.items()
    }


def changed(made_by: Mapping[str, str]) -> list[str]:
    """The files of a stamp that have changed; a user's file that is not found has not."""
    paths = {name: ROOT / name if name.endswith(".py") else _found(name) for name in made_by}
    return [
        name
        for name, path in paths.items()
        if path and (not path.is_file() or digest_of(path) != made_by[name])
    ]


def note_loaded() -> None:
    """Remember the source of each module that counts, once for each time it is loaded.

    Called right after an import, it knows the code that this process runs, whatever happens to the
    files later.
    """
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if not file.endswith(".py") or (file.startswith(_LIBRARIES) and not _is_ours(name)):
            continue
        path = Path(file)
        if _is_ours(name) and path.is_relative_to(ROOT):
            name = path.relative_to(ROOT).as_posix()
        if name not in _LOADED or _LOADED[name][0] is not module:
            with contextlib.suppress(OSError):
                _LOADED[name] = module, path.read_bytes()


def loaded_otherwise(made_by: Mapping[str, str]) -> list[str]:
    """The files of a stamp that this process has loaded with other code than the stamp says."""
    note_loaded()
    return [
        name
        for name, digest in made_by.items()
        if name in _LOADED and _digest_of_source(_LOADED[name][1]) != digest
    ]


def short(made_by: Mapping[str, str] | None) -> str:
    """Twelve hex digits for a whole stamp."""
    return hashlib.sha256(canonical_json(made_by).encode()).hexdigest()[:12]


def digest_of(path: Path) -> str:
    """Twelve hex digits of what a file says as code; read again where the file is another one."""
    found = os.stat(path)
    return _digest(path, (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


@cache
def _digest(path: Path, version: tuple[int, ...]) -> str:
    return _digest_of_source(path.read_bytes())


@cache
def _digest_of_source(source: bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [line for line in node.body if not _is_prose(line)]
    return hashlib.sha256(repr(_plain(tree)).encode()).hexdigest()[:12]


def _is_prose(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(getattr(line.value, "value", None), str)


def _plain(node: Any) -> Any:
    """A tree without its empty places: Python versions differ in those alone."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, ast.AST):
        return node
    filled = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return type(node).__name__, [(name, _plain(value)) for name, value in filled]


@cache
def _imports(module: str) -> frozenset[str]:
    """The modules of this project or the user that a module imports at its top level."""
    found: set[str] = set()
    path = _file(module)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            written = "." * node.level + (node.module or "")
            above = importlib.util.resolve_name(written, package)
            found |= {above, *(f"{above}.{alias.name}" for alias in node.names)}
    return frozenset(filter(is_counted, found))


@cache
def is_counted(module: str) -> bool:
    """Whether a module's code counts: ours, and a user's own; no library's."""
    if not module or module.split(".")[0] in sys.stdlib_module_names:
        return False
    path = _found(module)
    return path is not None and (_is_ours(module) or not str(path).startswith(_LIBRARIES))


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in PROJECT


def _file(module: str) -> Path:
    path = _found(module)
    assert path is not None, module
    return path


def _found(module: str) -> Path | None:
    """A module's file: ours where this file is, a user's wherever Python would find it."""
    if not _is_ours(module):
        return _elsewhere(module)
    path = ROOT.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _elsewhere(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    origin = None if spec is None else spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None
