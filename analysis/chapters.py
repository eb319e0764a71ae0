"""The content of the page: chapters, their wide tables, and the prose about each experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ablations.store.identity import value_at
from ablations.store.record import Record
from ablations.store.words import CHAPTERS
from analysis import stats, tables, wording
from analysis.contrasts import DIFFERS, Evidence
from analysis.load import FINE, UNREADABLE, WAITING, Loaded, Row
from analysis.timing import SAME
from analysis.wording import number, short

OF_CLAIMS = {"position": "positions", "recurrent": "rnn", "cost": "speed", "train": "training"}
"""First word of a claim's id → its chapter, where the two differ."""

SIZED = ("differs", stats.UNFINISHED, stats.FEW)  # marks whose differences are spelt out
SHOWN = 4  # an answer names this many variants that differ; the table has the rest
INPUTS, VARIANTS, LONGEST = 3, 4, 160  # of examples: inputs, variants, characters

# --- chapters


def chapter_of(entry: Mapping[str, Any]) -> str:
    """The chapter in an experiment's name, or else the one of its first claim, or nothing."""
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
        other = compared.get(label, {})
        rows[label] = {
            f"{task}{first['metric_title']}{wording.after_heading(unit)}": tables.score(row),
            f"{task}difference": tables.difference(other),
            f"{task}mark": other.get("mark", ""),
            f"{task}seeds that learn": _learn(row["outcomes"]),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _learn(outcomes: Mapping[int, str]) -> str:
    """`4 of 5` seeds that have ended."""
    ended = [each for each in outcomes.values() if each not in (WAITING, UNREADABLE)]
    return f"{ended.count(FINE)} of {len(ended)}" if ended else ""


def _costs(own: pd.DataFrame) -> pd.DataFrame:
    names = {"parameters": "parameters", "flops_per_token": "FLOPs/token"}
    return own[list(names)].map(wording.count).rename(columns=names)


def _speeds(speeds: pd.DataFrame) -> pd.DataFrame:
    """Tokens/s and memory at the greatest length that all variants reach, and times by length."""
    places = pd.DataFrame(speeds["coordinates"].tolist(), index=speeds.index)
    places = places.reindex(columns=["length", "position", "batch", "pass", "cache"])
    frame = speeds.join(places).sort_values("batch", kind="stable")
    step = frame[(frame["metric"] == "step_time") & (frame["pass"] != "forward")]
    step = step.drop_duplicates(["variant", "length"], keep="last")
    token = frame[(frame["metric"] == "latency") & (frame["cache"] == "kept")]
    token = token.drop_duplicates(["variant", "position"], keep="last")
    longest, furthest = _furthest(step, "length"), _furthest(token, "position")
    found = {
        "training tokens/s": longest["tokens_per_second"].map(wording.count),
        "decoding tokens/s": (furthest["batch"] / furthest["seconds"]).map(wording.count),
        "memory": longest["peak_memory"].combine(longest["baseline_peak_memory"], wording.memory),
    }
    ratio = step["ratio"].mask(step["verdict"] == SAME)
    cells = list(map(tables.time_cell, step["seconds"], ratio, step["reason"]))
    for length, own in step.assign(cell=cells).groupby("length"):
        found[f"step of {length:g} tokens"] = own["cell"]
    return pd.DataFrame(
        {name: cells.set_axis(speeds["variant"][cells.index]) for name, cells in found.items()}
    )


def _furthest(frame: pd.DataFrame, along: str) -> pd.DataFrame:
    """The rows at the greatest length at which every variant has a time."""
    known = frame[frame["seconds"].notna()]
    reached = known.groupby(along)["variant"].nunique()
    whole = reached[reached == frame["variant"].nunique()]
    return known[known[along] == whole.index.max()]


def _rates(loaded: Loaded, own: pd.DataFrame, several: bool) -> pd.DataFrame:
    """The learning rate of each variant."""
    heading = f"{own['task'].iloc[0]}: lr" if several else "lr"
    held = [loaded.records.get(trial) for trial in own["trial"]]
    rates = [record and value_at(record.config, "train.optimizer.lr") for record in held]
    cells = [f"{lr:g}" if isinstance(lr, int | float) else "" for lr in rates]
    return pd.DataFrame({heading: cells}, index=own.index)


# --- the answer


def answer(evidence: Evidence, experiment: str) -> str:
    """The differences in sentences, the largest first; names are marked."""
    frame = evidence.contrasts
    rows = frame[frame["experiment"] == experiment].to_dict("records")
    done, planned = evidence.loaded.done(experiment)
    partial = "" if done == planned else f" Partial: {done} of {planned} trials done."
    if not rows:
        return f"No variants are compared here; its claims say what was found.{partial}"
    by_mark: dict[str, list[Row]] = {}
    for row in rows:
        by_mark.setdefault("differs" if row["mark"] in DIFFERS else row["mark"], []).append(row)
    if set(by_mark) == {stats.NOT_RUN}:
        if done == planned:  # measured at several places, or timed: a variant has no single number
            return f"No single {rows[0]['metric_title']} is compared; the tables have all of them."
        return f"Not run yet: {done} of {planned} trials done."
    known = [row for mark in SIZED for row in by_mark.pop(mark, [])]
    ranked = sorted(known, key=lambda row: (row["mark"] == stats.FEW, -abs(row["difference"])))
    clauses = [_difference(row, i == 0) for i, row in enumerate(ranked[:SHOWN])]
    if len(ranked) > SHOWN:
        clauses.append(f"and {len(ranked) - SHOWN} more in the table")
    clauses += [_rest(mark, members) for mark, members in by_mark.items()]
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}.{partial}"


def _difference(row: Row, is_first: bool) -> str:
    """`with post the loss is 0.310 nats/token higher than with pre (95 % interval …), worse`."""
    size, low, high = row["difference"], row["low"], row["high"]
    change = f"{number(abs(size), (high - low) / 2)}{wording.after_number(row['unit'])} "
    change += "higher" if size > 0 else "lower"
    than = f" than with {wording.named(row['baseline'])}" if is_first else ""
    subject = f"the {row['metric_title']} is " if is_first else ""
    ends = f"95 % interval {wording.bounds(*sorted((abs(low), abs(high))))}, n = {row['n']}"
    judged = f", {row['mark']}" if row["mark"] in ("better", "worse") else ""
    if row["mark"] == stats.FEW:
        ends = f"n = {row['n']}: no mark from fewer than three"
    lost = [row["failures"], row["baseline_failures"] and f"baseline: {row['baseline_failures']}"]
    failed = "".join(f", {words}" for words in lost if words)
    return f"with {wording.named(row['name'])} {subject}{change}{than} ({ends}){judged}{failed}"


def _rest(mark: str, rows: list[Row]) -> str:
    names = wording.joined([wording.named(row["name"]) for row in rows])
    if mark == stats.TIE:
        return f"a tie with {wording.named(rows[0]['baseline'])}: {names}"
    if mark == stats.NOT_RESOLVED:
        return f"no difference is resolved for {names}"
    lost = [f"{wording.named(row['name'])} ({row['failures']})" for row in rows if row["failures"]]
    return f"{mark}: {wording.joined(lost) if len(lost) == len(rows) else names}"


# --- scope


def scope(evidence: Evidence, experiment: str) -> Row:
    """How far the answer reaches: sizes, trials and settings of an experiment."""
    loaded = evidence.loaded
    entry = loaded.experiments[experiment]
    trials = loaded.trials[loaded.trials["experiment"] == experiment]
    distinct = trials.drop_duplicates("trial")
    records = [loaded.records[id] for id in distinct["trial"] if id in loaded.records]
    sizes = trials[trials["variant"] == entry["baseline"]]["parameters"].dropna()
    steps = {value_at(record.config, "train.steps") for record in records if record.trained}
    speeds = evidence.speeds[evidence.speeds["experiment"] == experiment]
    tuning = entry["tuning"]
    return {
        "parameters": int(sizes.max()) if len(sizes) else None,
        "steps": sorted(n for n in steps if isinstance(n, int)),
        "seeds": trials["seed"].nunique(),
        "records": len(records),
        "trained": any(record.trained for record in records),
        "outcomes": distinct["outcome"].value_counts().to_dict(),
        "missing": int(distinct["missing"].sum()),
        "stale": len(set(distinct["trial"]) & loaded.stale),
        "edges": list(dict.fromkeys(each["variant"] for each in tuning if each["at_edge"])),
        "noisy": bool(speeds["noisy"].eq(True).any()),
    }


# --- examples


def examples(evidence: Evidence, experiment: str) -> list[Row]:
    """A few inputs with the outputs of the baseline and of the variants that differ most from it.

    All come from one seed and one level of the factors.
    """
    chosen = _answering(evidence, experiment)
    written = {name: {each.get("input"): each for each in r.examples} for name, r in chosen.items()}
    first, *others = written.values() if written else [{}]
    shared = [text for text in first if text and all(text in each for each in others)]
    return [
        {
            "input": _shown(text),
            "target": _shown(first[text].get("target", "")),
            "outputs": [
                {
                    "name": short(name),
                    "text": _shown(held[text].get("output", "")),
                    "is_right": held[text].get("output") == first[text].get("target"),
                }
                for name, held in written.items()
            ],
        }
        for text in shared[:INPUTS]
    ]


def _answering(evidence: Evidence, experiment: str) -> dict[str, Record]:
    """Variant → its record; the baseline comes first."""
    loaded, baseline = evidence.loaded, evidence.loaded.experiments[experiment]["baseline"]
    trials = loaded.trials
    trials = trials[(trials["experiment"] == experiment) & (trials["outcome"] == FINE)]
    own = trials[
        trials["trial"].map(lambda trial: bool(loaded.records[trial].examples)).astype(bool)
    ]
    first = own[own["variant"] == baseline][["factors", "seed"]].head(1)
    here = own.merge(first, on=["factors", "seed"]).set_index("variant")["trial"].to_dict()
    rows = evidence.contrasts[evidence.contrasts["experiment"] == experiment]
    ranked = rows.reindex(rows["difference"].abs().sort_values(ascending=False).index)["variant"]
    order = [label for label in dict.fromkeys([baseline, *ranked, *here]) if label in here]
    return {label: loaded.records[here[label]] for label in order[:VARIANTS]}


def _shown(text: Any) -> str:
    return short(str(wording.printable(str(text))), LONGEST)
