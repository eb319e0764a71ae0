"""One label of an ablation with all its seeds: what became of them, and what they scored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pandas as pd

from analysis.load import FINE, WAITING, Loaded
from analysis.names import cell_name
from analysis.scores import final_readings


@dataclass(frozen=True)
class Arm:
    """One label at one crossing: its seeds, their outcomes and their final scores."""

    ablation: str
    label: str
    across: str
    outcomes: dict[int, str]
    """By seed."""
    scores: dict[int, float]
    """By seed, of trials that ended well and have the metric."""
    unit: str
    steps: frozenset[float]
    parameters: float
    flops_per_token: float
    numerics: frozenset[str]
    """What the last digits depend on besides the code."""
    trained: bool
    """Or its numbers are read off first weights."""

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
        failed = [kind for kind in counts if kind not in (FINE, WAITING)]
        return ", ".join(f"{counts[kind]} of {counts.total()} {kind}" for kind in failed)

    @property
    def is_undertrained(self) -> bool:
        """Whether most of its seeds learnt nothing: then the budget cannot tell, not the arm."""
        ended = [outcome for outcome in self.outcomes.values() if outcome != WAITING]
        return 2 * ended.count("stuck") > len(ended)

    def ended(self, *outcomes: str) -> bool:
        return any(outcome in outcomes for outcome in self.outcomes.values())


def arms(loaded: Loaded, ablation: str) -> list[Arm]:
    """The control and the variants of one ablation, in the order of the plan."""
    cells = loaded.cells[loaded.cells["ablation"] == ablation]
    metric = loaded.ablations[ablation]["metric"]
    final = final_readings(loaded, ablation, metric["name"], metric["split"], {})
    by_arm = dict(list(final.groupby(["label", "across"], sort=False)))
    found = []
    for (label, across), rows in cells.groupby(["label", "across"], sort=False):
        own = by_arm.get((label, across), final[:0])
        units = list(dict.fromkeys(own["unit"]))
        own = own[own["unit"].isin(units[:1])]
        held = [loaded.records[trial] for trial in rows["trial"] if trial in loaded.records]
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
                numerics=frozenset(rows[rows["outcome"] == FINE]["numerics"].dropna()),
                trained=any(record.trained for record in held),
            )
        )
    return found
