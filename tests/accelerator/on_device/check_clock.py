"""Times include what the device does late, and peaks are those of the device that computes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from ablations.benchmarks.child import in_child, peak_bytes
from ablations.benchmarks.session import clock

LAST = torch.device("standin", torch.accelerator.device_count() - 1)


@pytest.fixture
def late() -> Iterator[None]:
    """Each kernel ends 5 ms after the one before it."""
    torch.ops.standin.set_late(5000)
    yield
    torch.accelerator.synchronize(LAST)
    torch.ops.standin.set_late(20)


@pytest.mark.usefixtures("late")
def test_a_call_is_timed_until_its_last_kernel_has_ended() -> None:
    x = torch.ones(3, device=LAST)

    def call() -> None:
        for _ in range(10):
            x.add_(1)

    assert clock(call, LAST) >= 0.05


def test_a_peak_is_read_on_the_device_that_computes() -> None:
    assert peak_bytes(lambda: torch.empty(1000, device=LAST), LAST) == 4096


def test_a_measuring_process_can_open_the_device_that_this_one_has_open() -> None:
    torch.ones(1, device=LAST)
    value, reason = in_child(_sum_on_the_device)
    assert (value, reason) == (3.0, None)


def _sum_on_the_device(_: object) -> float:
    return torch.ones(3, device=LAST).sum().item()
