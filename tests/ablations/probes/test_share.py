"""Which part of a model the work, the weights and the time are spent in."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import nn

from ablations.probes import share
from ablations.probes.share import Share
from ablations.store.record import Measurement
from model.build import build
from model.feedforward import FEEDFORWARD
from model.flops import count
from model.mixers import Mixer

CPU = torch.device("cpu")


def by_part(measurements: list[Measurement], metric: str) -> dict[Any, dict[str, float]]:
    """Where → part → share; of times, in the first process."""
    found: dict[Any, dict[str, float]] = defaultdict(dict)
    for measurement in measurements:
        if measurement.metric == metric and "part" in measurement.coordinates:
            where = (
                measurement.coordinates.get("preset"),
                measurement.coordinates.get("tokens_over_width"),
            )
            value = measurement.value if measurement.values is None else measurement.values[0]
            found[where][str(measurement.coordinates["part"])] = value
    return found


@pytest.mark.parametrize(
    ("task", "kind"), [(TEXT, "decoder"), (PAIRS, "encoder_decoder")], ids=["text", "pairs"]
)
def test_shares_are_those_of_the_count_and_sum_to_one(
    monkeypatch: pytest.MonkeyPatch, task: Any, kind: str
) -> None:
    monkeypatch.setattr(share, "RATIOS", (0.5, 4.0))
    monkeypatch.setattr(share, "PROCESSES", 2)
    config = transformer(kind=kind, depth=2)
    measurements = Share().measure(config, task, CPU).measurements
    for metric in share.Share.metrics:
        for where, parts in by_part(measurements, metric).items():
            assert sum(parts.values()) == pytest.approx(1), (metric, where)
    with torch.device("meta"):
        model = build(config["model"], task.source_size, task.target_size, 0)
    for ratio in (0.5, 4.0):
        length = int(ratio * 8)
        cost = count(model, length if task.source_size else None, length)
        whole = sum(cost.flops.values())
        expected = {kind: flops / whole for kind, flops in cost.flops.items() if flops}
        assert by_part(measurements, "flops_share")[None, ratio] == pytest.approx(expected)
    whole = sum(p.numel() for p in model.parameters())
    expected = {kind: size / whole for kind, size in cost.parameters.items() if size}
    assert by_part(measurements, "parameter_share")[None, None] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sleeps", "part"),
    [(tuple(FEEDFORWARD.components.values()), "feedforward"), (Mixer, "mixing")],
    ids=["feedforward", "mixing"],
)
def test_time_that_a_part_sleeps_is_that_parts(
    monkeypatch: pytest.MonkeyPatch, sleeps: Any, part: str
) -> None:
    def sleepy(*words: Any) -> nn.Module:
        model = build(*words)
        module = next(module for module in model.modules() if isinstance(module, sleeps))
        forward = module.forward

        def late(*given: Any, **options: Any) -> Any:
            time.sleep(0.02)
            return forward(*given, **options)

        vars(module)["forward"] = late
        return model

    monkeypatch.setattr(share, "build", sleepy)
    monkeypatch.setattr(share, "in_child", lambda work: (work(None), None))
    monkeypatch.setattr(share, "RATIOS", (1.0,))
    monkeypatch.setattr(share, "PROCESSES", 1)
    shares = by_part(Share().measure(transformer(), TEXT, CPU).measurements, "time_share")[
        None, 1.0
    ]
    assert shares[part] > 0.6
    assert max(shares, key=lambda kind: shares[kind]) == part
