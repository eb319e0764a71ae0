"""What may stand in a record: every field, its kind, and one line for what does not fit.

Records are checked when they are written and when they are read, so the checks are plain functions
over parsed JSON and nothing is built that is thrown away.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

SCHEMA = 2
FAILED = ("oom", "error", "timeout", "killed")
STATUSES = ("ok", "diverged", "stuck", *FAILED)
TRIAL = re.compile(r"[A-Za-z0-9_-]{1,100}")  # a label that is also a safe name for a file


class RecordError(ValueError):
    """A file in a results folder that cannot be used, with the reason in one line."""


class NewerRecordError(RecordError):
    """Written by a later version of this code: to be left alone."""


def check_schema(plain: Any) -> None:
    """Refuse what is no record, and a record of a later version."""
    if not isinstance(plain, dict):
        raise RecordError("not a record: expected a JSON object")
    schema = plain.get("schema")
    if type(schema) is not int or schema < 1:
        raise RecordError("not a record: it has no schema number")
    if schema < SCHEMA:
        raise RecordError(f"written by an earlier version (schema {schema}, this one has {SCHEMA})")
    if schema > SCHEMA:
        raise NewerRecordError(
            f"written by a newer version (schema {str(schema)[:12]}, this one reads {SCHEMA}): "
            "update the code or use another results folder"
        )


def check_head(plain: Mapping[str, Any]) -> None:
    """Refuse a record whose fields beside its readings are not what they should be."""
    _check(plain, _HEAD, "")
    for name in ("config", "env", "data"):
        _check_json(name, plain[name])
    for key, test in _ENV.items():
        if key in plain["env"] and not test[1](plain["env"][key]):
            raise _wrong(f"env.{key}", test[0], plain["env"][key])
    if plain["status"] in FAILED and not plain["reason"]:
        raise RecordError(f"'reason': a record that says {plain['status']} must say why")
    if not plain["trained"] and plain["status"] in ("diverged", "stuck"):
        raise RecordError(f"'trained': a model that was not trained cannot be {plain['status']}")
    for index, example in enumerate(plain["examples"]):
        if not _is_words(example):
            raise _wrong(f"examples[{index}]", "words by name", example)


def check_readings(readings: Any) -> None:
    """Refuse a list of readings of which one is not what it should be."""
    if type(readings) is not list:
        raise _wrong("readings", "a list", readings)
    for index, reading in enumerate(readings):
        if type(reading) is not dict:
            raise _wrong(f"readings[{index}]", "an object", reading)
        for name, value in reading.items():  # in line: a record has hundreds of readings
            if name in _NAMES and type(value) is str and value:
                continue
            test = _READING.get(name)
            if test is None or not test[1](value):
                _check(reading, _READING, f"readings[{index}]", _NEEDED)
        if not (reading.get("measure") and reading.get("metric") and reading.get("unit")):
            _check(reading, _READING, f"readings[{index}]", _NEEDED)
        if reading.get("value") is None and not reading.keys() & _INSTEAD:
            raise RecordError(f"'readings[{index}]' has neither a value nor a reason")
        if "values" in reading:
            shape = [len(places) for places in reading.get("axes", {}).values()]
            if not _is_shaped(reading["values"], shape):
                raise RecordError(f"'readings[{index}].values' does not fill its axes")
        if len({len(reading[name]) for name in reading.keys() & _BY_BLOCK}) > 1:
            raise RecordError(f"'readings[{index}]' has not one time of each for every block")


def _check_json(field: str, value: dict[str, Any]) -> None:
    """Refuse what strict JSON cannot say, at any depth."""
    left: list[tuple[Any, Any]] = [*value.items()]
    for name, each in left:  # which grows as it is walked
        kind = type(each)
        if kind is dict:
            left += each.items()
        elif kind is list:
            left += [(name, part) for part in each]
        elif not (kind is bool or each is None or isinstance(each, str) or _is_number(each)):
            raise _wrong(field, f"what JSON can say at {str(name)[:40]!r}", each)
        if type(name) is not str:
            raise _wrong(field, "nothing but words as names", name)


Test = tuple[str, Callable[[Any], bool]]  # what is expected, in words and as a function


def _check(
    plain: Mapping[str, Any], tests: Mapping[str, Test], place: str, needed: Any = None
) -> None:
    for name in tests if needed is None else needed:
        if name not in plain:
            raise RecordError(f"'{_join(place, name)}' is missing")
    for name, value in plain.items():
        if name not in tests:
            raise RecordError(f"unknown field {_join(place, str(name)[:40])!r}")
        expected, fits = tests[name]
        if not fits(value):
            raise _wrong(_join(place, name), expected, value)


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _wrong(field: str, expected: str, value: Any) -> RecordError:
    got = repr(value)
    return RecordError(f"'{field}': expected {expected}, got {got[:40] + '…' * (len(got) > 40)}")


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST


_LARGEST = 1 << 1023  # what a float can hold


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_name(value: Any) -> bool:
    return type(value) is str and value != ""


def _is_duration(value: Any) -> bool:
    return _is_number(value) and bool(value >= 0)


def _is_times(value: Any) -> bool:
    return type(value) is list and value != [] and all(map(_is_number, value))


def _is_array(value: Any) -> bool:
    return type(value) is list and all(
        _is_array(each) if type(each) is list else each is None or _is_number(each)
        for each in value
    )


def _is_coordinate(value: Any) -> bool:
    return type(value) is str or _is_number(value)


def _is_place(value: Any) -> bool:
    if type(value) is not dict:
        return False
    for each in value.values():  # noqa: SIM110 (a loop takes half the time of `all`)
        if not _is_coordinate(each):
            return False
    return True


def _are_axes(value: Any) -> bool:
    return type(value) is dict and all(
        _is_name(name) and type(places) is list and all(map(_is_coordinate, places))
        for name, places in value.items()
    )


def _is_stamp(value: Any) -> bool:
    return type(value) is dict and all(map(_is_name, value.values()))


def _are_stamps(value: Any) -> bool:
    return type(value) is dict and all(map(_is_stamp, value.values()))


def _are_items(value: Any) -> bool:
    return type(value) is dict and all(
        type(each) is list and _are_numbers(each) for each in value.values()
    )


def _are_numbers(values: list[Any]) -> bool:
    """Finite or null, in few steps: a record has thousands of items."""
    kinds = set(map(type, values))
    if kinds <= {int, NoneType}:
        return all(abs(value) < _LARGEST for value in {*values} - {None})
    return all(value is None or _is_number(value) for value in values)


def _is_words(value: Any) -> bool:
    return type(value) is dict and all(type(word) is str for word in value.values())


def _is_object(value: Any) -> bool:
    return type(value) is dict


def _is_list(value: Any) -> bool:
    return type(value) is list


def _is_attempts(value: Any) -> bool:
    return type(value) is list and all(
        _is_object(each)
        and each.keys() == _ATTEMPT.keys()
        and all(fits(each[name]) for name, fits in _ATTEMPT.items())
        for each in value
    )


def _are_objects(value: Any) -> bool:
    return type(value) is dict and all(map(_is_object, value.values()))


def _maybe(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _is_shaped(array: Any, shape: list[int]) -> bool:
    """Whether an array has a level for each axis, and in it an entry for each place."""
    if not shape:
        return type(array) is not list
    return (
        type(array) is list
        and len(array) == shape[0]
        and all(_is_shaped(each, shape[1:]) for each in array)
    )


_WORD: Test = "words", _is_name
_TIMES: Test = "a list of finite numbers, one or more", _is_times
_OBJECT: Test = "an object", _is_object

_ATTEMPT = {
    "status": _is_name,
    "reason": lambda value: type(value) is str,
    "seconds": _maybe(_is_duration),
}
_HEAD: dict[str, Test] = {
    "schema": ("a number", _is_count),
    "trial": (
        "a trial's id",
        lambda value: type(value) is str and TRIAL.fullmatch(value) is not None,
    ),
    "status": (
        f"one of {', '.join(STATUSES)}",
        lambda value: type(value) is str and value in STATUSES,
    ),
    "config": _OBJECT,
    "reason": ("words or null", _maybe(lambda value: type(value) is str)),
    "trained": ("true or false", lambda value: type(value) is bool),
    "attempts": ("a count from 1", lambda value: _is_count(value) and value > 0),
    "parameters": ("a count or null", _maybe(_is_count)),
    "flops_per_token": ("a finite number or null", _maybe(_is_number)),
    "env": _OBJECT,
    "data": _OBJECT,
    "measures": ("the files that took each, with their digests", _are_stamps),
    "failures": ("words by what failed", _is_words),
    "items": ("lists of finite numbers by metric", _are_items),
    "examples": ("a list", _is_list),
}
_ENV: dict[str, Test] = {
    "code": ("files with their digests, or null", _maybe(_is_stamp)),
    "seconds": ("a duration or null", _maybe(_is_duration)),
    "earlier": ("a list of attempts, each with a status, a reason and seconds", _is_attempts),
    "sessions": ("objects by name", _are_objects),
}
_READING: dict[str, Test] = {
    "measure": _WORD,
    "metric": _WORD,
    "unit": _WORD,
    "value": ("a finite number or null", _maybe(_is_number)),
    "split": _WORD,
    "at": ("words or finite numbers by name", _is_place),
    "session": _WORD,
    "against": _WORD,
    "samples": _TIMES,
    "reference": _TIMES,
    "twin": _TIMES,
    "axes": ("words or finite numbers by name of the axis", _are_axes),
    "values": ("nested lists of finite numbers", _is_array),
    "reason": _WORD,
}
_NEEDED = ("measure", "metric", "unit")
_NAMES = frozenset(name for name, test in _READING.items() if test is _WORD)
_BY_BLOCK = {"samples", "reference", "twin"}
_INSTEAD = {"samples", "values", "reason"}  # of which one stands where there is no value
