"""Numbers and answers in plain words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import stats
from analysis.contrasts import HIGHER, LOWER
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short
from analysis.units import after_number

UNDERTRAINED = "undecided: undertrained"
OPEN, CLOSE = "\x02", "\x03"  # around a name: no name that was read holds one
NAMED = 4  # an answer names this many resolved variants; the table has the rest


def named(name: str) -> str:
    """A name in a sentence, marked: a page sets it apart, so that `none` is no pronoun."""
    return f"{OPEN}{short(name)}{CLOSE}"


def plain(text: str) -> str:
    """A sentence for the terminal: its names in quotation marks."""
    return text.replace(OPEN, "“").replace(CLOSE, "”")


def number(value: float, half_width: float = math.nan) -> str:
    """A number with the digits it deserves: to the precision of its interval, else three.

    Of the half-width two digits count below 3, one from there on, as the Particle Data Group does.
    """
    if math.isnan(value):
        return ""
    scale = half_width / 3 if half_width > 0 else abs(value) / 100
    decimals = math.ceil(-math.log10(scale) - 1e-9) if scale > 0 else 0
    if not -6 <= decimals <= 6 or abs(value) >= 1e6:
        return f"{value:.3g}".replace("-", "−")
    text = f"{value:.{max(0, decimals)}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def bounds(low: float, high: float) -> str:
    """`0.35 to 0.47`, or nothing where there is no interval."""
    if math.isnan(low):
        return ""
    half = (high - low) / 2
    return f"{number(low, half)} to {number(high, half)}"


def count(value: float) -> str:
    """A large count: `241 k`, `1.40 M`."""
    if math.isnan(value):
        return ""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def answers(evidence: Evidence, decided: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    """Each question's answer so far, names marked; of what is counted, probed along a coordinate
    or timed, what became of its claims."""
    frame = evidence.contrasts
    found = {}
    for name, ablation in evidence.loaded.ablations.items():
        if ablation.get("arms") == "pacing":  # a step towards a question, and none of its own
            continue
        rows = frame[frame["ablation"] == name]
        claims = [claim for claim in decided if claim["scope"]["question"] == name]
        done, planned = evidence.loaded.done(name)
        is_told = bool((rows["n"] > 0).any()) and ablation["metric"].get("repeats") != "nothing"
        if claims and done == planned and not is_told:
            found[name] = _of_claims(claims)
        else:
            found[name] = _answer(evidence, name, rows)
    return found


def _of_claims(claims: Sequence[Mapping[str, Any]]) -> str:
    """`Its claim is supported.`, `Of its 4 claims 3 are supported and 1 is refuted.`"""
    counts = Counter(claim["verdict"] for claim in claims)
    if len(counts) == 1:
        (verdict,) = counts
        whole = {1: "Its claim is", 2: "Both of its claims are"}
        return f"{whole.get(len(claims), f'All {len(claims)} of its claims are')} {verdict}."
    parts = [f"{n} {'is' if n == 1 else 'are'} {verdict}" for verdict, n in counts.items()]
    return f"Of its {len(claims)} claims {_list(parts)}."


def _answer(evidence: Evidence, name: str, contrasts: pd.DataFrame) -> str:
    rows = [
        {**row, "name": named(row["name"]), "control": named(row["control"])}
        for row in listed(contrasts)
    ]
    done, planned = evidence.loaded.done(name)
    partial = "" if done == planned else f" Partial: {done} of {planned} trials done."
    if not rows:
        return f"The plan declares no variant to compare.{partial}"
    if all(row["word"] == stats.NOT_RUN for row in rows):
        if done == planned:  # read at several places, or timed: no one number stands for an arm
            return f"No single {rows[0]['metric_label']} is compared: its tables have all of them."
        return f"Not run yet: {done} of {planned} trials done."
    if all(row["word"] in (UNDERTRAINED, stats.NOT_RUN) for row in rows):
        return (
            f"Undecided: undertrained. The control, {rows[0]['control']}, ended no better than a "
            f"trivial guess ({_stuck(rows)}), so this budget cannot answer.{partial}"
        )
    most = max(row["n"] for row in rows)
    if most and all(row["word"] in (stats.FEW, stats.NOT_RUN) for row in rows):
        clauses = [_change(row, i == 0) for i, row in enumerate(_largest(rows)) if row["n"]]
        seeds = "one seed" if most == 1 else f"{most} seeds"
        lead = f"No verdict from {seeds} (n={most}): " + "; ".join(clauses[:NAMED])
        return _sentence([lead, *_rest(rows, {stats.FEW})], len(clauses)) + partial
    resolved = [row for row in _largest(rows) if row["word"] in (stats.BETTER, stats.WORSE)]
    clauses = [
        f"{_change(row, i == 0)} ({_uncertainty(row)}){_judgement(row)}"
        for i, row in enumerate(resolved)
    ]
    done_with = {stats.BETTER, stats.WORSE}
    return _sentence(clauses[:NAMED] + _rest(rows, done_with), len(clauses)) + partial


def _sentence(clauses: list[str], resolved: int) -> str:
    more = f"; and {resolved - NAMED} more in the table" if resolved > NAMED else ""
    text = "; ".join(clauses) + more + "."
    return text[0].upper() + text[1:]


def _largest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -abs(row["difference"]) if row["n"] else 0.0)


def _change(row: dict[str, Any], first: bool) -> str:
    difference, half = row["difference"], (row["high"] - row["low"]) / 2
    size = number(abs(difference), half)
    unit = after_number(row["unit"])
    change = f"{size}{unit} {'higher' if difference > 0 else 'lower'}" if difference else "the same"
    if first:
        subject = f"with {row['name']} the {row['metric_label']} is {change}"
        return subject + (f" than with {row['control']}" if difference else " as the control's")
    return f"with {row['name']} {change}"


def _judgement(row: dict[str, Any]) -> str:
    """`, worse`; nothing where the change has said it all."""
    return "" if row["verdict"] in (HIGHER, LOWER) else f", {row['verdict']}"


def _uncertainty(row: dict[str, Any]) -> str:
    sign = 1 if row["difference"] >= 0 else -1
    ends = sorted((sign * row["low"], sign * row["high"]))
    return f"95 % interval {bounds(*ends)}, n = {row['n']}"


def _rest(rows: list[dict[str, Any]], told: set[str]) -> list[str]:
    """The variants that did not come to a difference worth naming, gathered by verdict."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["word"] not in told:
            groups.setdefault(row["verdict"], []).append(row)
    clauses = []
    for verdict, members in groups.items():
        names = _list([row["name"] for row in members])
        pairs = sorted({row["n"] for row in members if row["n"]})
        n = f" (n = {' or '.join(map(str, pairs))})" if pairs else ""
        if verdict.startswith(stats.NOT_RESOLVED):
            rest = verdict.removeprefix(stats.NOT_RESOLVED)
            clauses.append(f"no difference is resolved for {names}{n}{rest}")
        else:
            clauses.append(f"{names}: {verdict}")
    return clauses


def _stuck(rows: list[dict[str, Any]]) -> str:
    return next((row["control_failures"] for row in rows if row["word"] == UNDERTRAINED), "")


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
