"""How near translations are to the ones that were asked for, by sacrebleu, from 0 to 100.

BLEU counts shared runs of words (Papineni et al. 2002), chrF shared runs of letters (Popović 2015).
The signatures say which variants, so that others can compute the same.
"""

from __future__ import annotations

from collections.abc import Sequence


def overlap(outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """`bleu` and `chrf` of a whole corpus."""
    return {name: float(score) for name, (score, _) in _score(outputs, references).items()}


def signatures() -> dict[str, str]:
    """How each score is taken, in sacrebleu's own words."""
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
