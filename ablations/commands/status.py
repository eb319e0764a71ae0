"""status: which trials are done, failed, running, stale or waiting, and how long the rest takes."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.commands.arguments import as_json, cores, names, names_of, results, results_of
from ablations.commands.terminal import print_json, print_table, working
from ablations.store.record import TRAINED, WHOLE, Record
from ablations.store.results import Results
from ablations.store.schema import STATUSES, RecordError
from ablations.store.stamp import changed
from ablations.store.words import listed, quoted
from model.config import ConfigError, nearest

STATES = (*STATUSES, "running", "stale", "waiting")
MOST_REASONS = 20
MOST, MOST_NAMED = 40, 400  # trials: of everything, and of experiments that are named


def arguments(parser: ArgumentParser) -> None:
    names(parser)
    as_json(parser)
    results(parser)


def act(options: Namespace) -> int:
    folder, asked = results_of(options), names_of(options)
    with working(f"Reading the records of {folder.root}"):
        found = look(folder, asked)
        if options.json:
            print_json(found)
            return 0
        if found["trials"]:
            print_trials(found["trials"], MOST_NAMED if asked else MOST)
            print()
        print(summary(found))
    return 0


def look(results: Results, names: Sequence[str] = ()) -> dict[str, Any]:
    """The trials of the named experiments, or of all that are planned, as they are now: how many
    are in each state, why some failed, and each of them."""
    from ablations.leases import Leases

    planned = results.read_plan()["ablations"]
    running = {lease.name for lease in Leases(results.root / "leases").live()}
    titles = _titles(planned, names, results)
    cells = [(title, cell) for title in titles for cell in planned[title]["cells"]]
    asked: dict[str, set[str]] = {}  # trial → measures
    for _, cell in cells:
        asked.setdefault(cell["trial"], set()).update(cell["measures"])
    metrics = {title: planned[title]["metric"] for title in titles}
    trials = {
        trial: _look_at(trial, results, trial in running, measures, metrics)
        for trial, measures in asked.items()
    }
    counts = Counter(trial["outcome"] for trial in trials.values())
    sizes = {cell["trial"]: float(cell["work"]) for _, cell in cells}
    took = {name: trial["seconds"] for name, trial in trials.items() if "seconds" in trial}
    return {
        **dict.fromkeys(STATES, 0),
        **counts,
        "stale": sum(trial["stale"] for trial in trials.values()),
        "unmeasured": sum(trial["unmeasured"] for trial in trials.values()),
        "seconds_left": seconds_left(sizes, took, counts["running"] or cores()),
        "reasons": [reason for trial in trials.values() for reason in trial["reasons"]],
        "set_aside": sorted(path.name for path in results.trials.glob("*.bad-*")),
        "trials": [
            {
                "experiment": title,
                "variant": variant_of(cell),
                "seed": cell["seed"],
                "trial": cell["trial"],
                "outcome": trials[cell["trial"]]["outcome"],
                "stale": trials[cell["trial"]]["stale"],
                "score": trials[cell["trial"]]["scores"].get(title),
                "unit": metrics[title]["unit"],
                "role": cell["role"],
            }
            for title, cell in cells
        ],
    }


def _look_at(
    trial: str,
    results: Results,
    is_running: bool,
    measures: set[str],
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """What one record says; `seconds` only of a trial that is over."""
    found: dict[str, Any] = {"stale": False, "unmeasured": False, "reasons": [], "scores": {}}
    try:
        record = results.read(trial)
    except RecordError as error:  # it will be run again
        record, found["reasons"] = None, [str(error)]
    found["outcome"] = "running" if is_running else record.status if record else "waiting"
    if record is None:
        return found
    reasons = [record.reason.splitlines()[0]] if record.reason else []
    reasons += [f"{what} failed: {why}" for what, why in record.failures.items()]
    if reasons:
        attempt = f" (attempt {record.attempts})" if record.attempts > 1 else ""
        found["reasons"] = [f"{trial} {record.status}: {'; '.join(reasons)}{attempt}"]
    found["scores"] = {title: score(record, metric) for title, metric in metrics.items()}
    if not is_running:
        made_by = [record.measures.get(each, {}) for each in measures]
        found["stale"] = any(map(changed, [record.env.get("code") or {}, *made_by]))
        is_trained = record.status in TRAINED
        found["unmeasured"] = is_trained and not measures <= record.measures.keys()
        found["seconds"] = record.env.get("seconds") if record.status in WHOLE else None
    return found


def score(record: Record, metric: Mapping[str, Any]) -> float | None:
    """What a trial has reached at its last step; None where its record does not say."""
    found = [
        (float(each.at.get("step", math.inf)), each.value)
        for each in record.readings
        if each.metric == metric["name"]
        and each.split in (None, metric["split"])
        and not each.at.keys() - {"step"}
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def summary(found: Mapping[str, Any]) -> str:
    from ablations.progress import roughly

    outcomes = {row["trial"]: row["outcome"] for row in found["trials"] if row["stale"]}
    stale = Counter(outcomes.values())
    states = [
        f"{found[state]} {state}" + (f" ({stale[state]} stale)" if stale[state] else "")
        for state in STATES
        if found[state] and state != "stale"
    ]
    line = ", ".join(states) or "nothing is planned"
    line += f"; {found['unmeasured']} not all measured" if found["unmeasured"] else ""
    line += f"; left {roughly(found['seconds_left'])}" if found["seconds_left"] else ""
    lines = [line, *(f"  {reason}" for reason in found["reasons"][:MOST_REASONS])]
    if (more := len(found["reasons"]) - MOST_REASONS) > 0:
        lines.append(f"  and {more} more; --json lists all")
    if found["set_aside"]:
        lines.append(f"  set aside, unusable: {', '.join(found['set_aside'])}")
    return "\n".join(lines)


def seconds_left(
    sizes: Mapping[str, float], took: Mapping[str, float | None], workers: int
) -> float | None:
    """By what finished trials took for their sizes; no less than the largest of the rest takes."""
    rest = [size for trial, size in sizes.items() if trial not in took]
    known = {trial: seconds for trial, seconds in took.items() if seconds is not None}
    size = sum(sizes[trial] for trial in known)
    if not rest or not size:
        return None if rest else 0.0
    return sum(known.values()) / size * max(sum(rest) / workers, max(rest))


def variant_of(cell: Mapping[str, Any]) -> str:
    """A variant with its levels of the factors, as one types it: `post:6`."""
    return ":".join((cell["label"], *cell["across"].values()))


def print_trials(rows: Sequence[Mapping[str, Any]], most: int) -> None:
    """The first of them, and how to see the rest."""
    lines: list[list[str]] = []
    above: tuple[str, str] = ("", "")  # names that repeat are left out
    for row in rows[:most]:
        experiment, variant = names = row["experiment"], quoted(row["variant"])
        outcome = row["outcome"] + ", stale" * row["stale"]
        outcome += "" if row["role"] == "report" else f" ({row['role']})"
        value = "—" if row["score"] is None else f"{row['score']:.4g} {row['unit']}"
        shown = ["" if experiment == above[0] else experiment, "" if names == above else variant]
        cells = [str(row["seed"]), row["trial"], outcome, value.removesuffix(" 1")]
        lines.append([*shown, *cells])
        above = names
    headings = ("experiment", "variant", "seed", "trial", "outcome", "score")
    print_table(headings, lines, right=("seed",))
    if rest := rows[most:]:
        experiments = list(dict.fromkeys(row["experiment"] for row in rest))
        few = listed(experiments[:8]) + " …" * (len(experiments) > 8)
        print(f"and {len(rest):,} more, of {few}: `status NAME` lists an experiment, --json all")


def _titles(planned: Mapping[str, Any], names: Sequence[str], results: Results) -> list[str]:
    """The entries of the plan that are meant: each as it is titled, or all of an experiment."""
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
