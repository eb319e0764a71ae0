"""What the page says of a question in words: its answer, its claims, its limits, its examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.store.record import Record
from analysis.contrasts import Evidence
from analysis.load import WAITING
from analysis.names import UNITLESS, after_number, printable, short
from analysis.sentences import bounds, joined, named, number

DIFFERS = ("better", "worse", "higher", "lower")
TIE, NOT_RESOLVED, FEW, NOT_RUN = "tie", "not resolved", "few seeds", "not run"
SHOWN = 4  # an answer names this many variants that differ; the table has the rest
INPUTS, ARMS, LONGEST = 3, 4, 160  # of examples: inputs, variants, characters
Row = dict[str, Any]


# --- the answer


def answer(evidence: Evidence, question: str) -> str:
    """What the sweep says of a question, its names marked: differences first, largest first."""
    frame = evidence.contrasts
    rows = frame[frame["ablation"] == question].to_dict("records")
    done, planned = evidence.loaded.done(question)
    partial = "" if done == planned else f" Partial: {done} of {planned} trials done."
    if not rows:
        return f"No variants are compared here; its claims say what was found.{partial}"
    by_mark: dict[str, list[Row]] = {}
    for row in rows:
        by_mark.setdefault("differs" if row["mark"] in DIFFERS else row["mark"], []).append(row)
    if set(by_mark) == {NOT_RUN}:
        if done == planned:  # read at several places, or timed: no one number stands for an arm
            return f"No single {rows[0]['metric_label']} is compared; the tables have all of them."
        return f"Not run yet: {done} of {planned} trials done."
    told = by_mark.pop("differs", []) + by_mark.pop(FEW, [])
    ranked = sorted(told, key=lambda row: (row["mark"] == FEW, -abs(row["difference"])))
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
    than = f" than with {named(row['control'])}" if is_first else ""
    subject = f"the {row['metric_label']} is " if is_first else ""
    ends = f"95 % interval {bounds(*sorted((abs(low), abs(high))))}, n = {row['n']}"
    judged = f", {row['mark']}" if row["mark"] in ("better", "worse") else ""
    if row["mark"] == FEW:
        ends = f"n = {row['n']}: no mark from fewer than three"
    lost = [row["failures"], row["control_failures"] and f"control: {row['control_failures']}"]
    failed = "".join(f", {words}" for words in lost if words)
    return f"with {named(row['name'])} {subject}{change}{than} ({ends}){judged}{failed}"


def _rest(mark: str, rows: list[Row]) -> str:
    names = joined([named(row["name"]) for row in rows])
    if mark == TIE:
        return f"a tie with {named(rows[0]['control'])}: {names}"
    if mark == NOT_RESOLVED:
        return f"no difference is resolved for {names}"
    lost = [f"{named(row['name'])} ({row['failures']})" for row in rows if row["failures"]]
    return f"{mark}: {joined(lost) if len(lost) == len(rows) else names}"


# --- claims


def finding_text(finding: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """What was found for one prediction: `loss: none − sinusoidal +0.41 nats/token (0.38 to
    0.44); predicted: at least 0.1`; names marked."""
    told = finding["prediction"]
    known = metrics.get(told["metric"], {})
    label = known.get("label") or told["metric"].replace("_", " ")
    places = {**(told.get("across") or {}), **(told.get("at") or {})}
    where = ", ".join(f"{name.replace('_', ' ')} {place}" for name, place in places.items())
    required = "requires " if finding["role"] == "requires" else ""
    parts = [f"{required}{label}{f' at {where}' if where else ''}: {_subject(finding)}"]
    if finding["rates"]:
        rates = [f"{named(name)} {hits} of {n}" for name, (hits, n) in finding["rates"].items()]
        parts.append(f" success {', '.join(rates)};")
    if finding["effect"] is None:
        parts.append(f" {finding['reason']}" if finding["reason"] else " nothing measured")
        return "".join(parts)
    parts.append(f" {_size(finding, known.get('unit') or '')}")
    return "".join(parts) + _predicted(finding)


def _subject(finding: Mapping[str, Any]) -> str:
    """`none − sinusoidal`, `lstm over transformer`, `growth with each doubling of …`."""
    told = finding["prediction"]
    names = [*told["of"], *([told["than"]] if told.get("than") else [])]
    joint = " over " if finding["shows"] == "ratio" else " − " if told.get("than") else ", "
    subject = joint.join(map(named, names))
    plainly = ("difference", "ratio", "value", "difference of success rates")
    return subject if finding["shows"] in plainly else f"{subject}, {finding['shows']}"


def _size(finding: Mapping[str, Any], unit: str) -> str:
    """`+0.41 nats/token (95 % interval 0.385 to 0.435)`, `0.77 × (0.62 to 0.94)`."""
    low, high = (math.nan if finding[end] is None else finding[end] for end in ("low", "high"))
    is_ratio = finding["shows"] == "ratio" and finding["prediction"].get("than")
    has_unit = finding["shows"] in ("difference", "value") and unit not in UNITLESS
    after = " ×" if is_ratio else f" {unit}" if has_unit else ""
    sign = "+" if finding["shows"].startswith("difference") and finding["effect"] > 0 else ""
    ends = f" (95 % interval {bounds(low, high)})" if not math.isnan(low) else ""
    items = ""
    if finding["of_items"] is not None:
        items = f", {finding['of_items']:.0%} of its variance from test items"
    return f"{sign}{number(finding['effect'], (high - low) / 2)}{after}{ends}{items}"


def _predicted(finding: Mapping[str, Any]) -> str:
    """`; predicted at least 0.1`, `; predicted above 0`, `; predicted −0.02 to 0.02`."""
    low, high = finding["bounds"] or (None, None)
    if low is None and high is None:
        return ""
    if low is not None and high is not None:
        words = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    elif low is not None:
        words = f"at least {low:g}" if low else "above 0"
    else:
        words = f"at most {high:g}" if high else "below 0"
    return f"; predicted {words}".replace("-", "−")


# --- limits


def limits(evidence: Evidence, question: str) -> list[str]:
    """What the answer does not show, as plain sentences with names marked."""
    loaded = evidence.loaded
    entry = loaded.ablations[question]
    cells = loaded.cells[loaded.cells["ablation"] == question]
    trials = cells.drop_duplicates("trial")
    held = [loaded.records[trial] for trial in trials["trial"] if trial in loaded.records]
    trained = [record for record in held if record.trained]
    sizes = cells[cells["label"] == entry["control"]]["parameters"].dropna()
    taken = [(record.config.get("train") or {}).get("steps") for record in trained]
    steps = sorted({n for n in taken if isinstance(n, int)})
    seeds = cells["seed"].nunique()
    facts = [
        f"One task, {named(str(entry['task']))}",
        *([f"{int(sizes.max()):,} parameters (of the control)"] if len(sizes) else []),
        *([f"{' or '.join(f'{n:,}' for n in steps)} steps"] if steps else []),
        *(["untrained"] if held and not trained else []),
        f"{seeds} seed{'s' * (seeds != 1)}",
    ]
    found = [f"{', '.join(facts)}: it says nothing of others."]
    if trained and entry["arms"] == "fixed":
        found.append(
            "Learning rate, schedule and the other settings are the control's: a variant may lose "
            "only because they do not suit it."
        )
    if entry["arms"] == "tuned":
        found.append(
            "Each arm chose among the same few settings; a finer grid may choose others, and this "
            "choice is in no interval."
        )
    edges = [choice["label"] for choice in entry["tuning"] if choice["at_edge"]]
    if edges:
        names = joined([named(label) for label in dict.fromkeys(edges)])
        found.append(f"The best setting stood at the edge of the grid for {names}.")
    if entry.get("moves") not in (None, "", "nothing"):
        found.append(f"Not held fixed: {entry['moves']}.")
    outcomes = trials["outcome"].value_counts()
    failed = [f"{n} {kind}" for kind, n in outcomes.items() if kind not in ("ok", WAITING)]
    if failed:
        found.append(f"Of {outcomes.sum()} trials: {', '.join(failed)}. Means are over the rest.")
    if waiting := int(outcomes.get(WAITING, 0)):
        found.append(f"{waiting} of {outcomes.sum()} trials are still to be run.")
    if owed := int(trials["owed"].sum()):
        found.append(f"{owed} measures of trained models are still to be taken.")
    if stale := len(set(trials["trial"]) & evidence.loaded.stale):
        found.append(f"{stale} of its records were made by other code than is here.")
    speeds = evidence.speeds[evidence.speeds["ablation"] == question]
    if bool(speeds["noisy"].eq(True).any()):
        found.append(
            "Others were at work on the machine while this was timed: its ratios, taken in the "
            "same blocks, hold up better than its times."
        )
    return found


# --- examples


def examples(evidence: Evidence, question: str) -> list[dict[str, Any]]:
    """A few inputs with the outputs of the control and of the variants that differ most from it,
    all of the first seed and crossing at which the control has answered."""
    chosen = _answering(evidence, question)
    if not chosen:
        return []
    written = {name: {each.get("input"): each for each in r.examples} for name, r in chosen.items()}
    first, *others = written.values()
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


def _answering(evidence: Evidence, question: str) -> dict[str, Record]:
    """Label → record, the control's first."""
    loaded = evidence.loaded
    cells = loaded.cells[(loaded.cells["ablation"] == question) & (loaded.cells["outcome"] == "ok")]
    own = [c for c in cells.to_dict("records") if loaded.records[c["trial"]].examples]
    control = loaded.ablations[question]["control"]
    place = next(((c["across"], c["seed"]) for c in own if c["label"] == control), None)
    here = {
        c["label"]: loaded.records[c["trial"]] for c in own if (c["across"], c["seed"]) == place
    }
    rows = evidence.contrasts[evidence.contrasts["ablation"] == question]
    ranked = rows.reindex(rows["difference"].abs().sort_values(ascending=False).index)["label"]
    order = [label for label in dict.fromkeys([control, *ranked, *here]) if label in here]
    return {label: here[label] for label in order[:ARMS]}


def _shown(text: Any) -> str:
    return short(str(printable(str(text))), LONGEST)


def verdict_counts(claims: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    """`3 supported, 1 refuted`, in the order of `words`."""
    counts = {word: sum(claim["verdict"] == word for claim in claims) for word in words}
    return ", ".join(f"{n} {word}" for word, n in counts.items() if n)
