"""Two results folders side by side: what changed beyond noise, and what cannot be compared.

A difference is B − A.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.store.record import Record
from analysis import environment, stats
from analysis.arms import Arm, arms
from analysis.claims import NOT_RUN, claims, plain
from analysis.contrasts import Evidence
from analysis.load import Loaded
from analysis.names import after_number, cell_name, printable, short
from analysis.sentences import bounds, number
from analysis.speed import SAME
from analysis.tables import times

IDENTICAL, INCOMPARABLE, ONE_SIDED = "identical", "not comparable", "one side only"
DIFFERS = "differs"  # what is counted, so that no spread can test it
CHANGED = (stats.BETTER, stats.WORSE, DIFFERS, stats.FASTER, stats.SLOWER)
MOST = 20  # lines of one kind in the terminal; --json has all of them
PLACE = ["ablation", "label", "across", "metric", "at"]
Row = dict[str, Any]
ArmKey = tuple[str, str, str]
"""An ablation, a label and its crossing."""


def compare(a: Evidence, b: Evidence) -> Row:
    """All that two folders have in common, and what one of them lacks, as strict JSON."""
    both = [name for name in a.loaded.ablations if name in b.loaded.ablations]
    if not both:
        raise ValueError("the two folders have no question in common")
    ones, others = (
        {(arm.ablation, arm.label, arm.across): arm for name in both for arm in arms(loaded, name)}
        for loaded in (a.loaded, b.loaded)
    )
    shared = [key for key in ones if key in others]
    document = {
        **{"a": _side(a), "b": _side(b), "questions": both},
        "arms": [_arm(a.loaded, b.loaded, key, ones[key], others[key]) for key in shared],
        "times": _times(a, b, both),
        "claims": _claims(a, b),
        "only_a": {
            "questions": [name for name in a.loaded.ablations if name not in both],
            "arms": _names(ones.keys() - others.keys()),
        },
        "only_b": {
            "questions": [name for name in b.loaded.ablations if name not in both],
            "arms": _names(others.keys() - ones.keys()),
        },
    }
    return dict(plain(document))


def _side(evidence: Evidence) -> Row:
    loaded = evidence.loaded
    done, planned = loaded.done()
    told = {"path": str(loaded.root), "profile": loaded.plan["profile"]}
    told |= {"done": done, "planned": planned, "stale": len(loaded.stale)}
    for name, line in (("code", environment.code), ("machines", environment.machine)):
        counts = environment.counted(loaded.records, line)
        told[name] = [f"{words} ({n} trials)" for words, n in counts]
    return told


def _names(keys: set[ArmKey]) -> list[str]:
    return [f"{name}: {cell_name(label, across)}" for name, label, across in sorted(keys)]


# --- scores


def _arm(a: Loaded, b: Loaded, key: ArmKey, one: Arm, other: Arm) -> Row:
    """One arm on both sides: paired where three seeds have scores on both, else unpaired."""
    metric = b.ablations[key[0]]["metric"]
    unlike = _unlike(a, b, key)
    ones, others = one.scores, other.scores
    seeds = [seed for seed in ones if seed in others]
    paired = len(seeds) >= stats.LEAST
    if paired:
        found = stats.paired_mean([others[s] for s in seeds], [ones[s] for s in seeds])
    else:
        found = _unpaired([*others.values()], [*ones.values()])
    low, high = found.ends() if found.n >= stats.LEAST else (math.nan, math.nan)
    if not ones or not others:
        word = ONE_SIDED if ones or others else NOT_RUN
    elif {"data", "metric"} & unlike.keys():
        word, low, high = INCOMPARABLE, math.nan, math.nan
    elif seeds and all(ones[seed] == others[seed] for seed in seeds):
        word, low, high = IDENTICAL, math.nan, math.nan
    elif metric.get("repeats") == "nothing":
        word, low, high = DIFFERS, math.nan, math.nan
    else:
        word = _word(found, low, high, metric)
    return {
        **dict(zip(("ablation", "label", "across"), key, strict=True)),
        **{"metric": metric["name"], "unit": other.unit or one.unit},
        "a": stats.mean_of([*ones.values()]).value,
        "b": stats.mean_of([*others.values()]).value,
        **{"n": found.n, "paired": paired, "difference": found.value, "low": low, "high": high},
        **{"failures_a": one.failures, "failures_b": other.failures},
        **{"word": word, "unlike": unlike},
    }


def _unpaired(variant: Sequence[float], control: Sequence[float]) -> stats.Estimate:
    """The difference of two means that share no seeds; n is the smaller side's.

    error² = a + b with a = s²/n of each side, df = (a + b)² / (a²/(n−1) + b²/(m−1)) (Welch 1947)
    """
    sides = [stats.mean_of(list(side)) for side in (variant, control)]
    n, value = min(side.n for side in sides), sides[0].value - sides[1].value
    squares = [0.0 if math.isnan(side.error) else side.error**2 for side in sides]
    if n < 2 or not sum(squares) > 0:
        return stats.Estimate(n, value)
    rest = sum(square**2 / (s.n - 1) for square, s in zip(squares, sides, strict=True))
    return stats.Estimate(n, value, math.sqrt(sum(squares)), sum(squares) ** 2 / rest)


def _word(found: stats.Estimate, low: float, high: float, metric: Row) -> str:
    if found.n < stats.LEAST:
        return stats.FEW
    if low > 0 or high < 0:
        return stats.BETTER if (high < 0) == (metric["better"] == "lower") else stats.WORSE
    matters = metric.get("matters") or 0.0
    return stats.TIE if -matters < low and high < matters else stats.NOT_RESOLVED


# --- what the two sides do not share


def _unlike(a: Loaded, b: Loaded, key: ArmKey) -> dict[str, str]:
    """Kind → detail of what differs besides luck: metric, data, settings, torch, code."""
    one, other = (loaded.ablations[key[0]]["metric"] for loaded in (a, b))
    found = {}
    if any(one.get(name) != other.get(name) for name in ("name", "split", "unit", "better")):
        found["metric"] = f"{one['name']} against {other['name']}"
    sides = [
        {s: loaded.records[t] for s, t in loaded.trials[key].items() if t in loaded.records}
        for loaded in (a, b)
    ]
    if not all(sides):
        return found
    shared = [seed for seed in sides[0] if seed in sides[1]]
    facts = [_facts(side[shared[0]] if shared else next(iter(side.values()))) for side in sides]
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
    values = [f" {one.get(name, 'unset')} → {other.get(name, 'unset')}" for name in changed]
    told = zip(changed, values, strict=True)
    return [printable(name + value * (not name.endswith(".py"))).strip() for name, value in told]


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
    """B's ratio over A's, with an interval never narrower than the noise of both sessions."""
    found = _unpaired(row["logs_b"], row["logs_a"])
    change = math.exp(found.value)
    if row["machine_a"] != row["machine_b"]:
        return change, math.nan, math.nan, INCOMPARABLE
    if row["logs_a"] == row["logs_b"]:
        return change, math.nan, math.nan, IDENTICAL
    if found.n < stats.LEAST:
        return change, math.nan, math.nan, stats.FEW
    noise = math.hypot(*(math.log(row[f"floor_{side}"]) for side in "ab"))
    low, high = found.ends()
    low, high = min(low, found.value - noise), max(high, found.value + noise)
    word = stats.SLOWER if low > 0 else stats.FASTER if high < 0 else stats.NOT_RESOLVED
    word = stats.NOT_RESOLVED if math.isnan(noise) else word
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
    for kind, line in (("arm", _arm_line), ("time", _time_line)):
        if rows := document[f"{kind}s"]:
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
