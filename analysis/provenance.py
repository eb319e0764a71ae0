"""Where the numbers come from: data, dates, time spent, and every trial that did not end well."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from ablations.store.record import Record
from analysis.evidence import Evidence
from analysis.load import WAITING, listed
from analysis.names import cell_name, printable, short

LONGEST = 200  # characters of a field that somebody else may have written


def data(records: dict[str, Record]) -> list[dict[str, str]]:
    """Each set of data once: its task, source, licence, size and digest."""
    found: Counter[tuple[tuple[str, str], ...]] = Counter()
    for record in records.values():
        held = record.data
        size = held.get("size")
        told = {
            "task": _text(held.get("task") or record.config.get("task", {}).get("name")),
            "source": _text(held.get("source")),
            "licence": _text(held.get("licence")),
            "size": ", ".join(f"{_text(k)} {_text(v)}" for k, v in size.items())
            if isinstance(size, dict)
            else "",
            "sha256": _text(held.get("sha256"))[:12],
        }
        found[tuple(told.items())] += 1
    return [{**dict(told), "trials": str(n)} for told, n in sorted(found.items())]


def dates(records: dict[str, Record]) -> tuple[str, str] | None:
    """When the first and the last trial started, to the minute."""
    started = sorted(
        _text(record.env["started"])[:16].replace("T", " ")
        for record in records.values()
        if record.env.get("started")
    )
    return (started[0], started[-1]) if started else None


def seconds(records: dict[str, Record]) -> float:
    """How long all trials together trained."""
    found = [record.env.get("seconds") for record in records.values()]
    return float(sum(each for each in found if isinstance(each, int | float)))


def duration(spent: float) -> str:
    """`41 s`, `12 min`, `3.4 h`."""
    if spent < 100:
        return f"{spent:.0f} s"
    return f"{spent / 60:.0f} min" if spent < 6000 else f"{spent / 3600:.1f} h"


def outcomes(cells: pd.DataFrame) -> list[tuple[str, int]]:
    """How the trials ended, those that are still to run among them."""
    return [
        (str(word), int(n))
        for word, n in cells.drop_duplicates("trial")["outcome"].value_counts().items()
    ]


def failures(cells: pd.DataFrame) -> list[dict[str, Any]]:
    """Every trial that did not end well, once, with the last line of its reason."""
    bad = cells[~cells["outcome"].isin(["ok", WAITING])]
    where = bad.groupby("trial", sort=False)["ablation"].agg(
        lambda names: list(dict.fromkeys(names))
    )
    found = []
    for row in listed(bad.drop_duplicates("trial")):
        reason = row["reason"] if isinstance(row["reason"], str) else ""
        lines = [line for line in reason.splitlines() if line.strip()]
        found.append(
            {
                "where": where[row["trial"]],
                "label": short(cell_name(row["label"], row["across"])),
                "seed": row["seed"],
                "trial": row["trial"],
                "outcome": row["outcome"],
                "reason": lines[-1].strip()[:300] if lines else "no reason recorded",
            }
        )
    return found


def seeds(evidence: Evidence) -> str:
    """Every seed that is asked for."""
    return ", ".join(str(seed) for seed in sorted(set(evidence.loaded.cells["seed"]), key=str))


def _text(value: Any) -> str:
    return "" if value is None else short(str(printable(str(value))), LONGEST)
