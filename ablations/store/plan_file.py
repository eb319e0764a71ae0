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


class _Cell(TypedDict):
    """A place in the table, and the trial that fills it."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    label: str
    seed: Annotated[int, Field(ge=0)]
    across: dict[str, str]
    trial: TrialId
    settings: str
    tuned: dict[str, Any]
    measures: list[str]
    work: Annotated[Number, Field(ge=0)]


class _Quantity(TypedDict):
    """How a metric is told, and the size of a difference in it that matters."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    unit: str
    better: Better
    label: str
    repeats: NotRequired[Literal["seeds", "processes", "nothing"]]
    matters: NotRequired[Number | None]
    beside: NotRequired[dict[str, Any]]
    """Where its reference was measured, if that is elsewhere."""


class _Metric(_Quantity):
    name: str
    split: str


class _Entry(TypedDict):
    """One table: a question with its settings, and its cells."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    name: str
    question: str
    task: str
    control: str
    fixed: str
    moves: str
    claims: list[_Claim]
    tuning: Objects
    grid: dict[str, list[Any]]
    overrides: list[str]
    profile: str
    metric: _Metric
    metrics: dict[str, _Quantity]
    batches: list[list[int]]
    cells: list[_Cell]


class _Plan(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]
    profile: str
    ablations: dict[str, _Entry]


PLAN: TypeAdapter[Any] = TypeAdapter(_Plan)
