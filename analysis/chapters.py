"""Chapters group the experiments of one axis; each axis ends in one wide table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from ablations.store.record import Record
from analysis import tables
from analysis.contrasts import Evidence
from analysis.load import FINE, UNREADABLE, WAITING, Loaded, Row
from analysis.timing import SAME
from analysis.wording import after_heading, count, memory, short

CHAPTERS = {
    "positions": "Positions",
    "norm": "Norm placement",
    "heads": "Heads",
    "scale": "√d scaling",
    "smoothing": "Label smoothing",
    "rnn": "RNN in its place",
    "speed": "Speed",
    "training": "Training",
    "lectures": "What else the lectures say",
}
AXES = tuple(CHAPTERS)[:6]
OF_CLAIMS = {"position": "positions", "recurrent": "rnn", "cost": "speed", "train": "training"}
"""First word of a claim's id → its chapter, where the two differ."""


def chapter_of(entry: Mapping[str, Any]) -> str:
    """The first part of an experiment's name, or else its first claim's chapter, or nothing."""
    chapter, slash, _ = str(entry["name"]).partition("/")
    if not slash and entry["claims"]:
        prefix = entry["claims"][0]["id"].partition(".")[0]
        chapter = OF_CLAIMS.get(prefix, prefix)
    return chapter if chapter in CHAPTERS else ""


def by_chapter(loaded: Loaded) -> dict[str, list[str]]:
    """Chapter → its experiments, in the order of the plan; those without a chapter are last."""
    found: dict[str, list[str]] = {chapter: [] for chapter in (*CHAPTERS, "")}
    for name, entry in loaded.experiments.items():
        found[chapter_of(entry)].append(name)
    return {chapter: names for chapter, names in found.items() if names}


def wide_table(evidence: Evidence, names: Sequence[str]) -> pd.DataFrame:
    """A row for each variant of a chapter: its score on every task, its costs and its lr.

    If several experiments share a task, the one with the most variants is used.
    """
    entries = {name: evidence.loaded.experiments[name] for name in names}
    if not entries:
        return pd.DataFrame()
    baseline, _ = Counter(entry["baseline"] for entry in entries.values()).most_common(1)[0]
    of_each, speeds = (
        frame[frame["experiment"].isin(entries) & (frame["baseline"] == baseline)]
        for frame in (evidence.variants, evidence.speeds)
    )
    trained = of_each[of_each["trained"].astype(bool) & (of_each["factors"] == "")]
    sizes = trained.groupby(["task", "experiment"], sort=False).size().reset_index(name="size")
    sizes = sizes.sort_values("size", ascending=False, kind="stable")
    chosen = sizes.drop_duplicates("task")["experiment"].sort_index()
    scored = [trained[trained["experiment"] == name].set_index("variant") for name in chosen]
    columns = [_scores(evidence, own, len(scored) > 1) for own in scored]
    columns += [_costs(scored[0])] if scored else []
    columns += [_speeds(speeds)] if len(speeds) else []
    columns += [_rates(evidence.loaded, own, len(scored) > 1) for own in scored]
    if not columns:
        return pd.DataFrame()
    table = pd.concat(columns, axis=1).astype(object).fillna("")
    table = table.loc[:, (table != "").any()]
    order = sorted(table.index, key=lambda label: label != baseline)
    view = table.loc[order].reset_index(names="variant")
    view["variant"] = view["variant"].map(lambda name: short(str(name)))
    view.loc[0, "variant"] += " (baseline)" * (order[0] == baseline)
    return view


def _scores(evidence: Evidence, own: pd.DataFrame, several: bool) -> pd.DataFrame:
    """One task: score, difference with its mark, and how many seeds learn."""
    first, frame = own.iloc[0], evidence.contrasts
    task = f"{first['task']}: " if several else ""
    frame = frame[(frame["experiment"] == first["experiment"]) & (frame["factors"] == "")]
    compared = {row["variant"]: row for row in frame.to_dict("records")}
    unit = next((unit for unit in own["unit"] if unit), "")
    rows = {}
    for label, row in own.to_dict("index").items():
        other = compared.get(label)
        rows[label] = {
            f"{task}{first['metric_title']}{after_heading(unit)}": tables.score(row),
            f"{task}difference": tables.difference(other) if other else "",
            f"{task}mark": other["mark"] if other else "",
            f"{task}seeds that learn": _learn(row["outcomes"]),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _learn(outcomes: Mapping[int, str]) -> str:
    """`4 of 5` seeds that have ended."""
    ended = [each for each in outcomes.values() if each not in (WAITING, UNREADABLE)]
    return f"{ended.count(FINE)} of {len(ended)}" if ended else ""


def _costs(own: pd.DataFrame) -> pd.DataFrame:
    names = {"parameters": "parameters", "flops_per_token": "FLOPs/token"}
    return own[list(names)].map(count).rename(columns=names)


def _speeds(speeds: pd.DataFrame) -> pd.DataFrame:
    """Tokens/s and memory at the greatest length that every variant reaches, and the time of a
    training step at each length with its ratio to the baseline's; the largest batch counts."""
    found: dict[str, dict[str, str]] = {}

    def put(heading: str, rows: pd.DataFrame, cell: Callable[[Row], str]) -> None:
        found[heading] = {row["variant"]: cell(row) for row in rows.to_dict("records")}

    places = pd.DataFrame(speeds["coordinates"].tolist(), index=speeds.index)
    places = places.reindex(columns=["length", "position", "batch", "pass", "cache"])
    frame = speeds.join(places).sort_values("batch", kind="stable")
    step = frame[(frame["metric"] == "step_time") & (frame["pass"] != "forward")]
    step = step.drop_duplicates(["variant", "length"], keep="last")
    token = frame[(frame["metric"] == "latency") & (frame["cache"] == "kept")]
    token = token.drop_duplicates(["variant", "position"], keep="last")
    put("training tokens/s", _furthest(step, "length"), lambda row: count(row["tokens_per_second"]))
    put(
        "decoding tokens/s",
        _furthest(token, "position"),
        lambda row: count(row["batch"] / row["seconds"]),
    )
    put(
        "memory",
        _furthest(step, "length"),
        lambda row: memory(row["peak_memory"], row["baseline_peak_memory"]),
    )
    for length, own in step.groupby("length"):
        put(
            f"step of {length:g} tokens",
            own,
            lambda row: tables.time_cell(
                row["seconds"], math.nan if row["verdict"] == SAME else row["ratio"], row["reason"]
            ),
        )
    return pd.DataFrame(found)


def _furthest(frame: pd.DataFrame, along: str) -> pd.DataFrame:
    """The rows at the greatest length at which every variant has a time."""
    known = frame[frame["seconds"].notna()]
    reached = known.groupby(along)["variant"].nunique()
    whole = reached[reached == frame["variant"].nunique()]
    return known[known[along] == whole.index.max()]


def _rates(loaded: Loaded, own: pd.DataFrame, several: bool) -> pd.DataFrame:
    """The learning rate of each variant."""
    heading = f"{own['task'].iloc[0]}: lr" if several else "lr"
    return own["trial"].map(lambda trial: _rate(loaded.records.get(trial))).to_frame(heading)


def _rate(record: Record | None) -> str:
    train: Row = (record.config.get("train") or {}) if record else {}
    lr = (train.get("optimizer") or {}).get("lr")
    return f"{lr:g}" if isinstance(lr, int | float) else ""
