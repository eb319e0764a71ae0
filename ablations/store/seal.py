"""A record or a plan as its file holds it: JSON whose first line vouches for all the others.

A record has a field a line, a reading a line, the readings last. Since the first line carries the
sha256 of its schema number and the bytes after it, damage is noticed without taking them apart, and
what stands before the readings can be read alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ablations.store.schema import SCHEMA, RecordError, check_readings, check_schema

_STRICT = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
_FIRST = re.compile(rb'\{"schema": (\d{1,9}), "sha256": "([0-9a-f]{64})",\n')
_READINGS = b',\n"readings": ['
_AGAINST = b'"against": '


def seal(plain: dict[str, Any]) -> bytes:
    """The bytes of a record's file; RecordError for what strict JSON cannot say."""
    fields = [
        b"%b: %b" % (_json(name), _json(value))
        for name, value in plain.items()
        if name not in ("schema", "readings")
    ]
    readings = b",\n".join(_json(reading) for reading in plain["readings"])
    return vouched(plain["schema"], b",\n".join(fields) + _READINGS + b"\n%b\n]}\n" % readings)


def vouched(schema: int, rest: bytes) -> bytes:
    """What follows the first line of a record, behind that line."""
    return b'{"schema": %d, "sha256": "%b",\n' % (schema, _digest(schema, rest)) + rest


def _digest(schema: int, rest: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(b"%d\n" % schema)
    digest.update(rest)
    return digest.hexdigest().encode()


def seal_whole(plain: dict[str, Any]) -> bytes:
    """The bytes of a file that is always read whole, such as a plan: an entry a line."""
    text = json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False)
    rest = text.partition("\n")[2].encode("utf-8", "backslashreplace") + b"\n"
    return vouched(SCHEMA, rest)


def unseal(data: bytes) -> Any:
    """What was sealed in these bytes, if they are what was written; RecordError if not."""
    _check(data)
    return _parse(data)


def unseal_head(data: bytes) -> tuple[Any, list[Any]]:
    """The record without its readings, and those of them that were taken beside another trial."""
    _check(data)
    head, found, readings = data.partition(_READINGS)
    if not found:
        raise RecordError("'readings' is missing")
    maybe = [_parse(line) for line in _lines(readings, _AGAINST)]  # or the word stands elsewhere
    check_readings(maybe)
    return _parse(head + b"}"), [reading for reading in maybe if "against" in reading]


def unseal_metric(data: bytes, metric: str) -> list[Any]:
    """The readings of one metric; the others are checked and not taken apart."""
    _check(data)
    word = b'"metric": %b' % _json(metric)
    maybe = [_parse(line) for line in _lines(data.partition(_READINGS)[2], word)]
    check_readings(maybe)
    return [reading for reading in maybe if reading["metric"] == metric]


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
    schema, rest = int(first[1]), memoryview(data)[first.end() :]
    if _digest(SCHEMA, rest) == first[2]:
        if schema != SCHEMA:  # no other version, but a flipped bit in the number
            raise RecordError("damaged: its schema number is not what was written")
        return
    if schema > SCHEMA or _digest(schema, rest) == first[2]:
        check_schema({"schema": schema})
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
    try:
        return _STRICT(plain).encode("utf-8", "backslashreplace")
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"not to be said in strict JSON ({error})") from None


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not strict JSON")
