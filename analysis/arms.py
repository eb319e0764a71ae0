"""One label of an ablation with all its seeds: what became of them, and what they scored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.load import WAITING, Loaded
from analysis.names import cell_name
from analysis.scores import final_readings


@dataclass(frozen=True)
class Arm:
    """One label at one crossing: its seeds, their outcomes and their final scores."""

    ablation: str
    label: str
    across: str
    outcomes: dict[Any, str]  # by seed
    scores: dict[Any, float]  # by seed, of ok trials that have the metric
    unit: str
    steps: frozenset[float]
    parameters: float
    flops_per_token: float
    numerics: frozenset[str]  # what the last digits depend on besides the code, of ok trials
    trained: bool  # or its numbers are read off first weights

    @property
    def name(self) -> str:
        return cell_name(self.label, self.across)

    @property
    def started(self) -> bool:
        return any(outcome != WAITING for outcome in self.outcomes.values())

    @property
    def failures(self) -> str:
        """`2 of 3 diverged`, or nothing."""
        counts = Counter(self.outcomes.values())
        total = counts.total()
        failed = [kind for kind in counts if kind not in ("ok", WAITING)]
        return ", ".join(f"{counts[kind]} of {total} {kind}" for kind in failed)

    @property
    def is_undertrained(self) -> bool:
        """Whether most of its seeds learnt nothing: then the budget cannot tell, not the arm."""
        ended = [outcome for outcome in self.outcomes.values() if outcome != WAITING]
        return 2 * ended.count("stuck") > len(ended)

    def ended(self, *outcomes: str) -> bool:
        return any(outcome in outcomes for outcome in self.outcomes.values())


def arms(loaded: Loaded, ablation: str) -> list[Arm]:
    """The control and the variants of one ablation, in the order of the plan."""
    kept = loaded.kept.setdefault("arms", {})
    if ablation not in kept:
        kept[ablation] = _arms(loaded, ablation)
    found: list[Arm] = kept[ablation]
    return found


def _arms(loaded: Loaded, ablation: str) -> list[Arm]:
    cells = loaded.cells[loaded.cells["ablation"] == ablation]
    metric = loaded.ablations[ablation]["metric"]
    final = final_readings(loaded, ablation, metric["name"], metric["split"], {})
    found = []
    for (label, across), rows in cells.groupby(["label", "across"], sort=False):
        own = final[(final["label"] == label) & (final["across"] == across)]
        units = list(dict.fromkeys(own["unit"]))
        own = own[own["unit"].isin(units[:1])]
        found.append(
            Arm(
                ablation=ablation,
                label=str(label),
                across=str(across),
                outcomes=dict(zip(rows["seed"], rows["outcome"], strict=True)),
                scores=dict(zip(own["seed"], own["value"].astype(float), strict=True)),
                unit=str(units[0]) if units else "",
                steps=frozenset(own["step"].dropna()),
                parameters=float(pd.to_numeric(rows["parameters"]).max()),
                flops_per_token=float(pd.to_numeric(rows["flops_per_token"]).max()),
                numerics=frozenset(rows[rows["outcome"] == "ok"]["numerics"].dropna()),
                trained=any(
                    loaded.records[trial].trained
                    for trial in rows["trial"]
                    if trial in loaded.records
                ),
            )
        )
    return found
