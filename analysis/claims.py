"""Verdicts: what the measurements of a question make of each claim that it registers.

One rule: a prediction is supported where its 95 % interval lies inside what is predicted, refuted
where it lies outside, else undecided. Seeds are fixed beforehand and judged once, when all of them
are there; seeds asked for later are a batch of their own and judged alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from ablations.store.predictions import Prediction, prediction_of
from ablations.store.words import quoted
from analysis import stats
from analysis.contrasts import DIFFERS, Evidence
from analysis.load import Loaded
from analysis.names import choose
from analysis.predictions import REFUTED, SUPPORTED, UNDECIDED, Case, cases, measure
from analysis.scores import outcomes, scores
from analysis.sentences import bounds, number

MIXED, NOT_RUN = "mixed", "not run"
VERDICTS = (SUPPORTED, REFUTED, MIXED, UNDECIDED, NOT_RUN)  # as they are listed
AT_EDGE = "its interval holds the edge of what is predicted"


@dataclass(frozen=True)
class Finding:
    """What was measured for one prediction, and the word that its interval says."""

    prediction: Prediction
    word: str
    reason: str
    shows: str
    effect: float
    low: float
    high: float
    bounds: stats.Bounds
    """Between which numbers it is predicted, in the same unit; None where it is open."""
    n: int
    """Seeds, or processes of what is timed."""
    rates: dict[str, tuple[int, int]] | None
    """Variant → seeds that succeeded, of how many."""
    unit: str
    of_items: float | None
    """The share of its variance that comes from the test items: more seeds do not reduce it."""
    role: str
    needed: float
    """Fresh seeds that would decide it."""
    remedy: str
    is_interval: bool
    """Whether an interval judges it: a count is a fact."""
    is_ready: bool
    """Whether every planned seed is there."""


@dataclass(frozen=True)
class Verdict:
    """One claim at one scope."""

    id: str
    statement: str
    source: str
    verdict: str
    reason: str
    scope: dict[str, Any]
    n: int
    findings: list[Finding] = field(default_factory=list)
    remedy: str = ""
    """What would decide it, where it is open."""


def verdicts(loaded: Loaded) -> list[Verdict]:
    """Every claim of the plan, in its order."""
    return [
        _verdict(loaded, name, claim)
        for name, entry in loaded.ablations.items()
        for claim in entry["claims"]
    ]


def _verdict(loaded: Loaded, name: str, claim: dict[str, Any]) -> Verdict:
    required = [{**each, "role": "requires"} for each in claim.get("require", [])]
    predictions = [prediction_of(each) for each in [*claim["predicts"], *required]]
    every = [case for each in predictions for case in cases(loaded, name, each)]
    found = [finding(case) for case in every]
    arms = loaded.ablations[name]["arms"]
    is_trained = any(not case.is_timed and not case.is_fact for case in every)
    if predictions[0].arms == "tuned" != arms:
        word, reason = NOT_RUN, "its arms are not tuned here: run it with --tune"
        remedy = "the question with --tune"
    elif is_trained and (control := undertrained(loaded, name)) and any(f.n for f in found):
        word, reason = UNDECIDED, f"undertrained: {control}"
        remedy = "more steps, until the control knows its task"
    else:
        word, reason = judge(found)
        remedy = _remedy(every, found) if word in (UNDECIDED, NOT_RUN) else ""
    told = {key: claim[key] for key in ("id", "statement", "source")}
    n = min(each.n for each in found if each.role == "predicts")
    scope = _scope(loaded, name)
    return Verdict(**told, verdict=word, reason=reason, scope=scope, n=n, findings=found,
                   remedy=remedy)  # fmt: skip


def finding(case: Case) -> Finding:
    """One prediction, measured and judged."""
    units, pending = case.ready()
    found = measure(case, units)
    needed = math.nan if pending else found.needed
    word = UNDECIDED if pending else found.word
    reason = pending or found.reason
    if not reason and word == UNDECIDED:
        reason = AT_EDGE
    shows = found.shows or case.prediction.shows
    low, high = (math.nan, math.nan) if found.is_fact else (found.low, found.high)
    shown = math.exp if found.is_log else float
    least, most = (None if edge is None else shown(edge) for edge in found.bounds)
    has_unit = shows in ("difference", "growth with each doubling", "value")
    return Finding(
        case.prediction,
        word,
        reason,
        shows,
        shown(found.effect),
        shown(low),
        shown(high),
        (least, most),
        n=found.n,
        rates=found.rates,
        unit=str(case.metric.get("unit", "")) if has_unit else "",
        of_items=found.of_items,
        role=case.prediction.role,
        needed=needed,
        remedy="" if pending or word != UNDECIDED else found.remedy or _remedy_of(case, needed),
        is_interval=not case.is_fact,
        is_ready=not pending,
    )


def judge(found: Sequence[Finding]) -> tuple[str, str]:
    """The verdict of several findings, and why it is none."""
    predicted = [each for each in found if each.role == "predicts"]
    if not any(each.n for each in predicted):
        pending = next((each.reason for each in predicted if each.reason), "")
        return NOT_RUN, pending if "timed" in pending else "no planned seed has ended"
    for each in found:
        if not each.is_ready:
            return UNDECIDED, each.reason
    for each in found:
        if each.role == "requires" and each.word != SUPPORTED:
            return UNDECIDED, f"what it requires is {each.word}: {_subject(each.prediction)}"
    words = {each.word for each in predicted}
    if len(words) == 1 and UNDECIDED not in words:
        return words.pop(), ""
    if {SUPPORTED, REFUTED} <= words:
        return MIXED, ""
    reasons = [each.reason for each in predicted if each.word == UNDECIDED]
    return UNDECIDED, "; ".join(dict.fromkeys(reasons))


def _remedy_of(case: Case, needed: float) -> str:
    """What would decide one prediction whose interval holds an edge."""
    if case.is_timed:
        return "more processes (timing.processes), or a quieter machine"
    if math.isnan(needed):
        return ""
    if math.isinf(needed):
        return "a regime that separates them further: more seeds than are worth it"
    minutes = case.seconds() * needed / 60
    time = "" if math.isnan(minutes) else f" (about {max(1, round(minutes))} min of one core)"
    return f"about {needed:.0f} fresh seeds{time}"


def _remedy(every: Sequence[Case], found: Sequence[Finding]) -> str:
    """What would decide a claim: of the predictions that only lack seeds, by the one that lacks
    most."""
    if any(not each.is_ready for each in found):
        timed = any(case.is_timed and not each.is_ready
                    for case, each in zip(every, found, strict=True))  # fmt: skip
        return "a larger profile, which times more" if timed else "the question, run to its end"
    open_ = [each for each in found if each.word == UNDECIDED and each.remedy]
    other = [each.remedy for each in open_ if math.isnan(each.needed)]
    most = max(open_, key=lambda each: each.needed, default=None)
    return other[0] if other else most.remedy if most else ""


def _scope(loaded: Loaded, name: str) -> dict[str, Any]:
    """Where it was tried: the verdict holds there, and nowhere else."""
    entry = loaded.ablations[name]
    cells = loaded.cells[loaded.cells["ablation"] == name]
    control = pd.to_numeric(cells[cells["label"] == entry["control"]]["parameters"]).dropna()
    return {
        "question": name,
        "task": entry["task"],
        "profile": entry["profile"],
        "parameters": int(control.max()) if len(control) else None,
    }


def undertrained(loaded: Loaded, name: str) -> str:
    """Why a question's control cannot be judged by; empty if it can."""
    entry = loaded.ablations[name]
    metric, control = entry["metric"], entry["control"]
    places = [across for table, label, across in loaded.trials if (table, label) == (name, control)]
    sign = 1 if metric["better"] == "higher" else -1
    told = {"trivial": "an answer without looking", "copied": "copying its source"}
    ended: list[str] = []
    for across in places:
        ended += outcomes(loaded, name, control, across).values()
        own, *others = (
            scores(loaded, name, control, across, f"{kind}{metric['name']}", metric["split"], {})
            for kind in ("", *(f"{kind}_" for kind in told))
        )
        for other, words in zip(others, told.values(), strict=True):
            if own and other and sign * _mean(own) <= sign * _mean(other):
                return f"{control} scores no better than {words}"
    stuck = ended.count("stuck")
    return f"{stuck} of {len(ended)} of its controls are stuck" if 2 * stuck > len(ended) else ""


def _mean(by_seed: dict[int, float]) -> float:
    return math.fsum(by_seed.values()) / len(by_seed)


@dataclass(frozen=True)
class ExpectedErrors:
    """How many verdicts and marks chance alone would make: of predictions that an interval judges,
    and of differences in tables that an interval marks."""

    judged: int
    differences: int

    def __str__(self) -> str:
        return (
            f"Of {self.judged} predictions judged by an interval at most {0.025 * self.judged:.2g} "
            f"verdicts are expected to be wrong by chance; of {self.differences} differences in "
            f"tables at most {0.05 * self.differences:.2g} would be marked if none were real. "
            "Variants that share a baseline err together, and the choice of the learning rate is "
            "in no interval."
        )


def expected_errors(found: Sequence[Verdict], contrasts: pd.DataFrame) -> ExpectedErrors:
    """Of everything that these verdicts and contrasts judge by an interval."""
    findings = [each for verdict in found for each in verdict.findings]
    judged = [each for each in findings if each.is_interval and each.is_ready and each.n]
    marks = (*DIFFERS, stats.TIE, stats.NOT_RESOLVED)
    return ExpectedErrors(len(judged), int(contrasts["mark"].isin(marks).sum()))


def claims(evidence: Evidence, asked: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every claim of the plan, or those that are asked for, a row for each scope; strict JSON."""
    found = verdicts(evidence.loaded)
    known = list(dict.fromkeys(each.id for each in found))
    for name in asked:
        choose(name, known, "claim")
    return [_document(each, evidence) for each in found if not asked or each.id in asked]


def _document(each: Verdict, evidence: Evidence) -> dict[str, Any]:
    done, planned = evidence.loaded.done(each.scope["question"])
    findings = [{**asdict(f), "prediction": f.prediction.to_dict()} for f in each.findings]
    shallow = {**vars(each), "findings": findings}
    return dict(plain({**shallow, "done": done, "trials": planned}))


def plain(value: Any) -> Any:
    """What strict JSON can say: a number that is not finite is null."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def lines(claim: dict[str, Any]) -> list[str]:
    """A claim for the terminal: the verdict first, then a line for each of its predictions."""
    reason = f" ({claim['reason']})" if claim["reason"] else ""
    scope = claim["scope"]
    size = "" if scope["parameters"] is None else f", {scope['parameters']:,} parameters"
    partial = "" if claim["done"] == claim["trials"] else ", partial"
    return [
        f"{claim['id']}: {claim['verdict']}{reason}",
        f"  {claim['statement']} ({claim['source']})",
        f"  {scope['question']} on {scope['task']}{size}, n = {claim['n']}{partial}",
        *(f"  {_line(each)}" for each in claim["findings"]),
        *([f"  would decide it: {claim['remedy']}"] if claim["remedy"] else []),
    ]


def _subject(p: Prediction) -> str:
    """`“none” worse than “sinusoidal”`."""
    than = getattr(p, "than", None)
    other = f" than {quoted(than)}" if than else ""
    return f"{' over '.join(map(quoted, p.of))} {p.word}{other}"


def _line(each: dict[str, Any]) -> str:
    p = prediction_of(each["prediction"])
    role = "requires " if each["role"] == "requires" else ""
    text = f"{role}{_subject(p)}: {each['word']}"
    low, high = (math.nan if each[end] is None else each[end] for end in ("low", "high"))
    if each["rates"]:
        told = [
            f"{quoted(name)} {hits} of {n} ({bounds(*stats.rate_ends(hits, n))})"
            for name, (hits, n) in each["rates"].items()
        ]
        text = f"{text}; succeed: {', '.join(told)}"
    if each["effect"] is None:
        return text
    effect = f"{each['shows']} of {p.metric} {number(each['effect'], (high - low) / 2)}"
    ends = f", 95 % interval {bounds(low, high)}" if not math.isnan(low) else ""
    luck = "" if each["of_items"] is None else f" ({each['of_items']:.0%} of it test items)"
    return f"{text}; {effect}{ends}{luck}"
