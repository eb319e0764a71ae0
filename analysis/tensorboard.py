"""Learning curves as TensorBoard's event files: a run for each trial, a tag for each metric.

The files are written by tensorboardX, an extra: it needs neither torch nor TensorBoard.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from analysis.load import Loaded

MISSING = "TensorBoard's files need an extra: .venv/bin/pip install -e '.[tensorboard]'"


def write(loaded: Loaded, to: Path) -> list[Path]:
    """Write each trial's readings by step below `to`; the folders of the runs."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(MISSING) from None
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f"{str(to)[:200]!r} is there already: name a new folder with --to")
    runs = []
    for (table, label, across, seed), points in curves(loaded).items():
        folder = to / safe(table) / safe(", ".join(filter(None, (label, across)))) / f"seed {seed}"
        with SummaryWriter(logdir=str(folder)) as writer:
            for tag, step, value in points:
                writer.add_scalar(tag, value, step, walltime=float(step))
        runs.append(folder)
    if not runs:
        raise ValueError("nothing to write yet: no reading of this folder was taken at a step")
    return runs


def curves(loaded: Loaded) -> dict[tuple[str, str, str, Any], list[tuple[str, int, float]]]:
    """Of each cell its (tag, step, value), in the order of steps; other coordinates in the tag."""
    frame = loaded.readings
    frame = frame[frame["step"].notna() & frame["value"].notna()]
    found: dict[tuple[str, str, str, Any], list[tuple[str, int, float]]] = {}
    names = ("ablation", "label", "across", "seed", "metric", "split", "at", "value")
    for *cell, seed, metric, split, at, value in zip(
        *(frame[name].tolist() for name in names), strict=True
    ):
        where = [f"{name}_{at[name]}" for name in sorted(at) if name != "step"]
        split = split if isinstance(split, str) else ""
        tag = "/".join(safe(word) for word in (split, metric, *where) if word)
        place = (cell[0], cell[1], cell[2], seed)
        found.setdefault(place, []).append((tag, int(at["step"]), float(value)))
    return {place: sorted(points) for place, points in found.items()}


def safe(name: str) -> str:
    """A name that is one folder and never a way out of it; two names never share one."""
    kept = re.sub(r"[^\w .,=+-]", "_", name, flags=re.ASCII).strip(" .")[:80]
    if kept and kept == name:
        return kept
    return f"{kept} {hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:6]}".strip()
