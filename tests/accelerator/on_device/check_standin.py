"""The stand-in behaves as a GPU does where programs go wrong."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

LAST = torch.device("standin", torch.accelerator.device_count() - 1)


def test_what_is_on_the_cpu_or_on_another_device_is_refused() -> None:
    on_device = torch.ones(3, device=LAST)
    with pytest.raises(RuntimeError, match="same device"):
        on_device + torch.ones(3)
    if LAST.index:
        with pytest.raises(RuntimeError, match="same device"):
            on_device + torch.ones(3, device="standin:0")


def test_a_process_that_was_forked_cannot_use_it() -> None:
    torch.ones(1, device=LAST)
    child = os.fork()
    if not child:
        try:
            torch.ones(1, device=LAST)
        except RuntimeError as error:
            os._exit(7 if "forked" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_memory_is_counted_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.accelerator.memory_allocated(LAST)
    kept = torch.empty(1000, device=LAST)
    assert torch.accelerator.memory_allocated(LAST) == before + 4096
    torch.empty(100_000, device=LAST)
    assert torch.accelerator.max_memory_allocated(LAST) >= before + 404_096
    torch.accelerator.reset_peak_memory_stats(LAST)
    assert torch.accelerator.max_memory_allocated(LAST) == before + 4096
    del kept
    monkeypatch.setenv("STANDIN_BYTES", "1000000")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1_000_000, device=LAST)


def test_a_late_copy_shows_nothing_until_the_host_waits() -> None:
    host = torch.zeros(3).pin_memory()
    host.copy_(torch.ones(3, device=LAST), non_blocking=True)
    assert host.isnan().all()
    torch.accelerator.synchronize(LAST)
    assert host.tolist() == [1, 1, 1]


def test_waits_are_counted_and_can_be_refused() -> None:
    on_device = torch.ones(3, device=LAST)
    waits = torch.ops.standin.waits()
    on_device.sum().item()
    assert torch.ops.standin.waits() == waits + 1
    torch.ops.standin.refuse_waits(True)
    try:
        with pytest.raises(RuntimeError, match="refused"):
            on_device.tolist()
    finally:
        torch.ops.standin.refuse_waits(False)


@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers_learn_as_on_the_cpu(layer: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    one = layer(5, 7, num_layers=2, batch_first=True)
    two = layer(5, 7, num_layers=2, batch_first=True)
    two.load_state_dict(one.state_dict())
    x = torch.randn(3, 4, 5)
    one(x)[0].square().sum().backward()
    two.to(LAST)(x.to(LAST))[0].square().sum().backward()
    for mine, its in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(its.grad.cpu(), mine.grad)
