"""Whether a report is still that of its records, so that nothing is drawn twice.

Plotting libraries take seconds to load; this module does without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from ablations.store.files import write_atomic


def inputs(root: Path) -> str:
    """One word for all that a report is made of: plan, records, and this package's own files."""
    code = Path(__file__).parent
    files = [
        root / "plan.json",
        *root.glob("trials/*.json"),
        *code.rglob("*.py"),
        *code.rglob("*.j2"),
    ]
    told = sorted((str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.exists())
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def paths(root: Path) -> list[Path] | None:
    """What the last report wrote, if all of it is there and nothing has changed since."""
    try:
        noted = json.loads((root / "report" / "inputs.json").read_text(encoding="utf-8"))
        written = [root / name for name in noted["paths"]]
        is_fresh = noted["inputs"] == inputs(root) and all(path.exists() for path in written)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return written if is_fresh else None


def note(root: Path, seen: str, written: Sequence[Path]) -> None:
    """Remember what was seen before the report was made: a later change makes it stale."""
    names = [str(path.relative_to(root)) for path in written]
    write_atomic(root / "report" / "inputs.json", json.dumps({"inputs": seen, "paths": names}))
