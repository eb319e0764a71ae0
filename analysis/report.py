"""Figures, tables, verdicts and one page that has them all, written to a results folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ablations.store.files import write_atomic
from analysis import drawing, page, tables
from analysis.claims import claims
from analysis.evidence import Evidence
from analysis.placing import placed

PAGE = Path("report") / "index.html"


def write(evidence: Evidence, processes: int = 1) -> list[Path]:
    """Write all of it; the page comes last, so it is never ahead of what it links to."""
    root = evidence.loaded.root
    decided = claims(evidence)
    beside: list[Path] = []
    drawn = drawing.draw(
        placed(evidence), root, processes, lambda: beside.extend(_beside(evidence, decided))
    )
    path = root / PAGE
    write_atomic(path, page.render(evidence, decided, drawn, [*beside, root / "plan.json"]))
    return [*(file for each in drawn for file in each.paths), *beside, path]


def _beside(evidence: Evidence, decided: list[dict[str, Any]]) -> list[Path]:
    """Tables and verdicts."""
    verdicts = evidence.loaded.root / "claims.json"
    document = json.dumps(decided, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(verdicts, document + "\n")
    return [*tables.write(evidence), verdicts]
