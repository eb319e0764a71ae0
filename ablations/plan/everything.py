"""What is run where no question is named, and in which order.

What decides at little cost comes first: questions that train nothing. The others follow as the
ledger has their claims, the six axes of the design before the rest; what else is timed comes
between these, since timing has the machine to itself for minutes.
"""

from __future__ import annotations

import math

from ablations.plan.ledger import ledger
from ablations.plan.profile import read_profile
from ablations.plan.question import Ablation, catalogue, read_ablation
from ablations.plan.wanted import is_trained

AXES = ("position", "norm", "heads", "scale", "smoothing", "recurrent")


def everything(profile: str, arms: str | None = None) -> list[str]:
    """The names of all questions of a profile, in the order in which they are run; where only arms
    that decide are asked for, those that have a claim."""
    is_deciding = (arms or read_profile(profile).arms) == "deciding"
    found = {name: read_ablation(path)[0] for name, path in catalogue().items()}
    wanted = [
        name
        for name, ablation in found.items()
        if ablation.is_for(profile) and (ablation.claims or not is_deciding)
    ]
    return sorted(wanted, key=lambda name: (_turn(found[name]), _place(found[name])))


def _turn(ablation: Ablation) -> int:
    from ablations.measure import is_timing

    is_of_axes = any(claim.id.partition(".")[0] in AXES for claim, _ in ablation.predictions)
    if is_trained(ablation):
        return 1 if is_of_axes else 3
    return 0 if is_of_axes or not any(map(is_timing, ablation.measures)) else 2


def _place(ablation: Ablation) -> float:
    """Where the first of its claims stands in the ledger."""
    order = list(ledger())
    return min((order.index(claim.id) for claim, _ in ablation.predictions), default=math.inf)
