"""Write learning curves as TensorBoard event files: a run for each trial, a tag for each metric.

The files are written by tensorboardX, an extra: it needs neither torch nor TensorBoard.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from analysis.load import Loaded, Row

MISSING = "TensorBoard's files need an extra: .venv/bin/pip install -e '.[tensorboard]'"


def write(loaded: Loaded, to: Path) -> list[Path]:
    """Write each trial's measurements by step below `to`; return the folders of the runs."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(MISSING) from None
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f"{str(to)[:200]!r} is there already: name a new folder with --to")
    frame = loaded.measurements
    frame = frame[frame["step"].notna() & frame["value"].notna()]
    runs = []
    for (*variant, seed), points in frame.groupby(["experiment", "variant", "factors", "seed"]):
        name, label, across = map(str, variant)
        folder = to / safe(name) / safe(", ".join(filter(None, (label, across)))) / f"seed {seed}"
        with SummaryWriter(logdir=str(folder)) as writer:
            for row in points.sort_values("step").to_dict("records"):
                step = int(row["step"])
                writer.add_scalar(_tag(row), row["value"], step, walltime=float(step))
        runs.append(folder)
    if not runs:
        raise ValueError("nothing to write yet: no measurement of this folder was taken at a step")
    return runs


def _tag(row: Row) -> str:
    """Split, metric and coordinates without the step: `test/loss/length_64`."""
    where = [
        f"{name}_{row['coordinates'][name]}"
        for name in sorted(row["coordinates"])
        if name != "step"
    ]
    return "/".join(safe(word) for word in (row["split"], row["metric"], *where) if word)


def safe(name: str) -> str:
    """A unique and safe folder name."""
    kept = re.sub(r"[^\w .,=+-]", "_", name, flags=re.ASCII).strip(" .")[:80]
    if kept and kept == name:
        return kept
    return f"{kept} {hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:6]}".strip()
