"""status: which trials are done, failed, running, stale or waiting, and how long the rest takes."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.commands.arguments import cores, names_of, results_of
from ablations.commands.terminal import print_json, print_table, working
from ablations.store.record import TRAINED, WHOLE, Record, final, is_stale
from ablations.store.results import Results
from ablations.store.schema import STATUSES, RecordError
from ablations.store.words import place_of, quoted
from model.config import ConfigError, nearest

STATES = (*STATUSES, "running", "stale", "waiting")
MOST_REASONS, MOST_TRIALS = 20, 40


def act(options: Namespace) -> int:
    folder, asked = results_of(options), names_of(options)
    with working(f"Reading the records of {folder.root}"):
        found = look(folder, asked)
        if options.json:
            print_json(found)
            return 0
        if not asked and len(found["trials"]) > MOST_TRIALS:
            print_chapters(found["trials"])
            print("\n`status NAME` lists the trials of a chapter or experiment, --json all.")
        elif found["trials"]:
            print_trials(found["trials"])
            print()
        print(summary(found))
    return 0


def look(results: Results, names: Sequence[str] = ()) -> dict[str, Any]:
    """The state of every planned trial of these experiments (default: all), counts and reasons."""
    from ablations.leases import Leases

    planned = results.read_plan()["experiments"]
    running = {lease.name for lease in Leases(results.root / "leases").live()}
    rows: list[dict[str, Any]] = []
    rows_of: dict[str, list[dict[str, Any]]] = {}  # trial → rows; experiments may share a trial
    asked: dict[str, set[str]] = {}  # trial → measures
    sizes: dict[str, float] = {}
    for title in _titles(planned, names, results):
        for cell in planned[title]["trials"]:
            trial = cell["id"]
            variant = place_of(cell["variant"], cell["factors"])
            row = {"experiment": title, "variant": variant, "seed": cell["seed"], "trial": trial}
            rows.append({**row, "trained": cell["work"] > 0})
            rows_of.setdefault(trial, []).append(rows[-1])
            asked.setdefault(trial, set()).update(cell["sources"])
            sizes[trial] = float(cell["work"])
    found: Counter[str] = Counter()
    reasons: list[str] = []
    took: dict[str, float | None] = {}
    for trial, measures in asked.items():
        record, why = _read(results, trial)
        reasons += why
        outcome = "running" if trial in running else record.status if record else "waiting"
        stale = False
        if record and outcome != "running":
            stale = is_stale(record, measures)
            is_whole = measures <= record.sources.keys()
            found["unmeasured"] += record.status in TRAINED and not is_whole
            took[trial] = record.env.get("seconds") if record.status in WHOLE else None
        found.update({outcome: 1, "stale": stale})
        for row in rows_of[trial]:
            metric = planned[row["experiment"]]["metric"]
            row |= {"outcome": outcome, "stale": stale, "unit": metric["unit"]}
            row["score"] = score(record, metric) if record else None
    return {
        **dict.fromkeys((*STATES, "unmeasured"), 0),
        **found,
        "seconds_left": seconds_left(sizes, took, found["running"] or cores()),
        "reasons": reasons,
        "set_aside": sorted(path.name for path in results.trials.glob("*.bad-*")),
        "trials": rows,
    }


def _read(results: Results, trial: str) -> tuple[Record | None, list[str]]:
    """A trial's record, and one line with the reasons of its failures, if any."""
    try:
        record = results.read(trial)
    except RecordError as error:  # it will be run again
        return None, [str(error)]
    if record is None:
        return None, []
    reasons = [record.reason.splitlines()[0]] if record.reason else []
    reasons += [f"{what} failed: {why}" for what, why in record.failures.items()]
    attempt = f" (attempt {record.attempts})" if record.attempts > 1 else ""
    line = f"{trial} {record.status}: {'; '.join(reasons)}{attempt}"
    return record, [line] if reasons else []


def score(record: Record, metric: Mapping[str, Any]) -> float | None:
    """A trial's final score; None if its record has none."""
    found = [
        each.value
        for each in final(record.measurements)
        if each.metric == metric["name"]
        and each.split in (None, metric["split"])
        and not each.coordinates.keys() - {"step"}
    ]
    return found[-1] if found else None


def summary(found: Mapping[str, Any]) -> str:
    from ablations.progress import roughly

    states = [f"{found[state]} {state}" for state in STATES if found[state] and state != "stale"]
    line = ", ".join(states) or "nothing is planned"
    line += f"; {found['stale']} stale" if found["stale"] else ""
    line += f"; {found['unmeasured']} not all measured" if found["unmeasured"] else ""
    line += f"; left {roughly(found['seconds_left'])}" if found["seconds_left"] else ""
    lines = [line, *(f"  {reason}" for reason in found["reasons"][:MOST_REASONS])]
    if found["set_aside"]:
        lines.append(f"  set aside, unusable: {', '.join(found['set_aside'])}")
    return "\n".join(lines)


def seconds_left(
    sizes: Mapping[str, float], took: Mapping[str, float | None], workers: int
) -> float | None:
    """Time left, if trials take time by their sizes as finished ones did."""
    rest = [size for trial, size in sizes.items() if trial not in took]
    known = {trial: seconds for trial, seconds in took.items() if seconds is not None}
    size = sum(sizes[trial] for trial in known)
    if not rest or not size:
        return None if rest else 0.0
    return sum(known.values()) / size * max(sum(rest) / workers, max(rest))


def print_trials(rows: Sequence[Mapping[str, Any]]) -> None:
    lines: list[list[str]] = []
    above: tuple[str, str] = ("", "")  # names that repeat are left out
    for row in rows:
        experiment, variant = names = row["experiment"], quoted(row["variant"])
        outcome = row["outcome"] + ", stale" * row["stale"]
        value = "—" if row["score"] is None else f"{row['score']:.4g} {row['unit']}"
        shown = ["" if experiment == above[0] else experiment, "" if names == above else variant]
        cells = [str(row["seed"]), row["trial"], outcome, value.removesuffix(" 1")]
        lines.append([*shown, *cells])
        above = names
    headings = ("experiment", "variant", "seed", "trial", "outcome", "score")
    print_table(headings, lines, right=("seed",))


def print_chapters(rows: Sequence[Mapping[str, Any]]) -> float:
    """Print a line for each chapter; return the share of seeds that every variant has finished."""
    chapters: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        chapters.setdefault(re.split("[/ ]", row["experiment"])[0], []).append(row)
    lines, share = [], 1.0
    for chapter, own in chapters.items():
        variants: dict[tuple[str, str], list[str]] = {}  # → outcomes of its trials
        # Untrained trials have other seeds: they count only if nothing is trained.
        for row in [row for row in own if row["trained"]] or own:
            variants.setdefault((row["experiment"], row["variant"]), []).append(row["outcome"])
        seeds = max(map(len, variants.values()))
        seeded = [outcomes for outcomes in variants.values() if len(outcomes) == seeds]
        done = [sum(state in STATUSES for state in outcomes) for outcomes in seeded]
        share = min(share, min(done) / seeds)
        reached = f"{min(done)}" if min(done) == max(done) else f"{min(done)}–{max(done)}"
        states = Counter(row["outcome"] for row in own)
        rest = [f"{states[state]} {state}" for state in STATES if state != "ok" and states[state]]
        begun = f"{sum(map(bool, done))} of {len(done)}"
        lines.append([chapter, begun, f"{reached} of {seeds}", ", ".join(rest)])
    print_table(("chapter", "variants", "seeds", "trials"), lines)
    return share


def _titles(planned: Mapping[str, Any], names: Sequence[str], results: Results) -> list[str]:
    """The plan's entries that match a name: a title, an experiment or a chapter."""
    if not names:
        return list(planned)
    found: dict[str, None] = {}
    for name in names:
        meant = [
            title
            for title, entry in planned.items()
            if name in (title, entry["name"], entry["name"].partition("/")[0])
        ]
        if not meant:
            hint = nearest(name[:100], planned)
            raise ConfigError([f"no experiment '{name[:100]}' in {results.root}. {hint}"])
        found |= dict.fromkeys(meant)
    return list(found)
