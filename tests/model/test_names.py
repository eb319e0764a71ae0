"""One name, one idea: what a reader looks up has one place where it is said."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import model

FOLDER = Path(model.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))


def named(source: str) -> set[str]:
    """Classes and type aliases of a module; what is written in capitals alone is a constant."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = {target.id for target in targets if isinstance(target, ast.Name)}
            names |= {name for name in found if name[0].isupper() and not name.isupper()}
    return names


def test_no_two_classes_or_aliases_of_the_model_share_a_name() -> None:
    places = defaultdict(list)
    for path in FILES:
        for name in named(path.read_text(encoding="utf-8")):
            places[name].append(str(path.relative_to(FOLDER)))
    shared = {name: files for name, files in places.items() if len(files) > 1}
    assert shared == {}, "give each idea a name of its own"
