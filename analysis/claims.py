"""Each registered claim beside the contrasts that bear on it."""

from __future__ import annotations

import math
from typing import Any

from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name
from analysis.sentences import bounds, number
from analysis.units import after_number

FIELDS = (
    *("label", "across", "control", "metric", "split", "unit", "difference", "low", "high"),
    *("n", "planned", "p_holm", "detectable", "verdict", "note"),
)


def claims(evidence: Evidence) -> list[dict[str, Any]]:
    """Statement, source and evidence of every claim of the plan, in its order."""
    found = []
    for name, ablation in evidence.loaded.ablations.items():
        frame = evidence.contrasts
        rows = listed(frame[frame["ablation"] == name])
        done, planned = evidence.loaded.done(name)
        found += [
            {
                "id": claim.get("id", ""),
                "statement": claim.get("statement", ""),
                "source": claim.get("source", ""),
                "ablation": name,
                "task": ablation["task"],
                "trials": planned,
                "done": done,
                "evidence": [{field: _plain(row[field]) for field in FIELDS} for row in rows],
            }
            for claim in ablation.get("claims") or ()
        ]
    return found


def lines(claim: dict[str, Any]) -> list[str]:
    """A claim for the terminal: what it says, then a line per contrast."""
    head = f"{claim['id']}: {claim['statement']} ({claim['source']})"
    partial = "" if claim["done"] == claim["trials"] else ", partial"
    where = f"  {claim['ablation']} on {claim['task']}: {claim['done']} of {claim['trials']} trials"
    return [head, where + partial, *(f"  {_line(row)}" for row in claim["evidence"])]


def _line(row: dict[str, Any]) -> str:
    name = cell_name(row["label"], row["across"])
    text = f"{name} against {row['control']}: {row['verdict']}"
    if row["difference"] is None:
        return text
    low, high = (math.nan if row[end] is None else row[end] for end in ("low", "high"))
    interval = f", 95 % interval {bounds(low, high)}" if not math.isnan(low) else ""
    size = number(row["difference"], (high - low) / 2)
    return f"{text} ({row['metric']} {size}{after_number(row['unit'])}{interval}, n = {row['n']})"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
