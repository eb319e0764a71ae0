"""--pack: how trials share the devices of this machine, as it was asked for or as it was timed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ablations.commands.arguments import Machine
from model.arguments import complain

if TYPE_CHECKING:
    from ablations.plan.estimate import Clock
    from ablations.plan.wanted import Want
    from ablations.plan.ways import Stopwatch, TimedWay, Way, WayOf
    from ablations.store.results import Results
    from ablations.sweep.launch import Launcher


@dataclass(frozen=True)
class Packing:
    """Chooses a way for every trial, and says how long it takes in that way."""

    options: Namespace
    results: Results
    launcher: Launcher
    on: Machine
    stopwatch: Stopwatch | None = None
    """What takes the steps, if not workers of the launcher."""

    def ways(self, lacking: Callable[[], Sequence[Want]]) -> WayOf:
        """The way of each trial, where these are to be trained; what is timed for it is kept."""
        from ablations.plan.ways import Way, keep_ways, quickest_way, read_ways, why_alone

        if self.on.pack != "auto":
            most = 1 if self.on.pack == "never" else int(self.on.pack)
            is_shared = self.on.devices == 1
            workers = max(1, self.on.jobs // self.on.accelerators) if is_shared else 1
            return lambda want: Way(1 if most > 1 and why_alone(want) else most, workers)
        wants = lacking()
        known = read_ways(self.results, self._device)
        if wants:
            self.results.check_writable()  # before any step is taken
        if new := self._time(wants, known):
            keep_ways(self.results, self._device, known | new)
            told = [f"{group}: {_praise(timed)}" for group, timed in new.items()]
            complain(f"Timed on {self.on}: {'; '.join(told)}")
            known |= new
        return _Chosen({group: quickest_way(each) for group, each in known.items()}, self.on, wants)

    def clock(self, wants: Sequence[Want]) -> Clock:
        """How long trials take, of which these are to be trained. Nothing is kept in the folder.

        Where ways are timed those are seconds of a device, whatever shares it.
        """
        from ablations.plan.ways import group_of, quickest_way, read_ways
        from ablations.sweep.calibrate import clock, counted_clock

        if self.on.device.type == "cpu":
            return counted_clock(self.on.device)
        if self.on.pack != "auto":
            return clock(self.launcher, str(self.on.device), self.options.imports)
        known = read_ways(self.results, self._device)

        def seconds(asked: Sequence[Want]) -> list[float | None]:
            arms = {str(want.frozen) for want in asked}
            known.update(self._time([want for want in wants if str(want.frozen) in arms], known))
            best = [quickest_way(known.get(group_of(want), [])) for want in asked]
            return [
                None if each is None or each.rate is None else each.rate * want.work
                for each, want in zip(best, asked, strict=True)
            ]

        return seconds

    def _time(
        self, wants: Sequence[Want], known: Mapping[str, Sequence[TimedWay]]
    ) -> dict[str, list[TimedWay]]:
        from ablations.plan.ways import time_ways
        from ablations.sweep.time_ways import stopwatch

        on = self.on
        takes = self.stopwatch or stopwatch(
            self.launcher, str(on.device), on.accelerators, self.options.imports
        )
        return time_ways(wants, known, takes, on.workers)

    @property
    def _device(self) -> str:
        """Where times were taken: elsewhere they say nothing."""
        import torch

        from ablations.train.device import device_name

        return f"{self.on.accelerators} × {device_name(self.on.device)}, torch {torch.__version__}"


class _Chosen:
    """The quickest way of each group, in packs no larger than keeps all devices at work."""

    def __init__(
        self, best: Mapping[str, TimedWay | None], on: Machine, wants: Sequence[Want]
    ) -> None:
        self._best, self._devices, self._trials = best, on.accelerators, len(wants)

    def __call__(self, want: Want) -> Way:
        from ablations.plan.ways import Way, group_of

        best = self._best.get(group_of(want))
        way = Way() if best is None else best.way
        share = -(-self._trials // (self._devices * way.workers))
        return replace(way, packed=max(1, min(way.packed, share)))


def _praise(timed: Sequence[TimedWay]) -> str:
    """The quickest way, and how much it gains."""
    from ablations.plan.ways import quickest_way

    best, first = quickest_way(timed), timed[0]
    if best is None or best.rate is None:
        return "no step can be taken"
    gain = f" ({first.rate / best.rate:.1f}×)" if first.rate and best != first else ""
    return f"{best.way}{gain}"
