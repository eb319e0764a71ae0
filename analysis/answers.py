"""The prose about one experiment on the page: its answer, its limits and its examples."""

from __future__ import annotations

from typing import Any

from ablations.store.record import Record
from analysis import stats
from analysis.contrasts import DIFFERS, Evidence
from analysis.load import FINE, WAITING, Row
from analysis.wording import (
    after_number,
    bounds,
    joined,
    named,
    number,
    printable,
    short,
)

SIZED = ("differs", stats.UNFINISHED, stats.FEW)  # marks whose differences are spelt out
SHOWN = 4  # an answer names this many variants that differ; the table has the rest
INPUTS, VARIANTS, LONGEST = 3, 4, 160  # of examples: inputs, variants, characters


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
    change = f"{number(abs(size), (high - low) / 2)}{after_number(row['unit'])} "
    change += "higher" if size > 0 else "lower"
    than = f" than with {named(row['baseline'])}" if is_first else ""
    subject = f"the {row['metric_title']} is " if is_first else ""
    ends = f"95 % interval {bounds(*sorted((abs(low), abs(high))))}, n = {row['n']}"
    judged = f", {row['mark']}" if row["mark"] in ("better", "worse") else ""
    if row["mark"] == stats.FEW:
        ends = f"n = {row['n']}: no mark from fewer than three"
    lost = [row["failures"], row["baseline_failures"] and f"baseline: {row['control_failures']}"]
    failed = "".join(f", {words}" for words in lost if words)
    return f"with {named(row['name'])} {subject}{change}{than} ({ends}){judged}{failed}"


def _rest(mark: str, rows: list[Row]) -> str:
    names = joined([named(row["name"]) for row in rows])
    if mark == stats.TIE:
        return f"a tie with {named(rows[0]['baseline'])}: {names}"
    if mark == stats.NOT_RESOLVED:
        return f"no difference is resolved for {names}"
    lost = [f"{named(row['name'])} ({row['failures']})" for row in rows if row["failures"]]
    return f"{mark}: {joined(lost) if len(lost) == len(rows) else names}"


# --- limits


def limits(evidence: Evidence, experiment: str) -> list[str]:
    """Why the answer may not hold elsewhere, in sentences; names are marked."""
    loaded = evidence.loaded
    entry = loaded.experiments[experiment]
    cells = loaded.cells[loaded.cells["experiment"] == experiment]
    trials = cells.drop_duplicates("trial")
    records = loaded.held(experiment)
    trained = [record for record in records if record.trained]
    sizes = cells[cells["variant"] == entry["baseline"]]["parameters"].dropna()
    taken = [(record.config.get("train") or {}).get("steps") for record in trained]
    steps = sorted({n for n in taken if isinstance(n, int)})
    seeds = cells["seed"].nunique()
    facts = [
        f"One task, {named(str(entry['task']))}",
        *([f"{int(sizes.max()):,} parameters (of the baseline)"] if len(sizes) else []),
        *([f"{' or '.join(f'{n:,}' for n in steps)} steps"] if steps else []),
        *(["untrained"] if records and not trained else []),
        f"{seeds} seed{'s' * (seeds != 1)}",
    ]
    outcomes = trials["outcome"].value_counts()
    failed = [f"{n} {kind}" for kind, n in outcomes.items() if kind not in (FINE, WAITING)]
    waiting, missing = int(outcomes.get(WAITING, 0)), int(trials["owed"].sum())
    stale = len(set(trials["trial"]) & loaded.stale)
    edges = dict.fromkeys(named(tuned["variant"]) for tuned in entry["tuning"] if tuned["at_edge"])
    is_tuned = bool(entry["tuning"])
    moves = entry.get("changes") not in (None, "", "nothing")
    speeds = evidence.speeds[evidence.speeds["experiment"] == experiment]
    sentences = {
        f"{', '.join(facts)}: it says nothing of others.": True,
        "Learning rate, schedule and the other settings are the baseline's: a variant may lose "
        "only because they do not suit it.": trained and not is_tuned,
        "Each variant chose among the same few settings; a finer grid may choose others, and this "
        "choice is in no interval.": is_tuned,
        f"The best setting stood at the edge of the grid for {joined([*edges] or [''])}.": edges,
        f"Not held fixed: {entry.get('moves')}.": moves,
        f"Of {outcomes.sum()} trials: {', '.join(failed)}. Means are over the rest.": failed,
        f"{waiting} of {outcomes.sum()} trials are still to be run.": waiting,
        f"{missing} measures of trained models are still to be taken.": missing,
        f"{stale} of its records were made by other code than is here.": stale,
        "Other programs used the machine while this was timed: its ratios, taken in the same "
        "blocks, hold up better than its times.": speeds["noisy"].eq(True).any(),
    }
    return [sentence for sentence, is_true in sentences.items() if is_true]


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
    cells = loaded.cells
    cells = cells[(cells["experiment"] == experiment) & (cells["outcome"] == FINE)]
    own = cells[cells["trial"].map(lambda trial: bool(loaded.records[trial].examples)).astype(bool)]
    first = own[own["variant"] == baseline][["factors", "seed"]].head(1)
    here = own.merge(first, on=["factors", "seed"]).set_index("variant")["trial"].to_dict()
    rows = evidence.contrasts[evidence.contrasts["experiment"] == experiment]
    ranked = rows.reindex(rows["difference"].abs().sort_values(ascending=False).index)["variant"]
    order = [label for label in dict.fromkeys([baseline, *ranked, *here]) if label in here]
    return {label: loaded.records[here[label]] for label in order[:VARIANTS]}


def _shown(text: Any) -> str:
    return short(str(printable(str(text))), LONGEST)
