"""In what two folders differ besides luck, so that a difference may be due to that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ablations.store.record import Record
from analysis.load import Loaded
from analysis.lookup import lookup
from analysis.names import cell_name, printable

DATA, SETTINGS, CODE, NUMERICS, METRIC = "data", "settings", "code", "numerics", "metric"
KINDS = (METRIC, DATA, SETTINGS, CODE, NUMERICS)
HOPELESS = (METRIC, DATA)
"""Scores of other data or in another metric are no two sides of one thing: nothing is tested."""
SHOWN = 4  # details of a warning; the rest is counted


@dataclass(frozen=True)
class Unlike:
    """One thing that the two sides of an arm do not share."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Caution:
    """One such thing with all the arms that it concerns."""

    kind: str
    detail: str
    arms: list[str]


def unlike(a: Loaded, b: Loaded, table: str, label: str, across: str) -> list[Unlike]:
    """In what the two sides of an arm differ: each kind once, in the order of its weight."""
    metrics = [loaded.ablations[table]["metric"] for loaded in (a, b)]
    ones, others = (_records(loaded, table, label, across) for loaded in (a, b))
    found = []
    if any(metrics[0][name] != metrics[1][name] for name in ("name", "split", "unit", "better")):
        found.append(Unlike(METRIC, f"{metrics[0]['name']} against {metrics[1]['name']}"))
    if not ones or not others:
        return found
    one, other = ones[0], others[0]
    if one.data.get("sha256") != other.data.get("sha256"):
        found.append(Unlike(DATA, f"{_digest(one)} against {_digest(other)}"))
    changed = _changed_settings(one, other)
    if changed:
        found.append(Unlike(SETTINGS, _some(changed)))
    files = sorted({file for pair in _seeds_shared(ones, others) for file in _changed_files(*pair)})
    if files:
        found.append(Unlike(CODE, _some(files)))
    numerics = [sorted({_numerics(record) for record in side}) for side in (ones, others)]
    if numerics[0] != numerics[1]:
        found.append(Unlike(NUMERICS, " against ".join("; ".join(side) for side in numerics)))
    return found


def cautions(a: Loaded, b: Loaded, tables: list[str]) -> list[Caution]:
    """All that is unlike, with the arms that it concerns."""
    found: dict[Unlike, list[str]] = {}
    held = lookup(b).trials
    for table, label, across in lookup(a).trials:
        if table in tables and (table, label, across) in held:
            for each in unlike(a, b, table, label, across):
                found.setdefault(each, []).append(f"{table}: {cell_name(label, across)}")
    ordered = sorted(found.items(), key=lambda item: KINDS.index(item[0].kind))
    return [Caution(each.kind, each.detail, arms) for each, arms in ordered]


def _records(loaded: Loaded, table: str, label: str, across: str) -> list[Record]:
    trials = lookup(loaded).trials.get((table, label, across), {})
    return [loaded.records[trial] for trial in trials.values() if trial in loaded.records]


def _seeds_shared(ones: list[Record], others: list[Record]) -> list[tuple[Record, Record]]:
    """Pairs to compare: seed by seed, or the first of each where they share none."""
    by_seed = {record.config.get("seed"): record for record in others}
    pairs = [(one, by_seed[s]) for one in ones if (s := one.config.get("seed")) in by_seed]
    return pairs or [(ones[0], others[0])]


def _changed_settings(one: Record, other: Record) -> list[str]:
    """`train.steps 600 → 300`, of what decides a trial's numbers."""
    if one.settings is not None and one.settings == other.settings:
        return []
    flat, there = (_flat({**record.config, "seed": None}) for record in (one, other))
    files = {f"task.{name}" for record in (one, other) for name in record.data.get("files", ())}
    paths = [p for p in {**flat, **there} if flat.get(p) != there.get(p) and p not in files]
    return [f"{path} {flat.get(path, 'unset')} → {there.get(path, 'unset')}" for path in paths]


def _flat(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in config.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, dict):
            found |= _flat(value, path)
        else:
            found[path] = str(printable(str(value)))[:60]
    return found


def _changed_files(one: Record, other: Record) -> list[str]:
    """Source files that both sides name with another content: of training, and of measures."""
    ours, theirs = ([record.env.get("code") or {}] for record in (one, other))
    for measure in one.measures.keys() & other.measures.keys():
        ours.append(one.measures[measure])
        theirs.append(other.measures[measure])
    return [
        str(printable(file))
        for mine, its in zip(ours, theirs, strict=True)
        for file in mine
        if file in its and mine[file] != its[file]
    ]


def _digest(record: Record) -> str:
    return str(printable(str(record.data.get("sha256", "not recorded"))))[:12]


def _numerics(record: Record) -> str:
    return str(printable(str(record.env.get("numerics", "not recorded"))))[:120]


def _some(words: list[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more
