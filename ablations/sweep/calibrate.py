"""How long trainings will take here: their counted work, times what a few small steps took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ablations.plan.estimate import Clock
from ablations.plan.wanted import Want

if TYPE_CHECKING:
    import torch

    from ablations.plan.speed import Speed, SpeedPoint

SIZES = ((32, 384), (96, 1152))  # width, and tokens of a batch
TRIED = ({"name": "transformer", "n_heads": 4, "max_len": 16}, {"name": "recurrent"})
_LENGTH = 12
_WORDS = 40


def counted_clock(device: torch.device) -> Clock:
    """A clock that takes no step of these trials: by their counted work, and by what a few steps of
    small models took on this machine."""

    def seconds(wants: Sequence[Want]) -> list[float | None]:
        import torch

        from ablations.plan.speed import speed_of
        from ablations.train.device import device_name

        place = f"{device_name(device)}, torch {torch.__version__}, 1 thread"
        speed = speed_of(place, lambda: measure_speed(device))
        return [speed.seconds(want) for want in wants]

    return seconds


def measure_speed(device: torch.device) -> Speed:
    """Steps of small models of each kind, on one thread, as workers have it."""
    import torch

    from ablations.plan.speed import Speed

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Speed([_try(model, *size, device) for model in TRIED for size in SIZES])
    finally:
        torch.set_num_threads(before)


def _try(model: dict[str, Any], d_model: int, tokens: int, device: torch.device) -> SpeedPoint:
    import torch

    from ablations.plan.speed import SpeedPoint, kind_of
    from ablations.train.optimiser import OPTIMISER
    from ablations.train.settings import TrainConfig
    from ablations.train.step import update
    from model.batch import Batch
    from model.build import build, resolve
    from model.count import flops_per_token

    written = resolve({**model, "kind": "encoder_decoder", "d_model": d_model, "depth": 2})
    with torch.device("meta"):
        empty = build(written, _WORDS, _WORDS, seed=None)
        flops = tokens * flops_per_token(empty, _LENGTH, _LENGTH)
    built = build(written, _WORDS, _WORDS, seed=0).to(device)
    settings = TrainConfig()
    optimiser = OPTIMISER.build(settings.optimiser, parameters=built.parameters())
    words = torch.arange(tokens // 2, device=device).view(-1, _LENGTH) % (_WORDS - 3) + 3
    batch = Batch(labels=words, inputs=words, source=words)
    # One thread's own time: whatever else the machine does meanwhile does not count.
    clock = time.thread_time if device.type == "cpu" else time.perf_counter
    step = quickest(
        lambda: update(built, [batch], batch.tokens, optimiser, settings), device, clock
    )
    return SpeedPoint(kind_of(written), flops, step / flops)


def quickest(
    call: Callable[[], object],
    device: torch.device,
    clock: Callable[[], float] | None = None,
) -> float:
    """Seconds of the quickest of three calls: the first pays for much that later ones find done."""
    from ablations.measure.timing import synchronise

    now = clock or time.perf_counter
    took = []
    for _ in range(3):
        begun = now()
        call()
        synchronise(device)
        took.append(now() - begun)
    return min(took)
