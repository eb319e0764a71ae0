"""How often a verdict is wrong by luck, through the functions that judge.

Truths on the edge of what is predicted (A/A where that edge is zero), simulated: each word but
*undecided* is then wrong on one side or the other, and 5 % of them are allowed, 2.5 % a side. Runs
short, and long with `-m soak`; with -s it prints its table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import Planted, says, timed
from scipy import stats as scipy_stats

from ablations.store.record import Measurement
from analysis.claims import verdicts
from analysis.contrasts import DIFFERS, Evidence

Draw = np.random.Generator
Noise = Callable[[Draw, int], Any]
SIZES = [pytest.param(40, id="short"), pytest.param(1000, id="long", marks=pytest.mark.soak)]
BATCH = 100  # questions of one folder
NOISES: dict[str, Noise] = {
    "normal": lambda draw, n: draw.normal(0, 1, n),
    "Laplace": lambda draw, n: draw.laplace(0, 1, n),
    "skewed": lambda draw, n: draw.lognormal(0, 1, n) - math.exp(0.5),
}
FACTOR = [{"width": str(width)} for width in (8, 16, 32, 64)]
Fill = Callable[[Planted, str, list[int], Draw, Noise], None]


def level(shift: float, sd: float = 0.01) -> Fill:
    """The variant is off by exactly the shift, and each side has luck of its own."""

    def fill(p: Planted, name: str, seeds: list[int], draw: Draw, noise: Noise) -> None:
        shared = draw.normal(0, 0.02, len(seeds))
        one, two = noise(draw, len(seeds)), draw.normal(0, 0.1, len(seeds))
        for i, seed in enumerate(seeds):
            p.record("a", seed, 0.5 + shared[i] + sd * two[i], name=name)
            p.record("b", seed, 0.5 + shared[i] + shift + sd * one[i], name=name)

    return fill


def items(p: Planted, name: str, seeds: list[int], draw: Draw, noise: Noise) -> None:
    """No true difference; the items' luck is as large as the seeds'."""
    I = 60  # noqa: E741
    by_item, by_seed = draw.normal(0, 0.3, I), 0.05 * noise(draw, len(seeds))
    for i, seed in enumerate(seeds):
        base = 5 + draw.normal(0, 0.5, I)
        other = base + by_seed[i] + by_item + draw.normal(0, 0.3, I)
        for label, own in (("a", base), ("b", other)):
            p.record(label, seed, float(own.mean()), name=name, per_example={"per": own.tolist()})


def along(value: Callable[[float, float, float], float]) -> Fill:
    """Along the width the variant moves by a luck of each seed alone, its baseline by none."""

    def fill(p: Planted, name: str, seeds: list[int], draw: Draw, noise: Noise) -> None:
        tilt = 0.05 * noise(draw, len(seeds))
        for factors in FACTOR:
            x = float(factors["width"])
            for i, seed in enumerate(seeds):
                p.record("a", seed, value(x, 0.0, draw.normal(0, 0.01)), name=name, factors=factors)
                own = value(x, tilt[i], draw.normal(0, 0.01))
                p.record("b", seed, own, name=name, factors=factors)

    return fill


def rises(x: float, tilt: float, luck: float) -> float:
    return 2.0 + luck + tilt * (math.log2(x) - 4.5)


def grows(x: float, tilt: float, luck: float) -> float:
    return float(x ** (1.0 + tilt) * math.exp(luck))


def ratio(p: Planted, name: str, seeds: list[int], draw: Draw, noise: Noise) -> None:
    for seed, luck in zip(seeds, 0.05 * noise(draw, len(seeds)), strict=True):
        shared = draw.lognormal(0, 0.2)
        p.record("a", seed, shared, name=name)
        p.record("b", seed, shared * 1.23 * math.exp(luck), name=name)


def arrival(p: Planted, name: str, seeds: list[int], draw: Draw, noise: Noise) -> None:
    """Both arrive at the same step but for luck; validations stand close together."""
    for seed, luck in zip(seeds, 0.1 * noise(draw, len(seeds)), strict=True):
        for label, step in (("a", 150.0), ("b", 150.0 * math.exp(luck))):
            steps = {max(1, round(step) - 1): 2.0, max(2, round(step)): 0.5}
            curve = [Measurement("loss", "u", y, "valid", {"step": x}) for x, y in steps.items()]
            p.record(label, seed, 0.3, *curve, name=name)


def rate(share: float, together: float) -> Fill:
    """Both succeed as often; `together` of the seeds bring the same luck to both."""

    def fill(p: Planted, name: str, seeds: list[int], draw: Draw, noise: Noise) -> None:
        for seed in seeds:
            luck = draw.random()
            own = luck if draw.random() < together else draw.random()
            for label, mine in (("a", luck), ("b", own)):
                status = "ok" if mine < share else "diverged"
                p.record(label, seed, 0.3, name=name, status=status)

    return fill


def clock(p: Planted, name: str, seeds: list[int], draw: Draw, noise: Noise) -> None:
    """A model beside itself, and a copy of the reference, in three processes."""
    for label in ("a", "b"):
        measurements = timed(1.0)
        for measurement in measurements:
            measurement.samples = [math.exp(0.02 * noise(draw, 1)[0])]
            measurement.baseline_again = [math.exp(0.02 * noise(draw, 1)[0])]
        p.record(label, seeds[0], None, *measurements, name=name)


KINDS: dict[str, tuple[Fill, dict[str, Any], dict[str, Any]]] = {
    "worse, A/A": (level(0.0), says("worse"), {}),
    "better by 0.1, on the edge": (level(-0.1), says("better", by=0.1), {}),
    "not worse by 0.02, on the edge": (level(0.02), says("better", by=-0.02), {}),
    "equal within 0.02, on the edge": (level(0.02), says("equal", within=0.02), {}),
    "worse, seeds and items": (items, says("worse"), {}),
    "grows, A/A": (along(rises), says("grows", along="width"), {"crossings": FACTOR}),
    "exponent, on the edge": (
        along(grows), says("exponent", along="width", between=[1.0, None]), {"crossings": FACTOR}),
    "ratio, on the edge": (ratio, says("ratio", than="a", between=[1.23, None]), {}),
    "steps to a loss, A/A": (
        arrival, says("worse", metric="steps_to_reach", coordinates={"loss": 1.0}), {}),
    "time ratio, A/A": (
        clock, says("ratio", metric="step_time", than="a", between=[1.0, None]),
        {"metric": "step_time"}),
    "rates .5, A/A": (rate(0.5, 0.0), says("fails"), {}),
    "rates .5, shared luck": (rate(0.5, 0.5), says("fails"), {}),
    "rates .85, A/A": (rate(0.85, 0.0), says("worse", threshold=9.0), {}),
}  # fmt: skip


def words(kind: str, noise: Noise, runs: int, n: int) -> tuple[Counter[str], int]:
    """Verdicts of so many made-up questions, and how many differences a table would mark."""
    fill, predicts, changes = KINDS[kind]
    draw = np.random.default_rng([n, runs, len(kind)])
    seeds = list(range(300, 300 + n))
    found: Counter[str] = Counter()
    marked = 0
    for start in range(0, runs, BATCH):
        planted = Planted()
        for number in range(start, min(runs, start + BATCH)):
            name = f"q{number}"
            planted.question(predicts, name=name, batches=[seeds], **changes)
            fill(planted, name, seeds, draw, noise)
        loaded = planted.loaded()
        found.update(each["verdict"] for each in verdicts(loaded))
        if kind == "worse, A/A":
            marked += int(Evidence.of(loaded).contrasts["mark"].isin(DIFFERS).sum())
    return found, marked


def shown(kind: str, noise: str, n: int, wrong: int, runs: int) -> str:
    low, high = scipy_stats.binomtest(wrong, runs).proportion_ci()
    return f"{kind:34} {noise:8} n={n:<3} {wrong / runs:.3f} ({low:.3f} to {high:.3f})"


def is_allowed(wrong: int, runs: int, rate: float = 0.05) -> bool:
    """Whether so many are still likely at the rate that is allowed."""
    return bool(scipy_stats.binom.sf(wrong - 1, runs, rate) > 1e-4)


@pytest.mark.parametrize("runs", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_verdict_on_the_edge_is_wrong_at_most_once_in_twenty(kind: str, runs: int) -> None:
    is_level = not kind.startswith(("rates", "time"))
    for noise in ("normal", "Laplace") if runs >= 1000 and is_level else ("normal",):
        for n in (3, 5, 10) if runs >= 1000 and not kind.startswith("time") else (5,):
            found, _ = words(kind, NOISES[noise], runs, n)
            wrong = runs - found["undecided"]
            print(shown(kind, noise, n, wrong, runs))
            assert sum(found.values()) == runs
            assert is_allowed(wrong, runs), (kind, noise, n, found)


@pytest.mark.soak
def test_skewed_luck_is_said_to_err_more_often() -> None:
    """A lognormal variant against a tight control: not promised, and reported as it is."""
    runs = 1000
    for kind in KINDS:
        if kind.startswith(("rates", "time")):
            continue
        for n in (5, 10):
            found, _ = words(kind, NOISES["skewed"], runs, n)
            wrong = runs - found["undecided"]
            print(shown(kind, "skewed", n, wrong, runs))
            assert wrong / runs < 0.25


@pytest.mark.parametrize("runs", SIZES)
def test_no_more_than_one_difference_in_twenty_is_marked_where_none_is_real(runs: int) -> None:
    found, marked = words("worse, A/A", NOISES["normal"], runs, 5)
    print(shown("marks, A/A", "normal", 5, marked, runs))
    assert is_allowed(marked, runs)
    assert marked == runs - found["undecided"]  # tables and claims judge by one interval
