"""plan.json: what was asked of a results folder, and which trial answers it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ablations.store.record import Number, TrialId
from ablations.store.schema import STRICT

Objects = list[dict[str, Any]]
Better = Literal["lower", "higher"]


class _Claim(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]
    id: str
    statement: str
    source: str
    predicts: Objects
    require: Objects


class _Trial(TypedDict):
    """One trial of a table."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    variant: str
    seed: Annotated[int, Field(ge=0)]
    factors: dict[str, str]
    id: TrialId
    settings: str
    tuned: dict[str, Any]
    sources: list[str]
    work: Annotated[Number, Field(ge=0)]


class _PlannedMetric(TypedDict):
    """The words for a metric, and the size of a difference in it that matters."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    unit: str
    better: Better
    title: str
    repeats: NotRequired[Literal["seeds", "processes", "nothing"]]
    matters: NotRequired[Number | None]
    beside: NotRequired[dict[str, Any]]
    """Where its reference was measured, if that is elsewhere."""


class _Metric(_PlannedMetric):
    name: str
    split: str


class _Entry(TypedDict):
    """One table: a question with its settings, and its cells."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    name: str
    question: str
    task: str
    baseline: str
    held_constant: str
    changes: str
    claims: list[_Claim]
    tuning: Objects
    grid: dict[str, list[Any]]
    overrides: list[str]
    profile: str
    metric: _Metric
    metrics: dict[str, _PlannedMetric]
    seed_batches: list[list[int]]
    trials: list[_Trial]


class _Plan(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]
    profile: str
    experiments: dict[str, _Entry]


PLAN: TypeAdapter[Any] = TypeAdapter(_Plan)
