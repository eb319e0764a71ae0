"""Verdicts: what the measurements of an experiment say about each of its claims.

One rule: a prediction is supported if its 95 % interval lies inside the predicted range, refuted if
it lies outside, else undecided. Seeds are fixed beforehand and judged once, when all of them
are there; seeds asked for later are a batch of their own and judged alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ablations.store.predictions import prediction_of
from ablations.store.words import quoted
from analysis import stats
from analysis.cases import Case, cases
from analysis.contrasts import DIFFERS, Evidence, mostly_stuck
from analysis.load import Loaded, Row, scores
from analysis.predictions import REFUTED, SUPPORTED, UNDECIDED, measure
from analysis.wording import UNITLESS, bounds, check_known, named, number, plain, title_of

MIXED, NOT_RUN = "mixed", "not run"
VERDICTS = (SUPPORTED, REFUTED, MIXED, UNDECIDED, NOT_RUN)  # as they are listed
AT_EDGE = "its interval holds the edge of what is predicted"


def verdicts(loaded: Loaded) -> list[Row]:
    """Every claim of the plan, in its order, a row for each experiment."""
    return [
        _verdict(loaded, name, claim)
        for name, entry in loaded.experiments.items()
        for claim in entry["claims"]
    ]


def _verdict(loaded: Loaded, name: str, claim: Row) -> Row:
    """`remedy` is what would decide it, if it is undecided."""
    entry = loaded.experiments[name]
    required = [{**each, "role": "requires"} for each in claim.get("require", [])]
    predictions = [prediction_of(each) for each in [*claim["predicts"], *required]]
    every = [case for each in predictions for case in cases(loaded, name, each)]
    found = [finding(case) for case in every]
    is_trained = any(not case.is_timed and not case.is_fact for case in every)
    if entry["grid"] and not entry["tuning"]:
        word, reason = NOT_RUN, "its variants are not tuned here"
        remedy = f"`ablations tune {entry['name']}`"
    elif is_trained and (why := undertrained(loaded, name)) and any(f["n"] for f in found):
        word, reason = UNDECIDED, f"undertrained: {why}"
        remedy = "more steps, until the baseline knows its task"
    else:
        word, reason = judge(found)
        remedy = _remedy(every, found) if word in (UNDECIDED, NOT_RUN) else ""
    done, planned = loaded.done(name)
    return {
        **{key: claim[key] for key in ("id", "statement", "source")},
        "verdict": word,
        "reason": reason,
        "scope": _scope(loaded, name),
        "n": min(each["n"] for each in found if each["role"] == "predicts"),
        "findings": found,
        "remedy": remedy,
        "done": done,
        "trials": planned,
    }


def finding(case: Case) -> Row:
    """One prediction, measured and judged.

    `bounds` is the predicted range in the same unit, None at an open end; `n` counts seeds or
    processes; `needed` fresh seeds would decide it; `is_interval`: it is no exact count.
    """
    units, pending = case.ready()
    found = measure(case, units)
    needed = math.nan if pending else found.needed
    word = UNDECIDED if pending else found.verdict
    is_open = word == UNDECIDED and not pending
    shows = found.shows or case.prediction.shows
    low, high = (math.nan, math.nan) if found.is_fact else (found.low, found.high)
    shown = math.exp if found.is_log else float
    has_unit = shows in ("difference", "growth with each doubling", "value")
    return {
        "prediction": case.prediction.to_dict(),
        "verdict": word,
        "reason": pending or found.reason or (AT_EDGE if word == UNDECIDED else ""),
        "shows": shows,
        "effect": shown(found.effect),
        "low": shown(low),
        "high": shown(high),
        "bounds": tuple(None if edge is None else shown(edge) for edge in found.bounds),
        "n": found.n,
        "rates": found.rates,
        "unit": str(case.metric["unit"]) if has_unit else "",
        "of_items": found.of_items,
        "role": case.prediction.role,
        "needed": needed,
        "remedy": (found.remedy or _remedy_of(case, needed)) if is_open else "",
        "is_interval": not case.is_fact,
        "is_ready": not pending,
    }


def judge(found: Sequence[Row]) -> tuple[str, str]:
    """The verdict of several findings, and the reason if they give none."""
    predicted = [each for each in found if each["role"] == "predicts"]
    if not any(each["n"] for each in predicted):
        pending = next((each["reason"] for each in predicted if each["reason"]), "")
        return NOT_RUN, pending if "timed" in pending else "no planned seed has ended"
    for each in found:
        if not each["is_ready"]:
            return UNDECIDED, each["reason"]
    for each in found:
        if each["role"] == "requires" and each["verdict"] != SUPPORTED:
            p = each["prediction"]
            than = f" than {quoted(p['than'])}" if p.get("than") else ""
            subject = f"{' over '.join(map(quoted, p['variants']))} {p['kind']}{than}"
            return UNDECIDED, f"what it requires is {each['verdict']}: {subject}"
    words = {each["verdict"] for each in predicted}
    if len(words) == 1 and UNDECIDED not in words:
        return words.pop(), ""
    if {SUPPORTED, REFUTED} <= words:
        return MIXED, ""
    reasons = [each["reason"] for each in predicted if each["verdict"] == UNDECIDED]
    return UNDECIDED, "; ".join(dict.fromkeys(reasons))


def _remedy_of(case: Case, needed: float) -> str:
    """What would decide a prediction whose interval crosses an edge of the predicted range."""
    if case.is_timed:
        return "more processes (timing.processes), or a quieter machine"
    if math.isnan(needed):
        return ""
    if math.isinf(needed):
        return "a regime that separates them further: more seeds than are worth it"
    minutes = case.seconds() * needed / 60
    time = "" if math.isnan(minutes) else f" (about {max(1, round(minutes))} min of one core)"
    return f"about {needed:.0f} fresh seeds{time}"


def _remedy(every: Sequence[Case], found: Sequence[Row]) -> str:
    """What would decide a claim: the most seeds that one of its predictions needs."""
    pending = [(c, each) for c, each in zip(every, found, strict=True) if not each["is_ready"]]
    if any(case.is_timed for case, _ in pending):
        return "a larger profile, which times more"
    if any("needed for a verdict" in each["reason"] for _, each in pending):
        return f"at least {stats.LEAST} seeds (--seeds)"
    if pending:
        return "the experiment, run to its end"
    open_ = [each for each in found if each["verdict"] == UNDECIDED and each["remedy"]]
    other = [each["remedy"] for each in open_ if math.isnan(each["needed"])]
    most = max((each["needed"] for each in open_), default=0)
    return next(iter([*other, *(e["remedy"] for e in open_ if e["needed"] == most)]), "")


def _scope(loaded: Loaded, name: str) -> Row:
    """The experiment, task and size for which the verdict holds."""
    entry, trials = loaded.experiments[name], loaded.trials
    is_baseline = (trials["experiment"] == name) & (trials["variant"] == entry["baseline"])
    sizes = pd.to_numeric(trials[is_baseline]["parameters"]).dropna()
    return {
        "experiment": name,
        "task": entry["task"],
        "profile": entry["profile"],
        "parameters": int(sizes.max()) if len(sizes) else None,
    }


def undertrained(loaded: Loaded, name: str) -> str:
    """Why an experiment's baseline is too poor to compare with; empty if it is good enough."""
    entry = loaded.experiments[name]
    metric, baseline = entry["metric"], entry["baseline"]
    sign = 1 if metric["better"] == "higher" else -1
    trivial = {"trivial": "an answer without looking", "copied": "copying its source"}
    ended: list[str] = []
    for variant in [key for key in loaded.ids if key[:2] == (name, baseline)]:
        ended += loaded.outcomes.get(variant, {}).values()
        own, *others = (
            scores(loaded, variant, f"{kind}{metric['name']}", metric["split"], {})
            for kind in ("", *(f"{kind}_" for kind in trivial))
        )
        for other, words in zip(others, trivial.values(), strict=True):
            if own and other and sign * _mean(own) <= sign * _mean(other):
                return f"{baseline} scores no better than {words}"
    words = f"{ended.count('stuck')} of {len(ended)} of its baselines are stuck"
    return words if mostly_stuck(ended) else ""


def _mean(by_seed: dict[int, float]) -> float:
    return math.fsum(by_seed.values()) / len(by_seed)


def claims(evidence: Evidence, asked: Sequence[str] = ()) -> list[Row]:
    """Every claim of the plan, or only these, a row for each experiment; strict JSON."""
    found = [strict_json(each) for each in verdicts(evidence.loaded)]
    known = list(dict.fromkeys(each["id"] for each in found))
    for name in asked:
        check_known(name, known, "claim")
    return [each for each in found if not asked or each["id"] in asked]


def strict_json(value: Any) -> Any:
    """The same value with null for every number that is not finite."""
    if isinstance(value, dict):
        return {name: strict_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def verdict_counts(found: Sequence[Row]) -> str:
    """`3 supported, 1 refuted`."""
    counts = {word: sum(claim["verdict"] == word for claim in found) for word in VERDICTS}
    return ", ".join(f"{n} {word}" for word, n in counts.items() if n)


def expected_errors(found: Sequence[Row], contrasts: pd.DataFrame) -> str:
    """How many wrong verdicts and marks chance alone would produce."""
    findings = [each for claim in found for each in claim["findings"]]
    judged = sum(each["is_interval"] and each["is_ready"] and each["n"] > 0 for each in findings)
    marked = int(contrasts["mark"].isin((*DIFFERS, stats.TIE, stats.NOT_RESOLVED)).sum())
    return (
        f"Of {judged} predictions judged by an interval at most {0.025 * judged:.2g} verdicts are "
        f"expected to be wrong by chance; of {marked} differences in tables at most "
        f"{0.05 * marked:.2g} would be marked if none were real. Variants that share a baseline "
        "err together, and the choice of the learning rate is in no interval."
    )


# --- in words


def lines(claim: Row, evidence: Evidence) -> list[str]:
    """A claim for the terminal: its verdict, then a line for each prediction."""
    reason = f" ({claim['reason']})" if claim["reason"] else ""
    scope = claim["scope"]
    size = "" if scope["parameters"] is None else f", {scope['parameters']:,} parameters"
    partial = "" if claim["done"] == claim["trials"] else ", partial"
    metrics = evidence.loaded.experiments[scope["experiment"]]["metrics"]
    texts = [plain(finding_text(each, metrics)) for each in claim["findings"]]
    words = [each["verdict"] for each in claim["findings"]]
    return [
        f"{claim['id']}: {claim['verdict']}{reason}",
        f"  {claim['statement']} ({claim['source']})",
        f"  {scope['experiment']} on {scope['task']}{size}, n = {claim['n']}{partial}",
        *(f"  {word}: {text}" for word, text in zip(words, texts, strict=True)),
        *([f"  would decide it: {claim['remedy']}"] if claim["remedy"] else []),
    ]


def finding_text(finding: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """`loss: none − sinusoidal +0.41 nats/token (0.38 to 0.44); predicted at least 0.1`."""
    p = finding["prediction"]
    label = title_of(p["metric"], metrics)
    places = {**(p.get("factors") or {}), **(p.get("coordinates") or {})}
    where = ", ".join(f"{name.replace('_', ' ')} {place}" for name, place in places.items())
    required = "requires " if finding["role"] == "requires" else ""
    parts = [f"{required}{label}{f' at {where}' if where else ''}: {_sides(finding)}"]
    if finding["rates"]:
        rates = [f"{named(name)} {hits} of {n}" for name, (hits, n) in finding["rates"].items()]
        parts.append(f" success {', '.join(rates)};")
    if finding["effect"] is None:
        parts.append(f" {finding['reason']}" if finding["reason"] else " nothing measured")
        return "".join(parts)
    unit = metrics.get(p["metric"], {}).get("unit") or ""
    parts.append(f" {_size(finding, unit)}")
    return "".join(parts) + _predicted(finding)


def _sides(finding: Mapping[str, Any]) -> str:
    """`none − sinusoidal`, `lstm over transformer`, `growth with each doubling of …`."""
    p = finding["prediction"]
    names = [*p["variants"], *([p["than"]] if p.get("than") else [])]
    joint = " over " if finding["shows"] == "ratio" else " − " if p.get("than") else ", "
    subject = joint.join(map(named, names))
    plain_kinds = ("difference", "ratio", "value", "difference of success rates")
    return subject if finding["shows"] in plain_kinds else f"{subject}, {finding['shows']}"


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
