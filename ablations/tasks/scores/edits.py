"""How far answers are from what was asked for, where several answers may be right.

    PER = Σ edits to a reference / Σ phones of that reference
    WER = share of words with an edit

Which reference a word is measured against is the scoring:

- nearest: the one with fewest edits and, among equals, most phones
- any: the one that it equals or, if there is none, the first
- first: the first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rapidfuzz.distance import Levenshtein

from ablations.tasks.task import Metric, Score

Ids = Sequence[int]
References = Sequence[Ids]


def edits(output: Ids, reference: Ids) -> int:
    """Ids to insert, delete or replace (Levenshtein 1966)."""
    return Levenshtein.distance(output, reference)


def nearest(output: Ids, references: References) -> Ids:
    if len(references) == 1:
        return references[0]
    return min(references, key=lambda said: (edits(output, said), -len(said)))


def equal_or_first(output: Ids, references: References) -> Ids:
    return output if output in references else references[0]


def first(output: Ids, references: References) -> Ids:
    return references[0]


# The end of a metric's name → which words, how they are scored, and what a table says of it.
Scoring = tuple[Callable[[int], bool], Callable[[Ids, References], Ids], str]
SCORINGS: dict[str, Scoring] = {
    "": (lambda references: True, nearest, "nearest of all pronunciations"),
    "_any": (lambda references: True, equal_or_first, "any pronunciation, else the first"),
    "_first": (lambda references: True, first, "first pronunciation"),
    "_one": (lambda references: references == 1, nearest, "words with one pronunciation"),
    "_several": (lambda references: references > 1, nearest, "words with several pronunciations"),
}
METRICS = {
    f"{rate}{ending}": Metric(
        unit, "lower", f"{label} error rate, {note}" if ending else f"{label} error rate"
    )
    for ending, (_, _, note) in SCORINGS.items()
    for rate, unit, label in (("per", "edits/phone", "phone"), ("wer", "errors/word", "word"))
}


def score(outputs: Sequence[Ids], references: Sequence[References]) -> list[Score]:
    """Every metric of one set of answers; None where there is no such word."""
    scores: list[Score] = []
    for ending, (is_asked, choose, note) in SCORINGS.items():
        pairs = [both for both in zip(outputs, references, strict=True) if is_asked(len(both[1]))]
        if pairs:
            measured = [(output, choose(output, said)) for output, said in pairs]
            counts = [edits(*both) for both in measured]
            per, wer = error_rates(counts, measured)
            items: list[list[float] | None] = [None, None]  # of the scoring that decides
            if not ending:
                items = [[*counts], [int(number > 0) for number in counts]]
            scores += [
                Score(f"{rate}{ending}", value, items=each)
                for rate, value, each in zip(("per", "wer"), (per, wer), items, strict=True)
            ]
        else:
            reason = f"no {note}"
            scores += [Score(f"{rate}{ending}", None, reason=reason) for rate in ("per", "wer")]
    return scores


def error_rates(counts: Sequence[int], measured: Sequence[tuple[Ids, Ids]]) -> tuple[float, float]:
    """PER and WER, by the edits between outputs and the references they are measured against."""
    wrong = sum(count > 0 for count in counts)
    return sum(counts) / sum(len(reference) for _, reference in measured), wrong / len(counts)
