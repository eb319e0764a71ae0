"""Reads the claims and predictions of an experiment's YAML.

    - {worse: none, by: 0.1, because: a tenth of all phones}

The first key is the kind of prediction, its value the variant; the other keys are the fields of
its class in `ablations.store.predictions`. `at` gives the coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ValidationError

from ablations.config import FOLDER, read_yaml
from ablations.store.predictions import KINDS, STEPS, Prediction, prediction_of
from model.config import ConfigError, is_number, nearest

COORDINATES = (
    "length", "position", "tokens_over_width", "batch", "depth", "d_head", "past", "removed",
    "source_length",
)  # fmt: skip
"""Coordinates that are numbers, so that `along` can follow them."""
RETIRED = {
    "across": "is gone: write factors",
    "arms": "is gone: an experiment has one table",
    "role": "does not belong here: list it under 'require'",
}
_KEYS = {"coordinates": "at"}  # field → as it is written
_OURS = ("kind", "role", "variants")
_EXPECTED = {
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "string_type": "expected a name",
    "dict_type": "expected coordinates and their values",
    "greater_than_equal": "must not be negative",
}


@dataclass(frozen=True)
class Claim:
    """A sentence from a lecture that measurements can decide."""

    id: str
    statement: str
    source: str


@cache
def read_claims() -> dict[str, Claim]:
    """Id → claim; ConfigError names the line of each claim without a statement or a source."""
    source = read_yaml(FOLDER / "claims.yaml")
    found, problems = {}, []
    for name, entry in source.values.items():
        words = entry if isinstance(entry, dict) else {}
        is_said = all(isinstance(text, str) and text.strip() for text in words.values())
        if set(words) != {"statement", "source"} or not is_said:
            problems.append(f"{source.place(name)}: expected a statement and a source")
            continue
        found[name] = Claim(name, **words)
    if problems:
        raise ConfigError(problems)
    return found


def read_predictions(
    claims: Sequence[Any],
    variants: Iterable[str],
    factors: Mapping[str, Sequence[str]],
    metric: str,
    baseline: str,
) -> list[tuple[Claim, list[Prediction]]]:
    """Each claim of an experiment with its predictions; ConfigError lists all problems."""
    problems: list[str] = []
    found: dict[str, tuple[Claim, list[Prediction]]] = {}
    for index, written in enumerate(claims):
        place = f"claims.{index}"
        if not isinstance(written, Mapping) or written.keys() - {"require"} != {"id", "predicts"}:
            problems.append(f"{place}: expected an id and what it predicts, got {written!r}")
            continue
        predictions: list[Prediction] = []
        if (name := str(written["id"])[:100]) not in read_claims():
            problems.append(f"{place}.id: no claim '{name}'. {nearest(name, read_claims())}")
        elif name in found:
            problems.append(f"{place}.id: '{name}' is listed twice")
        else:
            found[name] = read_claims()[name], predictions
        for key, role in (("predicts", "predicts"), ("require", "requires")):
            given = written.get(key, [])
            if not isinstance(given, list) or (key == "predicts" and not given):
                problems.append(f"{place}.{key}: expected a list of predictions")
                continue
            for number, each in enumerate(given):
                try:
                    asked = each, f"{place}.{key}.{number}", variants, factors, metric, baseline
                    predictions.append(read_prediction(*asked, role))
                except ConfigError as error:
                    problems += error.problems
    if problems:
        raise ConfigError(problems)
    return list(found.values())


def read_prediction(
    written: Any,
    place: str,
    variants: Iterable[str],
    factors: Mapping[str, Sequence[str]],
    metric: str,
    baseline: str,
    role: str = "predicts",
) -> Prediction:
    """Read one prediction; ConfigError lists all problems."""
    if not isinstance(written, Mapping):
        raise ConfigError([f"{place}: expected a word and a variant, got {str(written)[:60]!r}"])
    said = [key for key in written if key in KINDS]
    if len(said) != 1:
        words = ", ".join(KINDS)
        raise ConfigError([f"{place}: expected one of {words}; found {len(said)} of them"])
    word = said[0]
    problems = [f"{place}.{key}: {fix}" for key, fix in RETIRED.items() if key in written]
    given = {key: value for key, value in written.items() if key not in (word, *RETIRED)}
    if "at" in given:
        given["coordinates"] = given.pop("at")
    subject = written[word]
    of = [str(name) for name in (subject if isinstance(subject, list) else [subject])]
    fields = KINDS[word].model_fields
    plain = {"metric": metric, **given, "kind": word, "role": role, "variants": of}
    if "than" in fields:
        plain.setdefault("than", baseline)
    problems += _wrong_names(plain, place, list(variants), factors)
    problems += _wrong_together(plain, place)
    try:
        found = prediction_of(plain)
    except ValidationError as error:
        known = [_KEYS.get(name, name) for name in fields if name not in _OURS]
        problems += [_in_our_words(each, place, word, known) for each in error.errors()]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return found


def _in_our_words(error: Any, place: str, word: str, known: Sequence[str]) -> str:
    """Reword one error of pydantic."""
    name = (*error["loc"], "")[1]
    name = _KEYS.get(name, name)
    kind, got = error["type"], repr(error["input"])[:60]
    if kind == "extra_forbidden":
        return f"{place}.{name}: does not belong here. {nearest(str(name), known)}"
    if kind == "missing" and name != "variants":
        return f"{place}: lacks '{name}'"
    if name == "variants":
        return (
            f"{place}: expected {'two different variants' if word == 'crosses' else 'one variant'}"
        )
    if name == "between":
        return f"{place}.between: expected [low, high], null for an open end"
    return f"{place}.{name}: {_EXPECTED.get(kind, error['msg'])}, got {got}"


def _wrong_names(
    plain: Mapping[str, Any],
    place: str,
    variants: Sequence[str],
    factors: Mapping[str, Sequence[str]],
) -> list[str]:
    """A problem for each variant, factor or level that the experiment does not have."""
    word, named = plain["kind"], [(plain["kind"], name) for name in plain["variants"]]
    named += [(key, plain[key]) for key in ("than", "fails_for") if plain.get(key) is not None]
    problems = [
        f"{place}.{key}: no variant '{str(name)[:60]}'. {nearest(str(name)[:60], variants)}"
        for key, name in named
        if name not in variants
    ]
    if len(set(plain["variants"])) < len(plain["variants"]):
        problems.append(f"{place}: expected two different variants")
    if plain.get("than") in plain["variants"] and plain["than"] in variants:
        problems.append(f"{place}.{word}: '{plain['than'][:60]}' is compared with itself")
    along = plain.get("along")
    if along is not None and along not in (*factors, *COORDINATES):
        hint = nearest(str(along), (*factors, *COORDINATES))
        problems.append(f"{place}.along: no factor '{along}'. {hint}")
    levels = plain.get("factors")
    if isinstance(levels, Mapping):
        problems += [
            f"{place}.factors.{factor}: no level '{level}'"
            for factor, level in levels.items()
            if level not in factors.get(factor, ())
        ]
    return problems


def _wrong_together(plain: Mapping[str, Any], place: str) -> list[str]:
    """A problem for each pair of fields that do not go together."""
    problems = []
    if plain["metric"] == STEPS:
        level = plain.get("coordinates")
        if not isinstance(level, Mapping) or not is_number(level.get("loss")):
            problems.append(f"{place}.metric: {STEPS} needs its level: at: {{loss: 1.0}}")
        if plain.get("by") or plain.get("threshold") is not None:
            problems.append(f"{place}: {STEPS} takes no margin and no threshold")
        if plain["kind"] not in ("better", "worse"):
            problems.append(f"{place}.metric: {STEPS} takes better or worse, not '{plain['kind']}'")
    if plain["kind"] == "exact" and not (plain.get("fails_for") or plain.get("fails_at")):
        problems.append(f"{place}: lacks its positive control: fails_for: VARIANT, or fails_at")
    if plain.get("by") and not plain.get("because"):
        problems.append(f"{place}.by: say why that size matters: because: …")
    if plain["kind"] == "equal" and not plain.get("because"):
        problems.append(f"{place}: lacks 'because': say why that size matters")
    between = plain.get("between")
    if isinstance(between, list) and not _is_range(between):
        problems.append(f"{place}.between: expected [low, high], null for an open end")
    return problems


def _is_range(value: list[Any]) -> bool:
    ends = [end for end in value if end is not None]
    return len(value) == 2 and bool(ends) and all(map(is_number, ends)) and ends == sorted(ends)
