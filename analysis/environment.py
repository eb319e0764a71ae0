"""Where the trials ran: machines and code versions, kept apart.

Only named fields are taken from a record's environment, so nothing else can reach a page.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ablations.store.record import Record
from analysis.names import printable

MACHINE = ("machine", "host", "platform", "cpu", "device", "python", "torch", "threads")
CODE = ("commit", "dirty")


def machine(record: Record, session: str | None = None) -> str:
    """What the speed of a trial depends on, in one line: where it was timed, or else trained."""
    sessions = record.env.get("sessions")
    timed = sessions.get(session_of(session)) if isinstance(sessions, dict) else None
    return _line(timed if isinstance(timed, dict) else record.env, MACHINE)


def is_noisy(record: Record, session: str | None) -> bool:
    """Whether others were at work on the machine while it was timed."""
    sessions = record.env.get("sessions")
    held = sessions.get(session) if isinstance(sessions, dict) else None
    return bool(isinstance(held, dict) and held.get("noisy"))


def session_of(named: str | None) -> str | None:
    """The session of a reading, without its process: `1f2e3d4c.0` belongs to `1f2e3d4c`."""
    return named.partition(".")[0] if isinstance(named, str) else None


def code(record: Record) -> str:
    """Which version of the code made the numbers, in one line."""
    return _line(record.env, CODE)


def machines(records: dict[str, Record]) -> list[tuple[str, int]]:
    """Each machine with how many trials it ran."""
    return sorted(Counter(machine(record) for record in records.values()).items())


def versions(records: dict[str, Record]) -> list[tuple[str, int]]:
    """Each version of the code with how many trials it made."""
    return sorted(Counter(code(record) for record in records.values()).items())


def _line(env: dict[str, Any], names: tuple[str, ...]) -> str:
    known = [f"{name} {_word(env[name])}" for name in names if env.get(name) is not None]
    return ", ".join(known) or "not recorded"


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(printable(str(value)))[:120]
