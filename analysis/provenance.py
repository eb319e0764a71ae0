"""Machines, versions of the code, data, dates and failures behind the numbers.

Only named fields are taken from a record's environment, so nothing else can reach a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from ablations.store.record import Record
from analysis.load import FINE, WAITING, session_of
from analysis.wording import printable, short, variant_name

MACHINE = ("machine", "host", "platform", "cpu", "device", "python", "torch", "threads")
CODE = ("commit", "dirty")
LONGEST = 200  # characters of a field


def machine(record: Record, session: str | None = None) -> str:
    """The machine that timed a trial, or else the one that trained it, in one line."""
    return _line(_session(record, session) or record.env, MACHINE)


def is_noisy(record: Record, session: str | None) -> bool:
    """Whether other programs used the machine during timing."""
    return bool(_session(record, session).get("noisy"))


def _session(record: Record, session: str | None) -> dict[str, Any]:
    sessions = record.env.get("sessions") or {}
    return sessions.get(session_of(session)) or {}


def code(record: Record) -> str:
    """The version of the code that made a record, in one line."""
    return _line(record.env, CODE)


def counted(records: Iterable[Record], line: Callable[[Record], str]) -> list[tuple[str, int]]:
    """Each distinct line, such as a machine, with its number of trials."""
    return sorted(Counter(map(line, records)).items())


def data(records: Iterable[Record]) -> list[dict[str, str]]:
    """Each set of data once: its task, source, licence, size and digest."""
    found: Counter[tuple[tuple[str, str], ...]] = Counter()
    for record in records:
        held = record.data
        size = held.get("size")
        facts = {
            "task": _text(held.get("task") or record.config.get("task", {}).get("name")),
            "source": _text(held.get("source")),
            "licence": _text(held.get("licence")),
            "examples": ", ".join(f"{_text(k)} {_text(v)}" for k, v in size.items())
            if isinstance(size, dict)
            else "",
            "sha256": _text(held.get("sha256"))[:12],
        }
        found[tuple(facts.items())] += 1
    return [{**dict(facts), "trials": str(n)} for facts, n in sorted(found.items())]


def dates(records: Iterable[Record]) -> tuple[str, str] | None:
    """When the first and the last trial started, to the minute."""
    known = [record.env["started"] for record in records if record.env.get("started")]
    started = sorted(_text(each)[:16].replace("T", " ") for each in known)
    return (started[0], started[-1]) if started else None


def failures(trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Every failed trial once, with the last line of its reason."""
    bad = trials[~trials["outcome"].isin([FINE, WAITING])]
    where = bad.groupby("trial", sort=False)["experiment"].unique().map(list).to_dict()
    found = []
    for row in bad.drop_duplicates("trial").to_dict("records"):
        reason = row["reason"] if isinstance(row["reason"], str) else ""
        last = reason.strip().rpartition("\n")[2].strip()
        found.append(
            {
                "where": where[row["trial"]],
                "variant": short(variant_name(row["variant"], row["factors"])),
                **{key: row[key] for key in ("seed", "trial", "outcome")},
                "reason": last[:300] or "no reason recorded",
            }
        )
    return found


def _line(env: dict[str, Any], names: tuple[str, ...]) -> str:
    words = {True: "yes", False: "no"}
    known = [(name, env[name]) for name in names if env.get(name) is not None]
    found = [f"{name} {words[v] if isinstance(v, bool) else _text(v)}" for name, v in known]
    return ", ".join(found) or "not recorded"


def _text(value: Any) -> str:
    return "" if value is None else short(str(printable(str(value))), LONGEST)
