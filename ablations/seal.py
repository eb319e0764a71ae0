"""A record as its file holds it: JSON whose first line vouches for all the others.

A field a line, a reading a line, the readings last. Since the first line carries the sha256 of the
bytes after it, damage is noticed without taking them apart, and what stands before the readings can
be read alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ablations.schema import RecordError, check_schema

_STRICT = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
_FIRST = re.compile(rb'\{"schema": (\d{1,9}), "sha256": "([0-9a-f]{64})",\n')
_READINGS = b',\n"readings": ['
_AGAINST = b'"against": '


def seal(plain: dict[str, Any]) -> bytes:
    """The bytes of a record's file; ValueError for what strict JSON cannot say."""
    fields = [
        b"%b: %b" % (_json(name), _json(value))
        for name, value in plain.items()
        if name not in ("schema", "readings")
    ]
    readings = b",\n".join(_json(reading) for reading in plain["readings"])
    rest = b",\n".join(fields) + _READINGS + b"\n%b\n]}\n" % readings
    digest = hashlib.sha256(rest).hexdigest().encode()
    return b'{"schema": %d, "sha256": "%b",\n' % (plain["schema"], digest) + rest


def unseal(data: bytes) -> Any:
    """The record in these bytes, if they are what was written; RecordError if not."""
    _check(data)
    return _parse(data)


def unseal_head(data: bytes) -> tuple[Any, set[tuple[str, str]]]:
    """The record without its readings, and what they timed beside which trial."""
    _check(data)
    head, found, readings = data.partition(_READINGS)
    if not found:
        raise RecordError("'readings' is missing")
    timed = [_parse(line) for line in _lines(readings, _AGAINST)]
    return _parse(head + b"}"), {(reading["metric"], reading["against"]) for reading in timed}


def _lines(readings: bytes, word: bytes) -> Iterator[bytes]:
    """The few lines that hold the word, without cutting up all of them."""
    found = readings.find(word)
    while found >= 0:
        end = readings.find(b"\n", found)
        yield readings[readings.rfind(b"\n", 0, found) : end].rstrip(b",")
        found = readings.find(word, end)


def _check(data: bytes) -> None:
    first = _FIRST.match(data)
    if first is None:
        check_schema(_parse(data))  # says what it is, if it is not a record at all
        raise RecordError("damaged: it does not begin as a record does")
    check_schema({"schema": int(first[1])})
    if hashlib.sha256(memoryview(data)[first.end() :]).hexdigest() != first[2].decode():
        raise RecordError("damaged: it is not what was written")


def _parse(data: bytes) -> Any:
    try:
        plain = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise RecordError("not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not readable as JSON ({error})") from None
    if isinstance(plain, dict):
        plain.pop("sha256", None)
    return plain


def _json(plain: Any) -> bytes:
    """Half a character pair, as in the name of a file that is not UTF-8, stays an escape."""
    return _STRICT(plain).encode("utf-8", "backslashreplace")


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not strict JSON")
