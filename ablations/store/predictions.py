"""The kinds of prediction that a claim can make about a metric: one pydantic class each.

`ablations.predictions` reads them from YAML; plan.json stores them as dictionaries.
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
"""Metric: training steps until the validation loss reaches the level in `at: {loss: …}`."""


class _Prediction(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    shows: ClassVar[str]
    """The statistic that is estimated."""

    kind: str
    role: Literal["predicts", "requires"] = "predicts"
    """predicts: decides the claim. requires: must be supported before the claim is judged."""
    variants: tuple[str, ...]
    metric: str
    split: str = "test"
    coordinates: dict[str, int | float | str] = Field(default_factory=dict)
    factors: dict[str, str] = Field(default_factory=dict)
    """Factor → level; a factor that is not named may have any level."""
    because: str | None = None
    """Why a difference of this size matters."""

    @property
    def compared(self) -> list[str]:
        """All variants that the prediction compares."""
        named = [*self.variants, getattr(self, "than", None), getattr(self, "fails_for", None)]
        return list(dict.fromkeys(name for name in named if name is not None))

    def looks_at(self, variant: str, factors: Mapping[str, str]) -> bool:
        """Whether the prediction compares this variant at these levels."""
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
    """The variant beats `than` by at least `by`; a negative `by` allows it to be slightly worse.

    With a threshold, success rates are compared: the shares of seeds that pass the threshold.
    """

    kind: Literal["better"]


class Worse(_Lead):
    """The variant is worse than `than` by at least `by`; a threshold works as in `Better`."""

    kind: Literal["worse"]


class Equal(_Comparison):
    """The variant and `than` differ by at most `within`."""

    kind: Literal["equal"]
    within: Count


class Fails(_Lead):
    """Fewer seeds succeed than with `than`: they finish training and pass the threshold, if any."""

    shows = "difference of success rates"
    kind: Literal["fails"]
    by: Count = 0.0


class Grows(_Comparison):
    """The variant's lead over `than` grows along a factor or coordinate."""

    shows = "growth with each doubling"
    kind: Literal["grows"]
    along: str
    since: Number | None = None
    """Smaller values of `along` are ignored."""


class Exponent(_Prediction):
    """The metric is a power of a factor or coordinate; its exponent lies in `between`."""

    shows = "exponent"
    kind: Literal["exponent"]
    variants: One
    along: str
    between: Range
    since: Number | None = None


class Crosses(_Prediction):
    """The first variant starts lower than the second and ends higher."""

    shows = "crossing"
    kind: Literal["crosses"]
    variants: tuple[str, str]
    along: str
    since: Number | None = None
    until: Number | None = None
    """They cross before this value of `along`; a shorter measurement cannot refute that."""


class Ratio(_Prediction):
    """variant / `than` lies in `between`; if `than` is null, the metric itself does."""

    shows = "ratio"
    kind: Literal["ratio"]
    variants: One
    than: str | None
    between: Range


class Exact(_Prediction):
    """The metric equals `value` up to `within`; in a positive control it does not."""

    shows = "value"
    kind: Literal["exact"]
    variants: One
    within: Count
    value: Number = 0.0
    fails_for: str | None = None
    """The positive control: a variant …"""
    fails_at: dict[str, int | float | str] | None = None
    """… or coordinates."""


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
