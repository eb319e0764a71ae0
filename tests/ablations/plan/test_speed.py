"""How long a trial will take, by counted work and by what was measured on this machine once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ablations.plan.facts import cost_facts
from ablations.plan.speed import KINDS, Speed, SpeedPoint, kind_of, speed_of
from ablations.plan.wanted import Plan, make_plan
from ablations.sweep.calibrate import counted_clock, measure_speed

Ask = Callable[..., str]
PARALLEL, STEPWISE = KINDS
SPEED = Speed(
    [
        SpeedPoint(PARALLEL, 1e6, 4e-9),
        SpeedPoint(PARALLEL, 1e8, 1e-9),
        SpeedPoint(STEPWISE, 1e6, 8e-9),
        SpeedPoint(STEPWISE, 1e8, 8e-9),
    ]
)


@pytest.fixture
def plan(ask: Ask) -> Plan:
    recurrent = {"model": {"name": "recurrent", "kind": "encoder_decoder", "d_model": 16}}
    variants = {"with": {}, "long": {"train.steps": 8}, "recurrent": recurrent}
    return make_plan([ask(variants=variants)], "smoke", {}, [0])


@pytest.mark.parametrize(
    ("flops", "rate"), [(1e6, 4e-9), (1e7, 2e-9), (1e8, 1e-9), (1.0, 4e-9), (1e12, 1e-9)]
)
def test_between_two_sizes_the_rate_is_between_theirs(flops: float, rate: float) -> None:
    assert SPEED.rate(PARALLEL, flops) == pytest.approx(rate)
    assert SPEED.rate(STEPWISE, flops) == pytest.approx(8e-9)


def test_a_trial_takes_its_steps_and_its_looks_at_validation(plan: Plan) -> None:
    plain, long, recurrent = plan.wanted.values()
    train = plain.config["train"]
    flops = cost_facts(plain.frozen["model"], plain.frozen["task"]).flops_per_token
    rate = SPEED.rate(PARALLEL, flops * train["batch_tokens"] / train["parts"])
    more = SPEED.seconds(long) - SPEED.seconds(plain)
    assert more == pytest.approx(4 * rate * flops * train["batch_tokens"])
    looks = SPEED.seconds(plain) - more  # as many steps
    longest = 40 * 20  # words of validation, and more letters than any of them has
    assert 0 < looks < 3 * rate * flops * longest
    assert (kind_of(plain.config["model"]), kind_of(recurrent.config["model"])) == KINDS


def test_a_machine_is_measured_once_and_then_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured: list[str] = []

    def measure() -> Speed:
        measured.append("")
        return SPEED

    assert [speed_of("cpu", measure).points for _ in range(3)] == [SPEED.points] * 3
    assert len(measured) == 1
    speed_of("another device", measure)
    assert len(measured) == 2
    file = tmp_path / "attention-ablated" / "speed.json"
    for text in ("{", "[]", '{"cpu": 3}', file.read_text().replace("rate", "colour")):
        file.write_text(text)
        assert speed_of("cpu", measure).points == SPEED.points
    assert len(measured) == 6


def test_a_place_that_keeps_nothing_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert speed_of("cpu", lambda: SPEED).points == SPEED.points


def test_measuring_takes_steps_of_each_kind_and_leaves_the_threads_as_they_were() -> None:
    threads = torch.get_num_threads()
    speed = measure_speed(torch.device("cpu"))
    assert [point.kind for point in speed.points] == [PARALLEL] * 2 + [STEPWISE] * 2
    for small, large in (speed.points[:2], speed.points[2:]):
        assert 10 * small.flops < large.flops
        assert 1e-13 < large.rate < 1e-6
    assert torch.get_num_threads() == threads


def test_the_clock_of_a_plan_takes_no_step_of_its_trials(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("ablations.sweep.calibrate.measure_speed", lambda _: SPEED)
    wants = list(plan.wanted.values())
    expected = [SPEED.seconds(want) for want in wants]
    monkeypatch.setattr("model.build.build", None)
    assert counted_clock(torch.device("cpu"))(wants) == expected
