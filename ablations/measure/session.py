"""A timing session: candidates beside a reference and its twin, in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ablations.measure import Timing
from ablations.measure.timing import TimingConfig, probe_memory, time_blocks
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
    report: Callable[[float, str], None],
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
    taken: dict[str, list[Reading]] = {trial: [] for trial in candidates}
    for index, shape in enumerate(config.shapes):
        at: dict[str, float | str] = dict(shape)
        failures = {name: probed[name, index][1] for name in configs}
        calls = {name: prepare(name, **shape) for name in configs if failures[name] is None}
        samples = time_blocks(calls, config, device, report=report)
        for name, readings in taken.items():
            extra, reason = probed[name, index]
            readings.append(Reading("peak_memory", "bytes", extra, at=at, reason=reason))
            reason = failures[name] or failures[REFERENCE] or failures[TWIN]
            times: dict[str, Any] = {"reason": reason}
            if reason is None:
                times = {role: samples[role] for role in (REFERENCE, TWIN)}
                times["samples"] = samples[name]
            readings.append(Reading(measure.metric, measure.unit, at=at, **times))
    return taken
