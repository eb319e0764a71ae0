"""What a claim predicts of a measurement: one frozen class a kind, told apart by its `kind`.

A plan holds each as a dictionary; the YAML of an experiment is read into them by
`ablations.predictions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
One = tuple[str]
Range = tuple[Number | None, Number | None]
STEPS = "steps_to_reach"
"""A level of validation loss, told by `at: {loss: …}`, and the steps until it is reached."""


class _Prediction(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    shows: ClassVar[str]
    """What kind of number is measured for it."""

    kind: str
    role: Literal["predicts", "requires"] = "predicts"
    """Whether the claim says it, or can only be judged where it holds."""
    variants: tuple[str, ...]
    metric: str
    split: str = "test"
    coordinates: dict[str, int | float | str] = Field(default_factory=dict)
    factors: dict[str, str] = Field(default_factory=dict)
    """Levels of crossed factors; where one is not named, it holds at every level."""
    because: str | None = None
    """Why a difference of this size matters."""

    @property
    def compared(self) -> list[str]:
        """Every variant that it compares."""
        named = [*self.variants, getattr(self, "than", None), getattr(self, "fails_for", None)]
        return list(dict.fromkeys(name for name in named if name is not None))

    def looks_at(self, variant: str, factors: Mapping[str, str]) -> bool:
        """Whether a variant at these levels is one of those that it compares."""
        is_there = all(factors.get(name) == level for name, level in self.factors.items())
        return variant in self.compared and is_there

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class _Comparison(_Prediction):
    shows = "difference"
    variants: One
    than: str


class _Lead(_Comparison):
    by: Number = 0.0
    threshold: Number | None = None


class Better(_Lead):
    """Better than the other by at least `by`; below zero it may be worse, by less than that.

    With a threshold it is about rates of success: how many seeds are past it.
    """

    kind: Literal["better"]


class Worse(_Lead):
    """Worse than the other by at least `by`; with a threshold, of rates of success."""

    kind: Literal["worse"]


class Equal(_Comparison):
    """No further apart than `within`."""

    kind: Literal["equal"]
    within: Count


class Fails(_Lead):
    """Succeeds in fewer seeds than the other: trains to its end, past the threshold if any."""

    shows = "difference of success rates"
    kind: Literal["fails"]
    by: Count = 0.0


class Grows(_Comparison):
    """Its lead over the other grows along a factor or coordinate."""

    shows = "growth with each doubling"
    kind: Literal["grows"]
    along: str
    since: Number | None = None
    """The first place along it that counts."""


class Exponent(_Prediction):
    """A power of a factor or coordinate, between bounds."""

    shows = "exponent"
    kind: Literal["exponent"]
    variants: One
    along: str
    between: Range
    since: Number | None = None


class Crosses(_Prediction):
    """The first is lower, then higher than the second."""

    shows = "crossing"
    kind: Literal["crosses"]
    variants: tuple[str, str]
    along: str
    since: Number | None = None
    until: Number | None = None
    """Where it has to be so: what was measured less far refutes nothing."""


class Ratio(_Prediction):
    """So many times the other, between bounds; without another, the number itself."""

    shows = "ratio"
    kind: Literal["ratio"]
    variants: One
    than: str | None
    between: Range


class Exact(_Prediction):
    """A number to rounding, and in a positive control not that number."""

    shows = "value"
    kind: Literal["exact"]
    variants: One
    within: Count
    value: Number = 0.0
    fails_for: str | None = None
    """The variant for which it must not hold …"""
    fails_at: dict[str, int | float | str] | None = None
    """… or the place where it must not."""


KINDS: dict[str, type[_Prediction]] = {
    kind.__name__.lower(): kind
    for kind in (Better, Worse, Equal, Fails, Grows, Exponent, Crosses, Ratio, Exact)
}
Prediction = Annotated[
    Better | Worse | Equal | Fails | Grows | Exponent | Crosses | Ratio | Exact,
    Field(discriminator="kind"),
]
_READ: TypeAdapter[Prediction] = TypeAdapter(Prediction)


def prediction_of(plain: Mapping[str, Any]) -> Prediction:
    """A prediction from its dictionary; pydantic's ValidationError lists what does not fit."""
    return _READ.validate_python(dict(plain))
