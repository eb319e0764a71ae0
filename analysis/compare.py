"""Compare two results folders: what changed beyond noise, and what cannot be compared.

A change is B − A; for times it is B / A.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from ablations.store.record import Record
from analysis import provenance, stats
from analysis.claims import NOT_RUN, claims, strict_json
from analysis.contrasts import Evidence, variant_of, word_of
from analysis.load import Loaded, Row, Variant
from analysis.timing import SAME
from analysis.wording import after_number, bounds, first_few, number, printable, short
from analysis.wording import variant_name as named

IDENTICAL, INCOMPARABLE, ONE_SIDED = "identical", "not comparable", "one side only"
DIFFERS = "differs"  # counts have no spread, so any difference is one
CHANGED = (stats.BETTER, stats.WORSE, DIFFERS, stats.FASTER, stats.SLOWER)
SERIOUS = ("data", "metric", "machine")  # numbers that differ in one of these cannot be compared
MOST = 20  # lines of one kind in the terminal
PLACE = ["experiment", "variant", "factors", "metric", "where"]
NOTHING = (math.nan, math.nan)


def compare(a: Evidence, b: Evidence) -> Row:
    """The comparison of two folders, as strict JSON."""
    both = [name for name in a.loaded.experiments if name in b.loaded.experiments]
    if not both:
        raise ValueError("the two folders have no experiment in common")
    ones, others = (
        {
            variant_of(row): row
            for row in side.variants.to_dict("records")
            if row["experiment"] in both
        }
        for side in (a, b)
    )
    document: Row = {"a": _side(a), "b": _side(b), "experiments": both}
    document["scores"] = [_score(a, b, own, others[k]) for k, own in ones.items() if k in others]
    document["times"] = [row for row in _times(a, b) if row["experiment"] in both]
    document["claims"] = _claims(a, b)
    for side, loaded, keys in (
        ("only_a", a.loaded, ones.keys() - others.keys()),
        ("only_b", b.loaded, others.keys() - ones.keys()),
    ):
        document[side] = {
            "experiments": [name for name in loaded.experiments if name not in both],
            "variants": [f"{name}: {named(*rest)}" for name, *rest in sorted(keys)],
        }
    return dict(strict_json(document))


def _side(evidence: Evidence) -> Row:
    loaded = evidence.loaded
    done, planned = loaded.done()
    found = {"path": str(loaded.root), "profile": loaded.plan["profile"]}
    for name, line in (("code", provenance.code), ("machines", provenance.machine)):
        counts = provenance.counted(loaded.records.values(), line)
        found[name] = [f"{words} ({n} trials)" for words, n in counts]
    return {**found, "done": done, "planned": planned, "stale": len(loaded.stale)}


def _score(a: Evidence, b: Evidence, one: Row, other: Row) -> Row:
    """One variant in both folders: paired if three seeds have scores in both, else unpaired."""
    metric = b.loaded.experiments[one["experiment"]]["metric"]
    unlike = _unlike(a.loaded, b.loaded, variant_of(one))
    ones, others = one["scores"], other["scores"]
    seeds = [seed for seed in ones if seed in others]
    paired = len(seeds) >= stats.LEAST
    n, change, ends = _unpaired([*ones.values()], [*others.values()])
    if paired:
        found = stats.paired_mean([others[s] for s in seeds], [ones[s] for s in seeds])
        n, change, ends = found.n, found.value, found.ends()
    word = ""
    if not ones or not others:
        word = ONE_SIDED if ones or others else NOT_RUN
    elif not unlike.keys().isdisjoint(SERIOUS):
        word = INCOMPARABLE
    elif seeds and all(ones[seed] == others[seed] for seed in seeds):
        word = IDENTICAL
    elif metric.get("repeats") == "nothing":
        word = DIFFERS
    low, high = NOTHING if word else ends
    return {
        **{key: one[key] for key in ("experiment", "variant", "factors")},
        **{"metric": metric["name"], "where": "", "unit": other["unit"] or one["unit"]},
        **{"a": one["mean"], "b": other["mean"], "change": change, "low": low, "high": high},
        **{"n": n, "paired": paired, "unlike": unlike},
        "mark": word or word_of(n, low, high, other["better"], other["matters"]),
        **{"failures_a": one["failures"], "failures_b": other["failures"]},
    }


def _unpaired(a: Sequence[float], b: Sequence[float]) -> tuple[int, float, tuple[float, float]]:
    """The smaller count, the difference of the means, and its interval (Welch 1947)."""
    n = min(len(a), len(b))
    value = float(np.mean(b) - np.mean(a)) if n else math.nan
    if n < stats.LEAST or np.ptp(a) == np.ptp(b) == 0:
        return n, value, NOTHING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one side may have no spread
        ends = scipy_stats.ttest_ind(b, a, equal_var=False).confidence_interval(stats.LEVEL)
    return n, value, (float(ends.low), float(ends.high))


def _unlike(a: Loaded, b: Loaded, key: Variant) -> dict[str, str]:
    """Metric, data, settings, torch or code, if they differ → in which detail."""
    one, other = (loaded.experiments[key[0]]["metric"] for loaded in (a, b))
    found = {}
    if any(one.get(name) != other.get(name) for name in ("name", "split", "unit", "better")):
        found["metric"] = f"{one['name']} against {other['name']}"
    sides = [
        {s: loaded.records[t] for s, t in loaded.ids[key].items() if t in loaded.records}
        for loaded in (a, b)
    ]
    if not all(sides):
        return found
    shared = [seed for seed in sides[0] if seed in sides[1]]
    ours, theirs = (_facts(side[shared[0]] if shared else min(side.items())[1]) for side in sides)
    for kind in ours:
        if ours[kind] != theirs[kind]:
            found[kind] = first_few(_changes(ours[kind], theirs[kind]), 4)
    return found


def _facts(record: Record) -> dict[str, dict[str, str]]:
    """Everything but the seed that determines a record's numbers, by kind."""
    code = [record.env.get("code") or {}, *record.sources.values()]
    return {
        "data": {"": str(record.data.get("sha256"))[:12]},
        "settings": _flat({**record.config, "seed": None}),
        "torch": {"": str(record.env.get("numerics") or record.env.get("torch"))},
        "code": {file: digest for files in code for file, digest in files.items()},
    }


def _changes(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """`train.steps 600 → 300`; for code only the name of the file."""
    changed = sorted(name for name in {**one, **other} if one.get(name) != other.get(name))
    return [
        name if name.endswith(".py") else printable(
            f"{name} {one.get(name, 'unset')} → {other.get(name, 'unset')}".strip()
        )
        for name in changed
    ]  # fmt: skip


def _flat(config: Mapping[str, Any]) -> dict[str, str]:
    """Path → value of every setting."""
    flat = pd.json_normalize(dict(config)).to_dict("records")
    return {path: str(value)[:60] for row in flat for path, value in row.items()}


def _times(a: Evidence, b: Evidence) -> list[Row]:
    """The time ratios that both folders have; no interval is narrower than both sessions' noise."""
    ours, theirs = (
        side.speeds[(side.speeds["verdict"] != SAME) & (side.speeds["n"] > 0)].drop_duplicates(
            PLACE
        )
        for side in (a, b)
    )
    found = []
    for row in ours.merge(theirs, on=PLACE, suffixes=("_a", "_b")).to_dict("records"):
        n, value, (low, high) = _unpaired(row["logs_a"], row["logs_b"])
        noise = math.hypot(*(math.log(row[f"floor_{side}"]) for side in "ab"))
        low, high = min(low, value - noise), max(high, value + noise)
        word = stats.SLOWER if low > 0 else stats.FASTER if high < 0 else stats.NOT_RESOLVED
        unlike = {}
        if row["machine_a"] != row["machine_b"]:
            unlike["machine"] = f"{row['machine_a']} against {row['machine_b']}"
            word, low, high = INCOMPARABLE, *NOTHING
        elif row["logs_a"] == row["logs_b"]:
            word, low, high = IDENTICAL, *NOTHING
        elif n < stats.LEAST or math.isnan(noise):
            word = stats.FEW if n < stats.LEAST else stats.NOT_RESOLVED
            low, high = NOTHING
        found.append(
            {
                **{key: row[key] for key in PLACE},
                **{"unit": "×", "a": row["ratio_a"], "b": row["ratio_b"], "n": n, "paired": False},
                **{"change": math.exp(value), "low": math.exp(low), "high": math.exp(high)},
                **{"mark": word, "unlike": unlike},
            }
        )
    return found


def _claims(a: Evidence, b: Evidence) -> list[Row]:
    """Verdicts of the claims in both folders; a claim that was not run has not changed."""
    others = {(each["scope"]["experiment"], each["id"]): each["verdict"] for each in claims(b)}
    found = []
    for claim in claims(a):
        name, ours = claim["scope"]["experiment"], claim["verdict"]
        if theirs := others.get((name, claim["id"])):
            changed = ours != theirs and NOT_RUN not in (ours, theirs)
            pair = {"verdict_a": ours, "verdict_b": theirs, "changed": changed}
            found.append({"experiment": name, "id": claim["id"], **pair})
    return found


# --- the terminal


def lines(document: Row) -> list[str]:
    """The comparison for the terminal."""
    found = []
    for side in "ab":
        held = document[side]
        stale = f", {held['stale']} stale" if held["stale"] else ""
        found.append(
            f"{side.upper()}  {held['path']}: profile {held['profile']}, {held['done']} of "
            f"{held['planned']} trials done{stale}"
        )
        found += [f"   {line}" for line in (*held["code"], *held["machines"])]
    by_kind: dict[str, list[Row]] = {}
    for row in (*document["scores"], *document["times"]):
        for kind in row["unlike"]:
            by_kind.setdefault(kind, []).append(row)
    for kind, rows in by_kind.items():
        which = f"{len(rows)} {'time' if kind == 'machine' else 'score'}{'s' * (len(rows) > 1)}"
        names = first_few([_name(row) for row in rows], 2)
        serious = ", not comparable" if kind in SERIOUS else ""
        found.append(f"Other {kind} in {which}{serious} ({names}): {rows[0]['unlike'][kind]}")
    for kind in ("scores", "times"):
        if rows := document[kind]:
            words = Counter(row["mark"] for row in rows).most_common()
            found.append(f"{len(rows)} {kind}: " + ", ".join(f"{n} {word}" for word, n in words))
            found += _capped([_line(row) for row in rows if row["mark"] in CHANGED])
    found += _capped(
        [
            f"  ended otherwise: {_name(row)}: {row['failures_a'] or 'no failure'} → "
            f"{row['failures_b'] or 'no failure'}"
            for row in document["scores"]
            if row["failures_a"] != row["failures_b"] and row["mark"] not in (ONE_SIDED, NOT_RUN)
        ]
    )
    changed = [claim for claim in document["claims"] if claim["changed"]]
    if document["claims"]:
        found.append(f"{len(document['claims'])} claims: {len(changed)} with another verdict")
    found += _capped(
        [f"  {c['id']} ({c['experiment']}): {c['verdict_a']} → {c['verdict_b']}" for c in changed]
    )
    for side in "ab":
        for kind, names in document[f"only_{side}"].items():
            if names:
                some = first_few([*map(short, names)], MOST)
                found.append(f"Only in {side.upper()}: {kind} {some}")
    return found


def _line(row: Row) -> str:
    low, high = (math.nan if row[end] is None else row[end] for end in ("low", "high"))
    half, where = (high - low) / 2, f" at {row['where']}" if row["where"] else ""
    text = (
        f"  {row['mark']}: {_name(row)}: {row['metric']}{where} {number(row['a'], half)} → "
        f"{number(row['b'], half)}{after_number(row['unit'])}"
    )
    if math.isnan(low):
        return text
    how = "paired by seed" if row["paired"] else "unpaired"
    because = f"; other {', '.join(row['unlike'])}" if row["unlike"] else ""
    ends = f"95 % interval {bounds(low, high)}, {how}, n = {row['n']}"
    return f"{text}, by {number(row['change'], half)} ({ends}){because}"


def _name(row: Row) -> str:
    return f"{short(row['experiment'])}: {short(named(row['variant'], row['factors']))}"


def _capped(found: list[str]) -> list[str]:
    more = [f"  and {len(found) - MOST} more"] if len(found) > MOST else []
    return found[:MOST] + more
