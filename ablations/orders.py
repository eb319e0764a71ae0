"""What a driver tells a worker: plain facts that cross any seam as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ablations.store.stamp import Stamp

FILES = ("weights", "unfinished")  # of what a trial's order says, the names of files


@dataclass(frozen=True, kw_only=True)
class Order:
    """What every job is told."""

    device: str
    imports: list[str]
    """Modules with parts of the user's own."""
    env: dict[str, Any]
    """What the driver knows of where the numbers come from, such as the commit."""

    def payload(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class TrialOrder(Order):
    """Train a trial and take measures of it, or take measures of one that is trained."""

    trial: str
    config: dict[str, Any]
    trained: bool
    """Whether its model is to be trained at all."""
    counts: dict[str, Any]
    code: Stamp
    """The source files that decide its numbers, as they were when this was ordered."""
    measures: dict[str, Stamp]
    """What to measure, each with the files that take it."""
    record: dict[str, Any] | None
    """Where it is trained already."""
    weights: str
    unfinished: str
    """Where an unfinished training is kept."""
    devices: int = 1
    """How many train it together, a process each; what is trained is measured on one."""


@dataclass(frozen=True, kw_only=True)
class SessionOrder(Order):
    """Time candidates beside their reference."""

    measure: str
    code: Stamp
    """The source files that take the measure."""
    against: str
    reference: dict[str, Any]
    candidates: dict[str, dict[str, Any]]
    """Trial → config."""
    models: Stamp
    """The source files that the timed models are made of."""
    untrained: list[str] = field(default_factory=list)
    """Which of the trials are timed only."""
    places: list[dict[str, Any]]
    """Where."""
    timing: dict[str, Any]
