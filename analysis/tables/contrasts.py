"""Each question's table: the control first, then every variant with its difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from analysis.evidence import Evidence
from analysis.load import crossing, listed
from analysis.names import cell_name, short
from analysis.sentences import count, number
from analysis.speed import SAME
from analysis.tables.best import standings
from analysis.tables.cells import MARKS, marked, memory, p_value, times, with_interval
from analysis.units import after_heading

CAPTION = (
    "In brackets: 95 % t-intervals over seeds. Differences are paired by seed; p is Holm's over "
    "the contrasts of one question. "
    f"{MARKS['best']}: the best mean among arms with three scores or more and no seed that broke "
    f"down. {MARKS['tied']}: tied with it, for no difference from it is resolved (paired t-test, "
    "p after Holm over all pairs of arms at least 0.05)."
)
Row = dict[str, Any]
Place = tuple[str, str, str]
"""An ablation, a label and its crossing."""
OTHERWISE = {"fixed": "difference, each tuned", "tuned": "difference, fixed settings"}
"""What stands beside the difference of fixed or tuned arms, where the question was asked both
ways."""


def with_speed(evidence: Evidence) -> pd.DataFrame:
    """The contrasts with all that stands beside them: how arms were set, which are best, and the
    time and memory of a step where it was timed at one point."""
    frame = evidence.contrasts.copy()
    rows = listed(frame)
    own = [(row["ablation"], row["label"], row["across"]) for row in rows]
    control = [(row["ablation"], row["control"], row["across"]) for row in rows]
    entries = evidence.loaded.ablations
    settings, ranks, timed = _settings(evidence), _ranks(evidence), _timed(evidence)
    frame.insert(0, "question", [entries[name]["name"] for name, *_ in own])
    frame.insert(2, "arms", [entries[name]["arms"] for name, *_ in own])
    for prefix, places in (("", own), ("control_", control)):
        frame[f"{prefix}tuned_to"] = [settings.get(place, {}) for place in places]
        frame[f"{prefix}standing"] = [ranks.get(place, "") for place in places]
        for name in ("tokens_per_second", "peak_memory"):
            frame[f"{prefix}{name}"] = [timed.get(p, {}).get(name, math.nan) for p in places]
    ratios = [{} if timed.get(p, {}).get("verdict") == SAME else timed.get(p, {}) for p in own]
    for name in ("ratio", "low", "high", "verdict"):
        empty: Any = "" if name == "verdict" else math.nan
        frame[f"step_time_{name}"] = [ratio.get(name, empty) for ratio in ratios]
    return _with_other_arms(evidence, frame)


def _settings(evidence: Evidence) -> dict[Place, Row]:
    """What tuning has chosen for each arm."""
    return {
        (name, cell["label"], crossing(cell["across"])): cell["tuned"]
        for name, entry in evidence.loaded.ablations.items()
        for cell in entry["cells"]
        if cell["role"] == "report"
    }


def _ranks(evidence: Evidence) -> dict[Place, str]:
    loaded = evidence.loaded
    return {
        (name, *place): word
        for name in loaded.ablations
        for place, word in standings(loaded, name).items()
    }


def _timed(evidence: Evidence) -> dict[Place, Row]:
    """The one point at which the step of an arm was timed; of several none stands for all."""
    found: dict[Place, list[Row]] = {}
    for row in listed(evidence.speeds[evidence.speeds["metric"] == "step_time"]):
        found.setdefault((row["ablation"], row["label"], row["across"]), []).append(row)
    return {place: rows[0] for place, rows in found.items() if len(rows) == 1}


def _with_other_arms(evidence: Evidence, frame: pd.DataFrame) -> pd.DataFrame:
    """The differences with fixed and with tuned arms beside each other."""
    entries = evidence.loaded.ablations

    def asked(row: Mapping[str, Any], arms: str) -> tuple[Any, ...]:
        entry = entries[row["ablation"]]
        where = (row["question"], entry["profile"], *entry["overrides"])
        return arms, where, row["label"], row["across"]

    rows = listed(frame)
    held = {asked(row, row["arms"]): row for row in rows}
    for arms in OTHERWISE:
        for name in ("difference", "low", "high"):
            found = [held.get(asked(row, arms), {}) for row in rows]
            told = [
                other.get(name, math.nan) if row["arms"] in OTHERWISE else math.nan
                for row, other in zip(rows, found, strict=True)
            ]
            frame[f"{arms}_{name}"] = told
    return frame


def contrasts_views(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Each ablation's table to read, by name."""
    frame = with_speed(evidence)
    by_name: dict[str, list[Row]] = {name: [] for name in evidence.loaded.ablations}
    for row in listed(frame):
        by_name[row["ablation"]].append(row)
    return {name: contrasts_view(rows) for name, rows in by_name.items()}


def contrasts_view(rows: list[Row]) -> pd.DataFrame:
    """One table: columns of times, memory and tuning only where an arm has such a thing.

    Its `attrs["scores"]` names the columns in which the best is marked.
    """
    lines: list[dict[str, str]] = []
    seen: set[str] = set()
    for row in rows:
        if row["across"] not in seen:
            seen.add(row["across"])
            lines.append(_control_line(row))
        lines.append(_variant_line(row))
    # The last line is a variant's, and only variants have every column.
    view = pd.DataFrame(lines, columns=list(lines[-1]) if lines else None).fillna("")
    bare = [name for name in SOMETIMES if name in view and not view[name].any()]
    view = view.drop(columns=bare)
    view.attrs["scores"] = list(dict.fromkeys(map(score_heading, rows)))
    return view


def score_heading(row: Mapping[str, Any]) -> str:
    """`loss (nats/token)`."""
    return f"{row['metric_label']}{after_heading(row['unit'])}"


SOMETIMES = ("tokens/s", "peak memory", "tuned to", *OTHERWISE.values())


def _variant_line(row: Row) -> dict[str, str]:
    arms, other = ("tuned", "fixed") if row["arms"] == "tuned" else ("fixed", "tuned")
    return {
        "variant": short(row["name"]),
        **_arm_cells(row, row.__getitem__),
        "difference (95 % interval)": with_interval(row["difference"], row["low"], row["high"]),
        OTHERWISE[arms]: with_interval(
            *(row[f"{other}_{name}"] for name in ("difference", "low", "high"))
        ),
        "p (Holm)": p_value(row["p_holm"]),
        "n": f"{row['n']} of {row['planned']}",
        "failures": row["failures"],
        "could show": number(row["detectable"], row["detectable"]),
        "step time": times(row["step_time_ratio"], row["step_time_low"], row["step_time_high"]),
        "tokens/s": count(row["tokens_per_second"]),
        "peak memory": memory(row["peak_memory"], row["control_peak_memory"]),
        "tuned to": _setting(row["tuned_to"]),
        "verdict": "; ".join(text for text in (row["verdict"], row["note"]) if text),
    }


def _control_line(row: Row) -> dict[str, str]:
    name = cell_name(row["control"], row["across"])
    return {
        "variant": f"{short(name)} (control)",
        **_arm_cells(row, lambda name: row[CONTROL.get(name, f"control_{name}")]),
        "n": str(row["control_n"]),
        "failures": row["control_failures"],
        "tokens/s": count(row["control_tokens_per_second"]),
        "peak memory": memory(row["control_peak_memory"]),
        "tuned to": _setting(row["control_tuned_to"]),
    }


CONTROL = {"mean_low": "control_low", "mean_high": "control_high"}
"""Columns of the control that are not called like the variant's."""


def _arm_cells(row: Row, of: Callable[[str], Any]) -> dict[str, str]:
    """What control and variant both have: size, work and score."""
    score = with_interval(*(of(name) for name in ("mean", "mean_low", "mean_high")))
    return {
        "parameters": count(of("parameters")),
        "FLOPs/token": count(of("flops_per_token")),
        score_heading(row): marked(score, of("standing")),
    }


def _setting(chosen: Mapping[str, Any]) -> str:
    """`rate=0.01`: the last word of each path is enough beside the others."""
    return ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in chosen.items())
