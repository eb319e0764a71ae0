"""Two results folders side by side: what changed beyond noise, and what cannot be compared.

A difference is B − A.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from scipy import stats

from ablations.store.record import Record
from analysis import environment
from analysis.arms import arms
from analysis.claims import claims
from analysis.evidence import Evidence
from analysis.load import WAITING, Loaded
from analysis.names import cell_name, printable, short
from analysis.sentences import bounds, number
from analysis.speed import SAME
from analysis.tables import times
from analysis.units import after_number

IDENTICAL, INCOMPARABLE, ONE_SIDED, NOT_RUN = (
    "identical",
    "not comparable",
    "one side only",
    "not run",
)
TIE, NOT_RESOLVED, FEW = "tie", "not resolved", "few seeds"
CHANGED = ("better", "worse", "differs", "faster", "slower")
LEAST, LEVEL = 3, 0.95  # values for an interval; of the interval
MOST = 20  # lines of one kind in the terminal; --json has all of them
ARM, PLACE = ["ablation", "label", "across"], ["ablation", "label", "across", "metric", "at"]
Row = dict[str, Any]


def compare(a: Evidence, b: Evidence) -> Row:
    """All that two folders have in common, and what one of them lacks, as strict JSON."""
    both = [name for name in a.loaded.ablations if name in b.loaded.ablations]
    if not both:
        raise ValueError("the two folders have no question in common")
    merged = _scores(a.loaded, both).merge(
        _scores(b.loaded, both), how="outer", on=[*ARM, "seed"], suffixes=("_a", "_b"), sort=False
    )
    found: list[Row] = []
    only: dict[str, list[str]] = {"a": [], "b": []}
    for place, rows in merged.groupby(ARM, sort=False):
        sides = [rows[f"trial_{side}"].notna().any() for side in "ab"]
        if all(sides):
            found.append(_arm(a.loaded, b.loaded, dict(zip(ARM, place, strict=True)), rows))
        else:
            name, label, across = place
            only["a" if sides[0] else "b"].append(f"{name}: {cell_name(label, across)}")
    document: Row = {
        **{side: _side(each) for side, each in (("a", a), ("b", b))},
        "questions": both,
        "arms": found,
        "times": _times(a, b, both),
        "claims": _claims(a, b),
        "only_a": {"questions": _lacking(a, b), "arms": only["a"]},
        "only_b": {"questions": _lacking(b, a), "arms": only["b"]},
    }
    return _strict(document)


def _strict(value: Any) -> Any:
    """What strict JSON can say: a number that is not finite is null."""
    if isinstance(value, dict):
        return {name: _strict(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _side(evidence: Evidence) -> Row:
    loaded = evidence.loaded
    done, planned = loaded.done()
    lines = {"code": environment.code, "machines": environment.machine}
    return {
        "path": str(loaded.root),
        "profile": loaded.plan["profile"],
        "done": done,
        "planned": planned,
        "stale": len(loaded.stale),
        **{
            name: [f"{text} ({n} trials)" for text, n in environment.counted(loaded.records, line)]
            for name, line in lines.items()
        },
    }


def _lacking(here: Evidence, there: Evidence) -> list[str]:
    return [name for name in here.loaded.ablations if name not in there.loaded.ablations]


# --- scores


def _scores(loaded: Loaded, tables: Sequence[str]) -> pd.DataFrame:
    rows = [
        (table, arm.label, arm.across, seed, outcome, arm.scores.get(seed, math.nan))
        for table in tables
        for arm in arms(loaded, table)
        for seed, outcome in arm.outcomes.items()
    ]
    found = pd.DataFrame(rows, columns=[*ARM, "seed", "outcome", "score"])
    return found.merge(loaded.cells[[*ARM, "seed", "trial"]], how="left", on=[*ARM, "seed"])


def _arm(a: Loaded, b: Loaded, place: Row, rows: pd.DataFrame) -> Row:
    """One arm on both sides: paired where both have scores of the same seeds, else unpaired."""
    metric = b.ablations[place["ablation"]]["metric"]
    unlike = _unlike(a, b, place, rows)
    ones, others = rows["score_a"].dropna(), rows["score_b"].dropna()
    shared = rows.dropna(subset=["score_a", "score_b"])
    paired = len(shared) >= LEAST
    word, n = "", len(shared) if paired else min(len(ones), len(others))
    difference = low = high = math.nan
    if ones.empty or others.empty:
        word = NOT_RUN if ones.empty and others.empty else ONE_SIDED
    elif {"data", "metric"} & unlike.keys():
        word = INCOMPARABLE
    elif len(shared) and (shared["score_a"] == shared["score_b"]).all():
        word, n, difference = IDENTICAL, len(shared), 0.0
    elif metric.get("repeats") == "nothing":  # counted: no spread to test it by
        word, difference = "differs", float(others.mean() - ones.mean())
    else:
        change = shared["score_b"] - shared["score_a"]
        difference, low, high = _paired(change) if paired else _unpaired(others, ones)
        word = _word(difference, low, high, metric)
    return {
        **place,
        "metric": metric["name"],
        "unit": metric.get("unit") or "",
        **{"a": float(ones.mean()), "b": float(others.mean())},
        **{"n_a": len(ones), "n_b": len(others), "n": n, "paired": paired},
        **{f"failures_{side}": _failures(rows[f"outcome_{side}"]) for side in "ab"},
        **{"difference": difference, "low": low, "high": high, "word": word, "unlike": unlike},
    }


def _paired(change: pd.Series) -> tuple[float, float, float]:
    """Mean and t-interval of paired differences."""
    return _ends(float(change.mean()), float(change.sem()), len(change) - 1)


def _unpaired(others: pd.Series, ones: pd.Series) -> tuple[float, float, float]:
    """Difference of means and Welch's interval."""
    difference = float(others.mean() - ones.mean())
    if min(len(ones), len(others)) < LEAST:
        return difference, math.nan, math.nan
    errors = [(float(side.sem()), len(side) - 1) for side in (ones, others)]
    return _ends(difference, *_welch(errors))


def _welch(errors: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Joint standard error and degrees of freedom, from those of both sides."""
    squares = [error**2 for error, _ in errors]
    spread = sum(square**2 / df for square, (_, df) in zip(squares, errors, strict=True))
    return math.sqrt(sum(squares)), sum(squares) ** 2 / spread if spread else 1.0


def _ends(value: float, error: float, df: float) -> tuple[float, float, float]:
    half = float(stats.t.ppf((1 + LEVEL) / 2, df)) * error
    return value, value - half, value + half


def _word(difference: float, low: float, high: float, metric: Row) -> str:
    if math.isnan(low):
        return FEW
    if low > 0 or high < 0:
        return "better" if (difference < 0) == (metric["better"] == "lower") else "worse"
    matters = metric.get("matters")
    return TIE if matters and -matters < low and high < matters else NOT_RESOLVED


def _failures(outcomes: pd.Series) -> str:
    """`1 of 4 diverged`, or nothing."""
    ended = outcomes.dropna()
    counts = Counter(ended[~ended.isin(["ok", WAITING])])
    return ", ".join(f"{n} of {len(ended)} {kind}" for kind, n in counts.items())


# --- what the two sides do not share


def _unlike(a: Loaded, b: Loaded, place: Row, rows: pd.DataFrame) -> dict[str, str]:
    """Kind → detail of what differs besides luck: metric, data, settings, torch, code."""
    one, other = (loaded.ablations[place["ablation"]]["metric"] for loaded in (a, b))
    found = {}
    if any(one.get(key) != other.get(key) for key in ("name", "split", "unit", "better")):
        found["metric"] = f"{one['name']} against {other['name']}"
    sides = [
        {seed: loaded.records[trial] for seed, trial in pairs if trial in loaded.records}
        for loaded, pairs in (
            (a, zip(rows["seed"], rows["trial_a"], strict=True)),
            (b, zip(rows["seed"], rows["trial_b"], strict=True)),
        )
    ]
    if not all(sides):
        return found
    seeds = [seed for seed in sides[0] if seed in sides[1]]
    facts = [_facts(side[seeds[0]] if seeds else next(iter(side.values()))) for side in sides]
    for kind in facts[0]:
        if facts[0][kind] != facts[1][kind]:
            found[kind] = _some(_changes(*(fact[kind] for fact in facts)))
    return found


def _facts(record: Record) -> dict[str, dict[str, str]]:
    """What decides a record's numbers besides its seed, by kind."""
    code = [record.env.get("code") or {}, *record.measures.values()]
    torch = {"": record.env.get("numerics") or record.env.get("torch")}
    return {
        "data": {"": str(record.data.get("sha256"))[:12]},
        "settings": _flat({**record.config, "seed": None}),
        "torch": _flat(torch),
        "code": {file: digest for files in code for file, digest in files.items()},
    }


def _changes(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """`train.steps 600 → 300`; of code only the file."""
    changed = sorted(name for name in {**one, **other} if one.get(name) != other.get(name))
    return [
        str(printable(name))
        if name.endswith(".py")
        else str(printable(f"{name} {one.get(name, 'unset')} → {other.get(name, 'unset')}")).strip()
        for name in changed
    ]


def _flat(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in config.items():
        path = f"{above}.{name}" if above else str(name)
        found |= _flat(value, path) if isinstance(value, dict) else {path: str(value)[:60]}
    return found


def _some(words: Sequence[str], most: int = 4) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


# --- times


def _times(a: Evidence, b: Evidence, tables: Sequence[str]) -> list[Row]:
    """Ratios to the control's time that both sides have; times of other machines are not tested."""
    sides = [
        each.speeds[(each.speeds["verdict"] != SAME) & (each.speeds["n"] > 0)].drop_duplicates(
            PLACE
        )
        for each in (a, b)
    ]
    merged = sides[0].merge(sides[1], on=PLACE, suffixes=("_a", "_b"))
    return [
        {
            **{name: row[name] for name in PLACE},
            **{"a": row["ratio_a"], "b": row["ratio_b"], "n": min(row["n_a"], row["n_b"])},
            **{"machine_a": row["machine_a"], "machine_b": row["machine_b"]},
            **dict(zip(("change", "low", "high", "word"), _time_change(row), strict=True)),
        }
        for row in merged[merged["ablation"].isin(tables)].to_dict("records")
    ]


def _time_change(row: Row) -> tuple[float, float, float, str]:
    """B's ratio over A's, from their log intervals, which hold the noise of both sessions."""
    change = row["ratio_b"] / row["ratio_a"]
    if row["machine_a"] != row["machine_b"]:
        return change, math.nan, math.nan, INCOMPARABLE
    if min(row["n_a"], row["n_b"]) < LEAST:
        return change, math.nan, math.nan, FEW
    if row["session_a"] == row["session_b"] and row["ratio_a"] == row["ratio_b"]:
        return 1.0, math.nan, math.nan, IDENTICAL
    errors = []
    for side in "ab":
        df = row[f"n_{side}"] - 1
        half = math.log(row[f"high_{side}"] / row[f"low_{side}"]) / 2
        errors.append((half / float(stats.t.ppf((1 + LEVEL) / 2, df)), df))
    _, low, high = _ends(math.log(change), *_welch(errors))
    word = NOT_RESOLVED if low <= 0 <= high else "slower" if low > 0 else "faster"
    return change, math.exp(low), math.exp(high), word


# --- claims


def _claims(a: Evidence, b: Evidence) -> list[Row]:
    """The verdicts of claims that both register; one that a side has not run has not changed."""
    others = {(claim["scope"]["question"], claim["id"]): claim for claim in claims(b)}
    found = []
    for claim in claims(a):
        key = (claim["scope"]["question"], claim["id"])
        if key in others:
            words = [claim["verdict"], others[key]["verdict"]]
            changed = words[0] != words[1] and NOT_RUN not in words
            pair = {"verdict_a": words[0], "verdict_b": words[1], "changed": changed}
            found.append({"question": key[0], "id": key[1], **pair})
    return found


# --- the terminal


def lines(document: Row) -> list[str]:
    """The comparison for the terminal: what differs besides luck, what changed, what is missing."""
    found = []
    for side in "ab":
        held = document[side]
        stale = f", {held['stale']} stale" if held["stale"] else ""
        found.append(
            f"{side.upper()}  {held['path']}: profile {held['profile']}, {held['done']} of "
            f"{held['planned']} trials done{stale}"
        )
        found += [f"   {line}" for line in (*held["code"], *held["machines"])]
    found += _warnings(document)
    for kind, rows, line in (
        ("arm", document["arms"], _arm_line),
        ("time", document["times"], _time_line),
    ):
        if rows:
            words = Counter(row["word"] for row in rows)
            counts = ", ".join(f"{n} {word}" for word, n in words.most_common())
            found.append(f"{_count(rows, kind)}: {counts}")
            found += _capped([line(row) for row in rows if row["word"] in CHANGED])
    found += _capped(
        [
            f"  ended otherwise: {_name(row)}: {row['failures_a'] or 'no failure'} → "
            f"{row['failures_b'] or 'no failure'}"
            for row in document["arms"]
            if row["failures_a"] != row["failures_b"] and row["word"] not in (ONE_SIDED, NOT_RUN)
        ]
    )
    changed = [claim for claim in document["claims"] if claim["changed"]]
    if document["claims"]:
        found.append(f"{_count(document['claims'], 'claim')}: {len(changed)} with another verdict")
    found += _capped(
        [f"  {c['id']} ({c['question']}): {c['verdict_a']} → {c['verdict_b']}" for c in changed]
    )
    for side in "ab":
        for kind, names in document[f"only_{side}"].items():
            if names:
                found.append(f"Only in {side.upper()}: {kind} {_some([*map(short, names)], MOST)}")
    return found


def _warnings(document: Row) -> list[str]:
    """What is unlike, a line for each kind, with the arms that it concerns."""
    by_kind: dict[str, list[Row]] = {}
    for row in document["arms"]:
        for kind in row["unlike"]:
            by_kind.setdefault(kind, []).append(row)
    found = []
    for kind, rows in by_kind.items():
        not_tested = ", not comparable" if kind in ("data", "metric") else ""
        names = _some([_name(row) for row in rows], 2)
        detail = rows[0]["unlike"][kind]
        found.append(f"Other {kind} in {_count(rows, 'arm')}{not_tested} ({names}): {detail}")
    elsewhere = [row for row in document["times"] if row["word"] == INCOMPARABLE]
    if elsewhere:
        machines = f"{elsewhere[0]['machine_a']} against {elsewhere[0]['machine_b']}"
        found.append(f"Other machine in {_count(elsewhere, 'time')}, not comparable: {machines}")
    return found


def _arm_line(row: Row) -> str:
    low, high = (math.nan if row[end] is None else row[end] for end in ("low", "high"))
    half = (high - low) / 2
    text = (
        f"  {row['word']}: {_name(row)}: {row['metric']} {number(row['a'], half)} → "
        f"{number(row['b'], half)}{after_number(row['unit'])}"
    )
    if math.isnan(low):
        return text
    how = "paired by seed" if row["paired"] else "unpaired"
    because = f"; other {', '.join(row['unlike'])}" if row["unlike"] else ""
    return (
        f"{text}, by {number(row['difference'], half)} (95 % interval {bounds(low, high)}, {how}, "
        f"n = {row['n']}){because}"
    )


def _time_line(row: Row) -> str:
    return (
        f"  {row['word']}: {_name(row)}: {row['metric']} at {row['at']}: {row['a']:.3g} × → "
        f"{row['b']:.3g} ×, by {times(row['change'], row['low'], row['high'])}"
    )


def _name(row: Row) -> str:
    return f"{short(row['ablation'])}: {short(cell_name(row['label'], row['across']))}"


def _count(things: Sequence[Any], word: str) -> str:
    return f"{len(things):,} {word}{'' if len(things) == 1 else 's'}"


def _capped(found: list[str]) -> list[str]:
    more = [f"  and {len(found) - MOST} more: --json has them all"] if len(found) > MOST else []
    return found[:MOST] + more
