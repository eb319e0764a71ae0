"""What a question's answer does not show: where it was asked, what failed, what was not tried."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ablations.store.record import Record
from analysis import stats
from analysis.evidence import Evidence
from analysis.load import WAITING
from analysis.sentences import named


def limits(evidence: Evidence, question: str) -> list[str]:
    """Plain sentences, names marked."""
    entry = evidence.loaded.ablations[question]
    cells = evidence.loaded.cells[evidence.loaded.cells["ablation"] == question]
    held = evidence.loaded.records
    read = [held[trial] for trial in set(cells["trial"]) & set(held)]
    trained = [record for record in read if record.trained]
    found = [_scope(entry, cells, trained, is_untrained=bool(read) and not trained)]
    if trained and entry["arms"] == "fixed":
        found.append(
            "Rate, schedule and the other settings are the control's: a variant may lose only "
            "because they do not suit it."
        )
    if entry["arms"] == "tuned":
        found.append("Each arm chose among the same few settings; a finer grid may choose others.")
    if entry.get("moves") not in (None, "", "nothing"):
        found.append(f"Not held fixed: {entry['moves']}.")
    outcomes = cells.drop_duplicates("trial")["outcome"].value_counts()
    failed = [f"{n} {kind}" for kind, n in outcomes.items() if kind not in ("ok", WAITING)]
    if failed:
        found.append(f"Of {outcomes.sum()} trials: {', '.join(failed)}. Means are over the rest.")
    if waiting := int(outcomes.get(WAITING, 0)):
        found.append(f"{waiting} of {outcomes.sum()} trials are still to be run.")
    if owed := int(cells.drop_duplicates("trial")["owed"].sum()):
        found.append(f"{owed} measures of trained models are still to be taken.")
    if stale := len(set(cells["trial"]) & evidence.loaded.stale):
        found.append(f"{stale} of its records were made by other code than is here.")
    speeds = evidence.speeds[evidence.speeds["ablation"] == question]
    if bool((speeds["noisy"] == True).any()):  # noqa: E712
        found.append(
            "Others were at work on the machine while this was timed: its ratios, taken in the "
            "same blocks, hold up better than its times."
        )
    return found


def _scope(
    entry: dict[str, Any], cells: pd.DataFrame, trained: list[Record], is_untrained: bool
) -> str:
    seeds = cells["seed"].nunique()
    sizes = cells[cells["label"] == entry["control"]]["parameters"].dropna()
    size = f", {int(sizes.max()):,} parameters (of the control)" if len(sizes) else ""
    known = sorted({n for record in trained if isinstance(n := _steps(record), int)})
    steps = f", {' or '.join(f'{n:,}' for n in known)} steps" if known else ""
    steps = ", untrained" if is_untrained else steps
    luck = f"{seeds} seed{'s' * (seeds != 1)}"
    few = (
        ""
        if seeds >= stats.LEAST or is_untrained
        else f", fewer than the {stats.LEAST} of a verdict"
    )
    return (
        f"One task, {named(str(entry['task']))}{size}{steps}, {luck}{few}: "
        "it says nothing of others."
    )


def _steps(record: Record) -> Any:
    train = record.config.get("train")
    return train.get("steps") if isinstance(train, dict) else None
