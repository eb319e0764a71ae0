"""What a claim predicts of a question's readings, in a small closed vocabulary.

    - {worse: none, by: 0.1, because: a tenth of all phones}

One word says what is predicted, of which variant; the rest where it is looked for. All of it is
registered before the seeds that decide it run, also whether it is about a *level* (the mean of
paired differences) or a *basin* (the share of seeds past a threshold): the data never chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ablations.plan.tree import is_number
from model.config import ConfigError, nearest


@dataclass(frozen=True)
class Word:
    """A word of the vocabulary: what it means, and which fields it needs or may have."""

    means: str
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    names: int = 1
    """How many variants it speaks of; 2 stands for two or more."""
    kind: str = "level"


VOCABULARY = {
    "better": Word("better than the other, by at least a margin", takes=("than", "by", "because")),
    "worse": Word("worse than the other, by at least a margin", takes=("than", "by", "because")),
    "equal": Word("no further apart than a margin", ("within", "because"), ("than",)),
    "worst": Word("worse than every other variant"),
    "ordered": Word("each better than the next", names=2),
    "fails": Word("most of its seeds fail where the other's do not", takes=("than",), kind="basin"),
    "trains": Word("most of its seeds do not fail", kind="basin"),
    "grows": Word("its lead over the other grows along a factor", ("along",), ("than", "since")),
    "exponent": Word("a power of a factor, within bounds", ("along", "between"), ("since",)),
    "crosses": Word("the first is lower, then higher", ("along",), ("since", "until"), names=2),
    "ratio": Word("so many times the other, within bounds", ("between",), ("than",)),
    "exact": Word("a number to rounding", ("within",), ("value", "fails_for", "fails_at")),
}
COORDINATES = (
    *("length", "position", "tokens_over_width", "batch", "depth", "d_head", "past", "removed"),
    "source",
)
"""Numbers in a reading's `at`."""
STEPS = "steps_to_reach"  # a level of validation loss
COMMON = ("metric", "split", "at", "across", "kind", "threshold", "arms")
_NUMBERS = ("by", "within", "value", "threshold", "since", "until")
_CHOICES = {"kind": ("level", "basin"), "arms": ("fixed", "tuned")}


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One thing that a claim predicts."""

    word: str
    of: tuple[str, ...]
    """The variants it speaks of."""
    metric: str
    kind: str
    than: str | None = None
    by: float = 0.0
    """At least; below zero it may be on the other side, by less than that."""
    within: float | None = None
    because: str | None = None
    """Why a difference of this size matters."""
    between: tuple[float | None, float | None] | None = None
    value: float = 0.0
    fails_for: str | None = None
    """The positive control: the variant for which it must not hold …"""
    fails_at: dict[str, Any] | None = None
    """… or the place where it must not."""
    along: str | None = None
    """A crossed factor, or a coordinate of what is measured."""
    since: float | None = None
    """The first place along it that counts."""
    until: float | None = None
    """The place by which it has to be so: what was looked at less far refutes nothing."""
    threshold: float | None = None
    split: str = "test"
    at: dict[str, Any] = field(default_factory=dict)
    across: dict[str, str] = field(default_factory=dict)
    arms: str = "fixed"

    def looks_at(self, label: str, across: Mapping[str, str]) -> bool:
        """Whether this arm is one of those that it compares."""
        is_named = self.word == "worst" or label in (*self.of, self.than, self.fails_for)
        return is_named and all(across.get(name) == level for name, level in self.across.items())

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        between = None if self.between is None else list(self.between)
        return {**asdict(self), "of": list(self.of), "between": between}


def read_prediction(
    written: Any,
    place: str,
    variants: Sequence[str],
    factors: Mapping[str, Sequence[str]],
    metric: str,
    control: str,
) -> Prediction:
    """A prediction as its YAML writes it; ConfigError lists all that is wrong with it."""
    if not isinstance(written, Mapping):
        raise ConfigError([f"{place}: expected a word and a variant, got {str(written)[:60]!r}"])
    said = [key for key in written if key in VOCABULARY]
    if len(said) != 1:
        words = ", ".join(VOCABULARY)
        raise ConfigError([f"{place}: expected one of {words}; found {len(said)} of them"])
    word = VOCABULARY[said[0]]
    given = {key: value for key, value in written.items() if key != said[0]}
    subject = written[said[0]]
    of = tuple(subject) if isinstance(subject, list) else (subject,)
    problems = _wrong_names(of, word, f"{place}.{said[0]}", variants)
    problems += _wrong_fields(given, word, place)
    problems += _wrong_values(given, place, variants, factors)
    kind = given.get("kind", word.kind)
    is_count = said[0] in ("fails", "trains")
    if kind == "basin" and not is_count and "threshold" not in given:
        problems.append(f"{place}.kind: a basin needs the threshold that its seeds are past")
    if given.get("metric") == STEPS:
        level = given.get("at")
        if not isinstance(level, Mapping) or not is_number(level.get("loss")):
            problems.append(f"{place}.metric: {STEPS} needs its level: at: {{loss: 1.0}}")
        if given.get("by"):
            problems.append(f"{place}.by: {STEPS} are compared by their order, without a margin")
        if said[0] not in ("better", "worse", "worst", "ordered"):
            problems.append(f"{place}.metric: {STEPS} cannot be told to be '{said[0]}'")
    if said[0] == "exact" and not (given.get("fails_for") or given.get("fails_at")):
        problems.append(f"{place}: lacks its positive control: fails_for: VARIANT, or fails_at")
    if given.get("by") and not given.get("because"):
        problems.append(f"{place}.by: say in a word why that size matters: because: …")
    if problems:
        raise ConfigError(problems)
    needs_other = "than" in (*word.needs, *word.takes)
    registered = {"metric": metric, "kind": kind, **given}
    registered |= {"between": tuple(given["between"])} if "between" in given else {}
    if needs_other:
        registered.setdefault("than", control)
    return Prediction(word=said[0], of=of, **registered)


def _wrong_names(of: tuple[Any, ...], word: Word, place: str, variants: Sequence[str]) -> list[str]:
    problems = [
        f"{place}: no variant '{str(name)[:60]}'. {nearest(str(name)[:60], variants)}"
        for name in of
        if name not in variants
    ]
    if word.names == 1 and len(of) != 1:
        problems.append(f"{place}: speaks of one variant, not of {len(of)}")
    if word.names == 2 and (len(of) < 2 or len(set(map(str, of))) < len(of)):
        problems.append(f"{place}: speaks of two variants or more, each once")
    return problems


def _wrong_fields(given: Mapping[str, Any], word: Word, place: str) -> list[str]:
    known = (*word.needs, *word.takes, *COMMON)
    problems = [
        f"{place}.{key}: does not belong here. {nearest(str(key), known)}"
        for key in given
        if key not in known
    ]
    return problems + [f"{place}: lacks '{key}'" for key in word.needs if key not in given]


def _wrong_values(
    given: Mapping[str, Any],
    place: str,
    variants: Sequence[str],
    factors: Mapping[str, Sequence[str]],
) -> list[str]:
    problems = [
        f"{place}.{key}: expected a number, got {given[key]!r}"
        for key in _NUMBERS
        if key in given and not is_number(given[key])
    ]
    problems += [
        f"{place}.{key}: must not be negative"
        for key in ("within",)
        if is_number(given.get(key)) and given[key] < 0
    ]
    problems += [
        f"{place}.{key}: expected {' or '.join(choices)}, got {given[key]!r}"
        for key, choices in _CHOICES.items()
        if key in given and given[key] not in choices
    ]
    problems += [
        f"{place}.{key}: no variant '{given[key]}'. {nearest(str(given[key]), variants)}"
        for key in ("than", "fails_for")
        if given.get(key) is not None and given[key] not in variants
    ]
    if "along" in given and given["along"] not in (*factors, *COORDINATES):
        hint = nearest(str(given["along"]), (*factors, *COORDINATES))
        problems.append(f"{place}.along: no factor '{given['along']}'. {hint}")
    for factor, level in (given.get("across") or {}).items():
        if level not in factors.get(factor, ()):
            problems.append(f"{place}.across.{factor}: no level '{level}'")
    between = given.get("between")
    if between is not None and not _is_range(between):
        problems.append(f"{place}.between: expected [low, high], null for an open end")
    return problems


def _is_range(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 or value == [None, None]:
        return False
    ends = [end for end in value if end is not None]
    return all(map(is_number, ends)) and ends == sorted(ends)
