"""Figures drawn anew where what they show, or what draws them, has changed, and only there.

`report/figures.json` remembers what each was drawn from and what its files held.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.store.files import read_file, write_atomic
from analysis import figures, fresh, style
from analysis.placing import Placed

MANY = 12  # figures from which a second process pays for its start
NOTES = Path("report") / "figures.json"


@dataclass(frozen=True)
class Drawn:
    """A figure with its files."""

    placed: Placed
    paths: list[Path]


def draw(
    wanted: Sequence[Placed],
    root: Path,
    processes: int = 1,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[Drawn]:
    """Every figure's files as they should be; those that already are stay as they are.

    What is to be done `meanwhile` is done here while others draw.
    """
    makers = fresh.makers()
    before = _noted(root)
    seen = [_digest(makers, each) for each in wanted]
    done = [Drawn(each, style.files(root / "figures", each.stem)) for each in wanted]
    owed = [
        (each.placed.figure, each.placed.frames, root / "figures", each.placed.stem)
        for each, word in zip(done, seen, strict=True)
        if before.get(each.placed.stem) != _note(each, word)
    ]
    owed.sort(key=lambda job: -len(job[1]))  # the longest first, or one may be left with it
    with _workers(processes if len(owed) >= MANY else 1) as run:
        drawing = run(_draw, owed)
        meanwhile()
        list(drawing)
    notes = {each.placed.stem: _note(each, word) for each, word in zip(done, seen, strict=True)}
    write_atomic(root / NOTES, json.dumps(notes))
    _clear_away(root, {stem: note for stem, note in before.items() if stem not in notes})
    return done


def _draw(job: tuple[str, list[pd.DataFrame], Path, str]) -> None:
    name, frames, folder, stem = job
    style.save(figures.compose(name, frames), folder, stem)


@contextmanager
def _workers(processes: int) -> Iterator[Any]:
    """A way to do many jobs: in processes of their own, or one after the other here."""
    if processes == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_leave_with_parent) as pool:
        yield pool.map


def _leave_with_parent() -> None:
    """A page that is given up leaves nobody behind who goes on drawing it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _digest(makers: str, each: Placed) -> str:
    """One word for what a figure is drawn from."""
    told = [[list(frame), frame.to_numpy(dtype=object).tolist()] for frame in each.frames]
    text = json.dumps([makers, each.figure, told], default=_told)
    return hashlib.sha256(text.encode()).hexdigest()


def _told(value: Any) -> Any:
    """What JSON has no word for: arrays as lists, the rest as it describes itself."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _noted(root: Path) -> dict[str, Any]:
    try:
        noted = json.loads(read_file(root / NOTES))
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _note(each: Drawn, word: str) -> list[str]:
    """What a figure was drawn from, and what its files hold."""
    return [word, *map(fresh.digest, each.paths)]


def _clear_away(root: Path, old: dict[str, Any]) -> None:
    """Remove figures that stand nowhere any more, where nobody has touched what was drawn."""
    for stem, noted in old.items():
        paths = style.files(root / "figures", stem)
        is_inside = ".." not in Path(stem).parts and not Path(stem).is_absolute()
        if is_inside and isinstance(noted, list) and noted[1:] == list(map(fresh.digest, paths)):
            for path in paths:
                path.unlink(missing_ok=True)
