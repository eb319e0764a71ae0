"""Scores of answers, and the examples that a record shows. Not used in training.

Pronunciations, of which several may be right:

    PER = Σ edits to a reference / Σ phones of that reference
    WER = share of words with an edit

Which reference a word is measured against is the scoring:

- nearest: the one with fewest edits and, among equals, most phones
- any: the one that it equals or, if there is none, the first
- first: the first

Translations, by sacrebleu from 0 to 100: BLEU counts shared runs of words (Papineni et al. 2002),
chrF shared runs of letters (Popović 2015). The signatures say which variants, so that others can
compute the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rapidfuzz.distance import Levenshtein

from ablations.tasks.task import Example, Metric, Score

EXAMPLES = 6  # of the right answers, and as many of the wrong


def some_of_each(right: Sequence[float], *texts: Iterable[str]) -> list[Example]:
    """The first right and the first wrong answers; if there are few of one kind, more of the other.

    `texts` are all inputs, all targets and all outputs.
    """
    kinds = [[index for index, each in enumerate(right) if each == kind] for kind in (1, 0)]
    left_over = [max(0, EXAMPLES - len(kind)) for kind in reversed(kinds)]
    chosen = sorted(
        index
        for kind, extra in zip(kinds, left_over, strict=True)
        for index in kind[: EXAMPLES + extra]
    )
    written = [as_example(*each) for each in zip(*texts, strict=True)]
    return [written[index] for index in chosen]


def as_example(question: str, target: str, output: str) -> Example:
    return {"input": question, "target": target, "output": output}


def each_right(outputs: Sequence[Any], truths: Sequence[Any]) -> list[float]:
    """1 where an answer is right, else 0."""
    return [int(a == b) for a, b in zip(outputs, truths, strict=True)]


def accuracy(metric: str, outputs: Sequence[Any], truths: Sequence[Any]) -> Score:
    """The share of answers that are right."""
    right = each_right(outputs, truths)
    return Score(metric, sum(right) / len(right), per_example=right)


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


# Suffix of a metric → filter of words, choice of the reference, and words for tables.
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
        unit,
        "lower",
        f"{label} error rate, {note}" if ending else f"{label} error rate",
        matters=matters,
    )
    for ending, (_, _, note) in SCORINGS.items()
    for rate, unit, label, matters in (
        ("per", "edits/phone", "phone", 0.02),  # two phones in a hundred
        ("wer", "errors/word", "word", None),
    )
}


def score(outputs: Sequence[Ids], references: Sequence[References]) -> list[Score]:
    """Every metric of one set of answers; None where there is no such word."""
    scores: list[Score] = []
    for ending, (is_asked, choose, note) in SCORINGS.items():
        pairs = [both for both in zip(outputs, references, strict=True) if is_asked(len(both[1]))]
        if pairs:
            measured = [(output, choose(output, said)) for output, said in pairs]
            counts = [edits(*both) for both in measured]
            per = sum(counts) / sum(len(said) for _, said in measured)
            wer = sum(number > 0 for number in counts) / len(counts)
            items: list[list[float] | None] = [None, None]  # of the scoring that decides
            if not ending:
                items = [[*counts], [int(number > 0) for number in counts]]
            scores += [
                Score(f"{rate}{ending}", value, per_example=each)
                for rate, value, each in zip(("per", "wer"), (per, wer), items, strict=True)
            ]
        else:
            reason = f"no {note}"
            scores += [Score(f"{rate}{ending}", None, reason=reason) for rate in ("per", "wer")]
    return scores


def overlap(outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """`bleu` and `chrf` of a whole corpus."""
    return {name: float(score) for name, (score, _) in _score(outputs, references).items()}


def signatures() -> dict[str, str]:
    """sacrebleu's signature of each score."""
    return {name: signature for name, (_, signature) in _score(["a"], ["a"]).items()}


def _score(outputs: Sequence[str], references: Sequence[str]) -> dict[str, tuple[float, str]]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    assert len(outputs) == len(references) > 0
    scored: dict[str, tuple[float, str]] = {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        score = metric.corpus_score(list(outputs), [list(references)]).score
        scored[name] = (score, str(metric.get_signature()))
    return scored
