"""Two results folders side by side: what changed beyond noise, and what cannot be compared.

A difference is B − A.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from analysis import environment
from analysis.claims import claims, plain
from analysis.compare.arms import arm_changes
from analysis.compare.comparable import cautions
from analysis.compare.times import time_changes
from analysis.evidence import Evidence
from analysis.lookup import lookup
from analysis.verdicts import NOT_RUN


def compare(a: Evidence, b: Evidence) -> dict[str, Any]:
    """All that two folders have in common, and what one of them lacks, as strict JSON."""
    both = [name for name in a.loaded.ablations if name in b.loaded.ablations]
    if not both:
        raise ValueError("the two folders have no question in common")
    arms = [asdict(each) for each in arm_changes(a.loaded, b.loaded, both)]
    times = [asdict(each) for each in time_changes(a.loaded, b.loaded, both)]
    document: dict[str, Any] = plain(
        {
            "a": _side(a),
            "b": _side(b),
            "questions": both,
            "cautions": [asdict(each) for each in cautions(a.loaded, b.loaded, both)],
            "other_machines": sorted(
                {
                    (t["machine_a"], t["machine_b"])
                    for t in times
                    if t["machine_a"] != t["machine_b"]
                }
            ),
            "arms": arms,
            "times": times,
            "claims": _claims(a, b),
            "only_a": _lacking(a, b),
            "only_b": _lacking(b, a),
        }
    )
    return document


def _side(evidence: Evidence) -> dict[str, Any]:
    loaded = evidence.loaded
    done, planned = loaded.done()
    return {
        "path": str(loaded.root),
        "profile": loaded.plan["profile"],
        "done": done,
        "planned": planned,
        "stale": len(loaded.stale),
        "code": [f"{name} ({n} trials)" for name, n in environment.versions(loaded.records)],
        "machines": [f"{name} ({n} trials)" for name, n in environment.machines(loaded.records)],
    }


def _claims(a: Evidence, b: Evidence) -> list[dict[str, Any]]:
    """The verdicts of claims that both register for a question; one that a side has not run has
    not changed."""
    others = {(claim["scope"]["question"], claim["id"]): claim for claim in claims(b)}
    found = []
    for claim in claims(a):
        key = (claim["scope"]["question"], claim["id"])
        if key in others:
            pair = {"a": claim, "b": others[key]}
            told = {
                f"{name}_{side}": each[name]
                for name in ("verdict", "reason", "effect", "interval", "n")
                for side, each in pair.items()
            }
            words = {each["verdict"] for each in pair.values()}
            is_changed = len(words) > 1 and NOT_RUN not in words
            found.append({"question": key[0], "id": key[1], "changed": is_changed, **told})
    return found


def _lacking(here: Evidence, there: Evidence) -> dict[str, list[Any]]:
    """What is planned here and not there: whole questions, and arms of those that both ask."""
    known = there.loaded.ablations
    arms = [arm for arm in lookup(here.loaded).trials if arm not in lookup(there.loaded).trials]
    return {
        "questions": [name for name in here.loaded.ablations if name not in known],
        "arms": [list(arm) for arm in arms if arm[0] in known],
    }
