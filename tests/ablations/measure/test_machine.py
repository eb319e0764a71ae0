"""Whether others were at work on the machine while it was timed."""

from __future__ import annotations

import time
from typing import Any

import psutil
import pytest
import torch

from ablations.measure import machine
from ablations.measure.child import in_child
from ablations.measure.machine import NOISY, Watch

CPU = torch.device("cpu")


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def clocks(monkeypatch: pytest.MonkeyPatch, busy: float, own: float, seconds: float = 10.0) -> Any:
    """The state after so many seconds in which all were so busy, and we so much of it."""
    before = Watch(begun=0.0, busy=100.0, own=7.0, load=0.0)
    monkeypatch.setattr(machine, "_busy", lambda: 100.0 + busy)
    monkeypatch.setattr(machine, "_own", lambda: 7.0 + own)
    monkeypatch.setattr(machine.time, "monotonic", lambda: seconds)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    return before.state(CPU)


@pytest.mark.parametrize(("share", "noisy"), [(NOISY - 0.01, False), (NOISY + 0.01, True)])
def test_the_work_of_others_is_a_share_of_all_cores_and_a_little_is_no_noise(
    monkeypatch: pytest.MonkeyPatch, share: float, noisy: bool
) -> None:
    state = clocks(monkeypatch, busy=5.0 + share * 40, own=5.0)  # of 10 seconds on 4 cores
    assert (state["others"], state["noisy"]) == (pytest.approx(share), noisy)


def test_what_we_and_our_children_do_is_our_own() -> None:
    """A session forks its processes and waits for them."""
    before = machine._own()
    spin(0.1)
    alone = machine._own()
    assert alone - before == pytest.approx(0.1, abs=0.08)
    in_child(lambda _: spin(0.2))
    assert machine._own() - alone >= 0.19
