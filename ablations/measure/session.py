"""A timing session: candidates beside a reference and its twin, in several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ablations.measure import Timing
from ablations.measure.timing import Report, TimingConfig, in_child, probe_memory, time_blocks
from ablations.store.frozen import freeze
from ablations.store.record import Reading
from ablations.tasks.cache import load_task

REFERENCE, TWIN = "reference", "twin"  # which is the reference built once more: the noise floor


def time_session(
    measure: Timing,
    reference: dict[str, Any],
    candidates: Mapping[str, dict[str, Any]],
    config: TimingConfig,
    device: torch.device,
    report: Report,
) -> dict[str, list[Reading]]:
    """What was read of each candidate; each trial's readings stand alone."""
    configs = {REFERENCE: reference, TWIN: reference, **candidates}

    def prepare(name: str, length: int, batch: int) -> Callable[[], None]:
        task = load_task(freeze(configs[name]["task"]))
        return measure.prepare(configs[name], task, device, length, batch)

    # All probes are forked before this process computes anything: a child that inherits a used heap
    # would seem to need less, and one that inherits an accelerator cannot use it.
    probed = {
        (name, index): probe_memory(
            lambda name=name: prepare(name, 2, 1),  # type: ignore[misc]
            lambda name=name, shape=shape: prepare(name, **shape),  # type: ignore[misc]
            device,
        )
        for index, shape in enumerate(config.shapes)
        for name in configs
    }
    names = [
        [name for name in configs if probed[name, index][1] is None]
        for index in range(len(config.shapes))
    ]

    def timed(process: int, told: Report) -> list[dict[str, list[float]]]:
        """Of each shape the samples by name, from calls that this process has prepared."""
        found = []
        for index, shape in enumerate(config.shapes):
            calls = {name: prepare(name, **shape) for name in names[index]}
            found.append(time_blocks(calls, config, device, seed=process, report=told))
        return found

    sampled = [_process(timed, process, config.processes, report)
               for process in range(config.processes)]  # fmt: skip
    taken: dict[str, list[Reading]] = {trial: [] for trial in candidates}
    for index, shape in enumerate(config.shapes):
        at: dict[str, float | str] = dict(shape)
        for trial, readings in taken.items():
            extra, reason = probed[trial, index]
            readings.append(Reading("peak_memory", "bytes", extra, at=at, reason=reason))
            reasons = [probed[name, index][1] for name in (trial, REFERENCE, TWIN)]
            reason = next((each for each in reasons if each is not None), None)
            for process, (samples, failure) in enumerate(sampled):
                times: dict[str, Any] = {"reason": reason or failure}
                if times["reason"] is None:
                    times = {role: samples[index][role] for role in (REFERENCE, TWIN)}
                    times["samples"] = samples[index][trial]
                place: dict[str, Any] = {"at": at, "session": str(process)}
                readings.append(Reading(measure.metric, measure.unit, **place, **times))
    return taken


def _process(
    timed: Callable[[int, Report], list[dict[str, list[float]]]],
    process: int,
    processes: int,
    report: Report,
) -> tuple[list[dict[str, list[float]]], str | None]:
    """The samples of one process, or why there are none; a single one is this process."""

    def told(fraction: float, note: str) -> None:
        report((process + fraction) / processes, f"process {process + 1}, {note}")

    if processes == 1:
        return timed(process, told), None
    found, failure = in_child(lambda tell: timed(process, tell), told)
    return found or [], failure
