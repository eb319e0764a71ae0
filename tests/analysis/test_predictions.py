"""Each kind of prediction with a planted truth: supported, refuted, undecided or withheld."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from planted import Planted, at_end, only, says, timed

from ablations.store.record import Measurement

SEEDS = [300, 301, 302, 303, 304]
LUCK = dict(zip(SEEDS, (0.00, 0.03, -0.02, 0.05, 0.01), strict=True))
OWN = dict(zip(SEEDS, (0.001, -0.001, 0.002, -0.002, 0.0), strict=True))  # of the variant
S, R, U = "supported", "refuted", "undecided"
T4, T2 = 2.776445, 4.302653  # t of 4 and of 2 degrees of freedom


def finding(planted: Planted) -> SimpleNamespace:
    (found,) = only(planted).findings
    return found


def levels(a: float, b: float, *predicts: dict[str, Any], **changes: Any) -> Planted:
    planted = Planted()
    planted.question(*predicts, **changes)
    for seed in SEEDS:
        planted.record("a", seed, a + LUCK[seed])
        planted.record("b", seed, b + LUCK[seed] + OWN[seed])
    return planted


@pytest.mark.parametrize(
    ("kind", "fields", "b", "expected"),
    [
        ("worse", {"by": 0.1}, 0.45, S),
        ("worse", {"by": 0.1}, 0.30, R),
        ("worse", {"by": 0.1}, 0.351, U),
        ("better", {"by": 0.1}, 0.10, S),
        ("better", {}, 0.45, R),
        ("better", {"by": -0.1}, 0.30, S),  # worse, by less than that
        ("better", {"by": -0.1}, 0.45, R),
        ("equal", {"within": 0.02}, 0.251, S),
        ("equal", {"within": 0.02}, 0.30, R),
        ("equal", {"within": 0.02}, 0.20, R),
        ("equal", {"within": 0.02}, 0.27, U),
        ("equal", {"within": 0.001}, 0.25, U),  # wider than its margin
    ],
)
def test_a_level_is_judged_by_where_its_interval_lies(
    kind: str, fields: dict[str, Any], b: float, expected: str
) -> None:
    found = finding(levels(0.25, b, says(kind, **fields)))
    assert (found.verdict, found.n, found.shows) == (expected, 5, "difference")
    half = T4 * 0.0015811388 / math.sqrt(5)
    ends = found.effect, found.low, found.high
    assert ends == pytest.approx((b - 0.25, b - 0.25 - half, b - 0.25 + half))
    assert found.unit == "edits/phone"


def test_where_higher_is_better_the_signs_turn() -> None:
    for word, b, expected in (("better", 0.9, S), ("worse", 0.9, R), ("worse", 0.1, S)):
        planted = levels(0.5, b, says(word, metric="accuracy", by=0.1), metric="accuracy")
        found = finding(planted)
        assert found.verdict == expected
        assert found.bounds == ((0.1, None) if word == "better" else (None, -0.1))


@pytest.mark.parametrize("lost", ["diverged", "stuck", "oom", "no score"])
def test_a_failed_seed_on_either_side_withholds_a_level(lost: str) -> None:
    for side in ("a", "b"):
        planted = levels(0.25, 0.9, says("worse", by=0.1))
        planted.record(side, 302, status="ok" if lost == "no score" else lost)
        found = only(planted)
        reason = "1 of 5 seeds have no score" if lost == "no score" else "1 of 5 seeds failed"
        assert (found.verdict, found.reason) == (U, reason)
        assert math.isnan(found.findings[0].effect)
        assert "fresh seeds" in found.remedy


def test_the_same_difference_in_every_seed_has_no_interval() -> None:
    planted = Planted()
    planted.question(says("worse"))
    for seed in SEEDS:
        planted.record("a", seed, 0.25)
        planted.record("b", seed, 0.5)
    assert only(planted).reason.startswith("the same in every seed")


def test_stored_items_widen_a_level_and_say_their_share() -> None:
    planted, draw, scores = Planted(), np.random.default_rng(0), {}
    planted.question(says("worse"))
    hard = draw.random(200)
    for seed in SEEDS:
        for label, extra in (("a", 0.2), ("b", 0.25)):
            items = (draw.random(200) < extra * 2 * hard).astype(float).tolist()
            scores[label, seed] = float(np.mean(items))
            planted.record(label, seed, scores[label, seed], per_example={"per": items})
    found = finding(planted)
    assert found.of_items is not None
    assert 0 <= found.of_items <= 1
    d = [scores["b", s] - scores["a", s] for s in SEEDS]
    assert found.effect == pytest.approx(np.mean(d))
    assert found.high - found.effect >= T4 * np.std(d, ddof=1) / math.sqrt(5) * (1 - 1e-6)


def rates(a: int, b: int, *predicts: dict[str, Any], n: int = 5) -> Planted:
    """So many of n seeds are past an accuracy of 0.9."""
    planted, seeds = Planted(), list(range(300, 300 + n))
    planted.question(*predicts, metric="accuracy", batches=[seeds])
    for label, hits in (("a", a), ("b", b)):
        for i, seed in enumerate(seeds):
            planted.record(label, seed, 0.95 if i < hits else 0.5)
    return planted


@pytest.mark.parametrize(
    ("kind", "a", "b", "n", "expected"),
    [
        *(("better", 0, 5, 5, S), ("better", 1, 5, 5, S), ("better", 2, 5, 5, U)),
        *(("better", 5, 5, 5, U), ("better", 5, 0, 5, R), ("worse", 5, 1, 5, S)),
        *(("fails", 5, 0, 5, S), ("fails", 0, 5, 5, R), ("fails", 9, 3, 10, S)),
        ("fails", 9, 7, 10, U),
    ],
)
def test_a_rate_is_judged_as_a_difference_of_rates(
    kind: str, a: int, b: int, n: int, expected: str
) -> None:
    found = finding(rates(a, b, says(kind, metric="accuracy", threshold=0.9), n=n))
    assert (found.verdict, found.n) == (expected, n)
    assert found.shows == "difference of success rates"
    assert found.rates == {"b": (b, n), "a": (a, n)}
    assert found.effect == pytest.approx((b - a) / n)


def test_a_rate_counts_failed_seeds_as_failures_and_withholds_for_a_lost_score() -> None:
    planted = rates(5, 5, says("fails"), says("worse", metric="accuracy", threshold=0.9))
    for seed in SEEDS:
        planted.record("b", seed, status="diverged")
    assert {f.verdict for f in only(planted).findings} == {S}
    planted.record("b", 300)
    assert [f.verdict for f in only(planted).findings] == [S, U]
    assert only(planted).findings[1].reason == "1 of 5 seeds have no score"
    below = finding(levels(0.5, 0.2, says("better", threshold=0.3)))  # where lower is better
    assert (below.verdict, below.rates) == (S, {"b": (5, 5), "a": (0, 5)})


def learned(*predicts: dict[str, Any], b: tuple[int, ...]) -> Planted:
    """The baseline is down to a loss of 1 after 100 steps in every seed, the variant after b."""
    planted = Planted()
    planted.question(*predicts)
    for seed, own in zip(SEEDS, b, strict=True):
        for label, arrives in (("a", 100), ("b", own)):
            losses = {step: 0.5 if step >= arrives else 2.0 for step in range(10, 310, 10)}
            curve = [
                Measurement("loss", "nats", y, "valid", {"step": x}) for x, y in losses.items()
            ]
            planted.record(label, seed, 0.3, *curve)
    return planted


@pytest.mark.parametrize(
    ("kind", "steps", "expected"),
    [
        ("worse", (200, 210, 190, 200, 220), S),
        ("better", (200, 210, 190, 200, 220), R),
        ("better", (50, 60, 50, 70, 60), S),
        ("worse", (110, 90, 100, 80, 120), U),
    ],
)
def test_steps_to_a_loss_are_compared_as_a_ratio(
    kind: str, steps: tuple[int, ...], expected: str
) -> None:
    prediction = says(kind, metric="steps_to_reach", coordinates={"loss": 1.0})
    found = finding(learned(prediction, b=steps))
    logs = np.log(np.array(steps) / 100)
    assert (found.verdict, found.shows) == (expected, "ratio")
    half = T4 * logs.std(ddof=1) / math.sqrt(5)
    ends = np.exp(logs.mean() + np.array([0, -half, half]))
    assert (found.effect, found.low, found.high) == pytest.approx(tuple(ends))
    late = only(learned(prediction, b=(999, *steps[1:])))
    assert late.reason == "1 of 5 seeds never reached the loss"


def along(a: Any, b: Any, *predicts: dict[str, Any]) -> Planted:
    """Each label's value is a function of the width, which is a crossed factor."""
    planted = Planted()
    crossings = [{"width": str(width)} for width in (8, 16, 32, 64)]
    planted.question(*predicts, crossings=crossings)
    for across in crossings:
        for seed in SEEDS:
            x = float(across["width"])
            planted.record("a", seed, a(x) * (1 - OWN[seed]), factors=across)
            planted.record("b", seed, b(x) * (1 + OWN[seed]), factors=across)
    return planted


def power(x: float) -> float:
    return x**2


@pytest.mark.parametrize(
    ("between", "expected"), [([1.9, 2.1], S), ([None, 1.5], R), ([2.0, None], U), ([2.5, 3.0], R)]
)
def test_an_exponent_is_the_slope_of_the_logarithms(between: list[Any], expected: str) -> None:
    planted = along(lambda x: 1.0, power, says("exponent", along="width", between=between))
    for seed in SEEDS:  # some luck in the slope
        planted.record("b", seed, 64**2 * (1 + 10 * OWN[seed]), factors={"width": "64"})
    found = finding(planted)
    assert (found.verdict, found.shows) == (expected, "exponent")
    assert found.low < 2.0 < found.high


@pytest.mark.parametrize(("sign", "expected"), [(-1, S), (1, R), (0, U)])
def test_a_lead_grows_where_its_slope_is_positive(sign: int, expected: str) -> None:
    """Errors: the lead over `a` is how far below it lies."""
    says_ = says("grows", along="width")
    found = finding(along(lambda x: 10.0, lambda x: 10.0 + sign * math.log2(x) / 3, says_))
    assert (found.verdict, found.shows) == (expected, "growth with each doubling")
    assert found.effect == pytest.approx(-sign / 3, abs=0.02)


def test_a_coordinate_is_walked_where_every_variant_was_read() -> None:
    planted = Planted()
    planted.question(says("grows", "b", than="a", along="depth"))
    for seed in SEEDS:
        for label, slope, depths in (("a", 0.0, (2, 4, 8)), ("b", -1.0, (2, 4, 8, 64))):
            value = {x: 10.0 + slope * math.log2(x) + seed % 3 * 0.01 * x for x in depths}
            value[64] = 99.0  # what only one has is left out
            planted.record(label, seed, 0.3, *(at_end("per", value[x], depth=x) for x in depths))
    found = finding(planted)
    assert found.effect == pytest.approx(1.0, abs=0.05)
    assert found.n == 5


def test_since_leaves_out_what_comes_before() -> None:
    says_ = says("exponent", along="width", since=16, between=[0.9, 1.1])
    bent = along(lambda x: 1.0, lambda x: max(x, 16.0) * (1 + 1e-3 * x), says_)
    assert finding(bent).effect == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("b", "expected"),
    [
        (lambda x: 20 + 4 * math.log2(x / 23), S),  # below, then above
        (lambda x: 20 - 4 * math.log2(x / 23), R),  # the other way
        (lambda x: 40.0, R),  # above throughout
        (lambda x: 20.0, U),
    ],
)
def test_a_crossing_is_lower_before_and_higher_after(b: Any, expected: str) -> None:
    found = finding(along(lambda x: 20.0, b, says("crosses", "b", "a", along="width")))
    assert found.verdict == expected
    if expected == R:  # what was measured less far refutes nothing
        far = says("crosses", "b", "a", along="width", until=128)
        again = finding(along(lambda x: 20.0, b, far)).verdict
        assert again == (U if b(8) == b(64) else R)
    if expected == S:
        assert found.low < 23 < found.high
        assert found.effect == pytest.approx(23, rel=0.05)


def test_what_no_factor_is_named_for_is_judged_at_every_level() -> None:
    found = only(along(lambda x: 0.25, lambda x: 0.5 if x < 64 else 0.2, says("worse")))
    words = {f.prediction["factors"]["width"]: f.verdict for f in found.findings}
    assert words == {"8": S, "16": S, "32": S, "64": R}
    assert found.verdict == "mixed"


@pytest.mark.parametrize(
    ("than", "between", "expected"),
    [("a", [1.5, 2.5], S), ("a", [None, 1.5], R), (None, [0.4, 0.6], S), ("a", [2.0, None], U)],
)
def test_a_ratio_is_the_mean_of_log_ratios(than: Any, between: list[Any], expected: str) -> None:
    planted = Planted()
    planted.question(says("ratio", than=than, between=between))
    for seed in SEEDS:
        planted.record("a", seed, 0.25)
        planted.record("b", seed, 0.5 * math.exp(3 * OWN[seed]))
    found = finding(planted)
    assert (found.verdict, found.shows, found.bounds) == (expected, "ratio", tuple(between))
    assert found.effect == pytest.approx(2.0 if than else 0.5)
    assert found.low < found.effect < found.high
    planted.record("b", 300, 0.0)
    assert "no logarithm" in only(planted).reason


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [(1.0, 3.0, S), (1.0, 1.0, R), (1.2, 3.0, R)],
    ids=["holds", "its control holds too", "is off"],
)
def test_an_exact_value_needs_its_positive_control(own: float, other: float, expected: str) -> None:
    planted = Planted()
    planted.question(says("exact", value=1.0, within=0.1, fails_for="a"), batches=[[300]])
    planted.record("b", 300, own)
    planted.record("a", 300, other)
    found = finding(planted)
    assert (found.verdict, found.effect, found.shows) == (expected, own, "value")
    assert math.isnan(found.low)
    assert not found.is_interval


def test_the_positive_control_of_an_exact_value_may_be_another_place() -> None:
    says_ = says(
        "exact", coordinates={"of": "words"}, value=3, within=0.0, fails_at={"of": "blocks"}
    )
    planted = Planted()
    planted.question(says_, batches=[[300]])
    planted.record("a", 300, 1.0)
    for blocks, expected in ((12.0, S), (3.0, R)):
        places = at_end("per", 3.0, of="words"), at_end("per", blocks, of="blocks")
        planted.record("b", 300, None, *places)
        assert finding(planted).verdict == expected
    planted.record("b", 300, None, at_end("per", 3.0, of="words"))
    assert only(planted).reason == "a seed has no value, of it or its control"


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("ratio", {"than": "a", "between": [1.9, 2.1]}, S),
        ("ratio", {"than": "a", "between": [2.1, None]}, R),
        ("better", {"by": -50}, R),  # on the edge is outside
        ("worse", {"by": 50}, R),
    ],
)
def test_what_is_counted_is_a_fact_from_one_seed(
    kind: str, fields: dict[str, Any], expected: str
) -> None:
    planted = Planted()
    planted.question(says(kind, metric="work", **fields), metric="work", batches=[[300]])
    planted.record("a", 300, 50.0)
    planted.record("b", 300, 100.0)
    found = finding(planted)
    assert (found.verdict, found.n) == (expected, 1)
    assert found.effect == pytest.approx(2.0 if kind == "ratio" else 50.0)
    assert math.isnan(found.low)
    assert not found.is_interval


def times(
    b: list[Measurement], *predicts: dict[str, Any], a: list[Measurement] | None = None
) -> Planted:
    planted = Planted()
    planted.question(*predicts, metric="step_time", batches=[[300]])
    planted.record("a", 300, None, *(timed(1.0) if a is None else a))
    planted.record("b", 300, None, *b)
    return planted


@pytest.mark.parametrize(
    ("ratio", "twin", "other", "between", "expected"),
    [
        (2.0, 0.01, 0.01, [1.5, None], S),
        (2.0, 0.01, 0.01, [None, 1.5], R),
        (1.02, 0.01, 0.01, [1.0, None], U),  # three processes say ± 4 %
        (2.0, 0.3, 0.01, [1.5, None], U),  # two copies of one model differ by as much
        (2.0, 0.01, 0.3, [1.5, None], U),  # on its other side
    ],
)
def test_a_ratio_of_times_is_as_wide_as_two_copies_of_one_model(
    ratio: float, twin: float, other: float, between: list[Any], expected: str
) -> None:
    fields = {"metric": "step_time", "than": "a", "between": between}
    planted = times(timed(ratio, 0.02, twin), says("ratio", **fields), a=timed(1.0, twin=other))
    found = finding(planted)
    assert (found.verdict, found.n) == (expected, 3)
    assert found.low < found.effect < found.high
    same = [math.log(1 + twin * shift) for shift in (0, -1, 2)]
    floor = abs(np.mean(same)) + T2 * np.std(same, ddof=1) / math.sqrt(3)
    assert math.log(found.high / found.effect) >= floor * (1 - 1e-6)


def test_times_are_judged_from_three_processes_on_and_need_a_copy_of_the_baseline() -> None:
    says_ = says("ratio", metric="step_time", than="a", between=[1.5, None])
    alone = timed(2.0)
    for measurement in alone:
        measurement.baseline_again = None
    for measurements, reason in (
        (timed(2.0, processes=2), "timed in 2 processes; 3 are needed"),
        ([], "not timed at the places that it looks at"),
        (alone, "not timed against a copy of itself"),
    ):
        assert finding(times(measurements, says_)).reason == reason


def test_times_cross_and_grow_along_a_length_within_one_session() -> None:
    def at_all(f: Any, session: str = "s1", spread: float = 0.02) -> list[Measurement]:
        return [
            r
            for n in (8, 32, 128, 512)
            for r in timed(f(n), spread * (1 + n / 512), session=session, length=n)
        ]

    crosses = says("crosses", "b", "a", metric="step_time", along="length")
    grows = says("exponent", metric="step_time", along="length", between=[1.9, 2.1])
    found = only(times(at_all(lambda n: n * n / 40), crosses, grows, a=at_all(float, spread=0.01)))
    assert [f.verdict for f in found.findings] == [S, S]
    assert found.findings[0].low < 40 < found.findings[0].high
    elsewhere = times(at_all(lambda n: n * n / 40, "s2"), crosses, a=at_all(float, spread=0.01))
    assert "different sessions" in only(elsewhere).reason


@pytest.mark.parametrize(
    ("b", "shift", "expected"),
    [
        (0.251, 0.005, S),  # a quarter of the margin
        (0.251, 0.015, "still moving: the difference has not settled"),
        (0.275, -0.015, "still moving: the difference has not settled"),
        (0.35, 0.015, R),  # another such move would leave it outside
    ],
)
def test_an_equality_whose_difference_still_moves_is_undecided(
    b: float, shift: float, expected: str
) -> None:
    """Two thirds through the training the variant was further off by so much."""
    planted = levels(0.25, b, says("equal", within=0.02))
    for trial, record in planted.records.items():
        late = (record.measurements[0].value or 0.0) + (shift if "-b-" in trial else 0.0)
        record.measurements.append(at_end("per", late, step=200))
    found = only(planted)
    assert expected in (found.verdict, found.reason)
    assert (found.verdict == U) == expected.startswith("still moving")
