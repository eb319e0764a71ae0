"""The file of a record or of a plan: strict JSON whose first line has a SHA-256 of the rest.

The digest covers the schema number, so a flipped bit makes no record of another version.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

SCHEMA = 4
FAILED = ("oom", "error", "timeout", "killed")
STATUSES = ("ok", "diverged", "stuck", *FAILED)
TRIAL = re.compile(r"[A-Za-z0-9_-]{1,100}")  # a label that is also a safe name for a file
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

T = TypeVar("T")
_FIRST = re.compile(rb'\{"schema": (\d{1,9}), "sha256": "([0-9a-f]{64})",\n')
_BY_ROW = ("measurements", "experiments")  # fields with a line for each item
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


class RecordError(ValueError):
    """A file in a results folder that cannot be used, with the reason in one line."""


class NewerRecordError(RecordError):
    """Written by a later version of this code: to be left alone."""


def encode(plain: dict[str, Any]) -> bytes:
    """The bytes of a file: a field a line; RecordError for what strict JSON cannot say.

    Half a surrogate pair, as in a file name that is not UTF-8, becomes a question mark.
    """
    try:
        fields = [
            f"{_encode(name)}: {_rows(name, value)}"
            for name, value in plain.items()
            if name != "schema"
        ]
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"strict JSON cannot say this ({error})") from None
    schema = plain.get("schema", SCHEMA)
    return with_checksum(schema, (",\n".join(fields) + "}\n").encode("utf-8", "replace"))


def _rows(name: str, value: Any) -> str:
    if name not in _BY_ROW:
        return _encode(value)
    if isinstance(value, dict):
        rows = ",\n".join(f"{_encode(key)}: {_encode(each)}" for key, each in value.items())
        return f"{{\n{rows}\n}}"
    return "[\n" + ",\n".join(map(_encode, value)) + "\n]"


def with_checksum(schema: int, rest: bytes) -> bytes:
    """The first line of a file, and the rest behind it."""
    return b'{"schema": %d, "sha256": "%b",\n' % (schema, _digest(schema, rest)) + rest


def _digest(schema: int, rest: bytes) -> bytes:
    return hashlib.sha256(b"%d\n" % schema + rest).hexdigest().encode()


def decode(data: bytes, kind: TypeAdapter[T]) -> T:
    """The object in these bytes; RecordError names the problem in one line."""
    return parse(_checked(data), kind)


def parse(data: bytes, kind: TypeAdapter[T]) -> T:
    """An object of this kind from JSON."""
    try:
        if b"NaN" in data or b"Infinity" in data:  # maybe only as words: this parser tells
            _read_json(data)
        return kind.validate_json(data)
    except ValidationError as error:
        raise RecordError(_problem(error.errors(include_url=False)[0])) from None


def _read_json(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError:
        raise RecordError("not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not readable as JSON ({error})") from None


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not strict JSON")


def _problem(error: ErrorDetails) -> str:
    where = ""
    for part in error["loc"]:
        name = f"[{part}]" if isinstance(part, int) else f".{part[:40]}"
        where += name if where else name[1:]
    words = error["msg"].removeprefix("Value error, ")
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        words = "unknown field"
    elif error["type"] in ("missing", "missing_argument"):
        words = "missing"
    elif error["type"] not in ("value_error", "json_invalid"):
        got = repr(error["input"])
        words += f", got {got[:40] + '…' * (len(got) > 40)}"
    return f"{where!r}: {words}" if where else words


def _checked(data: bytes) -> bytes:
    """The JSON object of a file, if its first line has the right checksum."""
    first = _FIRST.match(data)
    if first is None:
        check_schema(_read_json(data))  # its error is clearer if this is no record at all
        raise RecordError("damaged: it does not begin as a record does")
    schema, rest = int(first[1]), data[first.end() :]
    if _digest(SCHEMA, rest) == first[2]:
        if schema != SCHEMA:  # no other version, but a flipped bit in the number
            raise RecordError("damaged: its schema number is not what was written")
        return b"{" + rest
    if schema > SCHEMA or _digest(schema, rest) == first[2]:
        check_schema({"schema": schema})
    raise RecordError("damaged: it is not what was written")


def check_schema(plain: Any) -> None:
    """Refuse what is no record, and a record of another version."""
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if type(schema) is not int or schema < 1:
        raise RecordError("not a record: expected a JSON object with a schema number")
    if schema < SCHEMA:
        raise RecordError(f"written by an earlier version (schema {schema}, this one has {SCHEMA})")
    if schema > SCHEMA:
        raise NewerRecordError(
            f"written by a newer version (schema {str(schema)[:12]}, this one reads {SCHEMA}): "
            "update the code or use another results folder"
        )
