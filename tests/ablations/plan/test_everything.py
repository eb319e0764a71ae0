"""What is run where no question is named: every claim of the ledger, the cheap ones first."""

from __future__ import annotations

from ablations.measure import is_timing
from ablations.plan.question import PROFILES, Ablation, catalogue, ledger, read_ablation
from ablations.plan.wanted import everything, is_trained

AXES = ("position", "norm", "heads", "scale", "smoothing", "recurrent")


def asked(name: str) -> Ablation:
    return read_ablation(catalogue()[name])[0]


def first_claim(name: str) -> str:
    order = list(ledger())
    return min((claim.id for claim, _ in asked(name).predictions), key=order.index)


def test_every_claim_of_the_ledger_is_decided_by_a_question_at_every_profile() -> None:
    for profile in PROFILES:
        named = {claim.id for name in everything(profile) for claim, _ in asked(name).predictions}
        assert named == set(ledger()), profile


def test_what_needs_no_training_comes_first_but_for_what_is_timed_besides_the_axes() -> None:
    order = everything("quick")
    axes = [order.index(name) for name in order if first_claim(name).startswith(AXES)]
    late = []
    for name in order[order.index("position") :]:
        if not is_trained(asked(name)):
            late.append(name)
            assert order.index(name) > max(axes)
            assert any(map(is_timing, asked(name).measures))
    assert {"length", "crossover"} <= set(late)
    assert order.index("speed") < order.index("position")
    trained = [first_claim(name).startswith(AXES) for name in order if is_trained(asked(name))]
    assert trained == sorted(trained, reverse=True), "the six axes before the rest"


def test_quick_has_no_question_without_a_claim_and_full_has_all() -> None:
    assert all(asked(name).claims for name in everything("quick"))
    assert set(everything("full")) == set(catalogue())
    assert not asked("initial").claims  # so the first statement says something
    assert "initial" in everything("quick", "all")


def test_a_question_that_is_too_large_for_a_profile_waits_for_a_larger_one() -> None:
    assert asked("warmup-deeper").least == "full"
    for profile, is_in in {"smoke": False, "quick": False, "full": True, "gpu": True}.items():
        assert ("warmup-deeper" in everything(profile, "all")) == is_in
