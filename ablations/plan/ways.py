"""How trials share a device: seeds of an arm packed in one model, workers side by side, or neither.

Which way is quickest depends on the size of a model and on the machine. It is timed once for each
group of like-sized arms, and what was timed is kept in the results folder, for that machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ablations.plan.facts import model_facts
from ablations.plan.wanted import Want
from ablations.store.files import write_atomic
from ablations.store.machine import HOST
from ablations.store.results import Results
from model.config import ConfigError, validate

MOST_WORKERS = 4  # of one accelerator
MOST_PACKED = 10  # seeds: as many as decide a claim


@dataclass(frozen=True)
class Way:
    """How many share a device."""

    packed: int = 1
    """Seeds of one arm that are trained as one model."""
    workers: int = 1
    """Jobs side by side on one device."""

    def __str__(self) -> str:
        words = [f"{self.packed} seeds packed"] if self.packed > 1 else []
        words += [f"{self.workers} workers a device"] if self.workers > 1 else []
        return ", ".join(words) or "one at a time"


@dataclass(frozen=True)
class TimedWay:
    """What one way costs the trials of a group."""

    group: str
    packed: int
    workers: int
    rate: float | None
    """Seconds of a device for a unit of a trial's work; None where it could not be run."""

    @property
    def way(self) -> Way:
        return Way(self.packed, self.workers)


Stopwatch = Callable[[Want, Way], float | None]
"""How many seconds of a device a trial takes in this way, by steps here and now."""

WayOf = Callable[[Want], Way]


def one_at_a_time(_: Want) -> Way:
    return Way()


def why_alone(want: Want) -> str | None:
    """Why a trial cannot be packed with other seeds, in a word; None if it can."""
    from ablations.train.optimiser import OPTIMISER

    if not want.trained:
        return "untrained"
    model, train = want.config["model"], want.config["train"]
    if any(share for option, share in model.items() if option.endswith("dropout")):
        return "dropout"  # whose random numbers would be others
    if train["compile"]:
        return "compiled"
    modules = model_facts(want.frozen["model"], want.frozen["task"]).modules
    homes = {name.split(".")[0] for name in modules}
    homes |= {OPTIMISER.part(train["optimiser"]["name"]).__module__.split(".")[0]}
    if homes - {"torch", "model", "ablations"}:
        return "own"  # of which nobody knows whether lanes stay apart in it
    return None


def group_of(want: Want) -> str:
    """Arms of one group are timed once: one task, a like number of weights and of tokens."""
    train = want.config["train"]
    weights = 2 ** round(math.log2(max(1, want.parameters)))
    words = [want.config["task"]["name"], f"{weights} weights", f"{train['batch_tokens']} tokens"]
    words += [_kind(want.config["model"])]
    words += [train["precision"]] * (train["precision"] != "float32")
    words += ["compiled"] * train["compile"]
    reason = why_alone(want)
    return ", ".join([*words, *([reason] if reason not in (None, "compiled") else [])])


def _kind(model: Mapping[str, Any]) -> str:
    """What computes: kernels of one kind say little of another's."""
    parts = (model.get(name) for name in ("mixer", "cell", "score", "path"))
    names = [part["name"] if isinstance(part, Mapping) else part for part in parts if part]
    return " ".join([model["name"], *names])


def candidates(want: Want, seeds: int, workers: Sequence[int]) -> list[Way]:
    """The ways that a trial of so many seeds can go, one at a time first."""
    alone = [Way(1, number) for number in workers]
    if want.config["train"]["compile"]:  # large: it fills a device by itself
        return alone[:1]
    if seeds < 2 or why_alone(want) is not None:
        return alone
    return [*alone, *(Way(min(seeds, MOST_PACKED), number) for number in workers[:2])]


def quickest_way(timed: Iterable[TimedWay]) -> TimedWay | None:
    """Of what could be run, what costs a trial least; the plainer of two that cost the same."""
    known = [each for each in timed if each.rate is not None]
    return min(known, key=lambda each: (each.rate, each.packed, each.workers), default=None)


def time_ways(
    wants: Sequence[Want],
    known: Mapping[str, Sequence[TimedWay]],
    stopwatch: Stopwatch,
    workers: Sequence[int],
) -> dict[str, list[TimedWay]]:
    """Every way of each group, where some are not known yet, timed by the first trial of an arm."""
    arms: dict[str, list[Want]] = {}
    for want in wants:
        if want.trained:
            arms.setdefault(str(want.frozen), []).append(want)
    found: dict[str, list[TimedWay]] = {}
    for arm in sorted(arms.values(), key=len, reverse=True):  # what can be packed most, first
        first, group = arm[0], group_of(arm[0])
        held = list(known.get(group, []))
        new = set(candidates(first, len(arm), workers)) - {each.way for each in held}
        if group in found or not new:
            continue
        for way in candidates(first, len(arm), workers):
            if way in new:
                seconds = stopwatch(first, way)
                rate = None if seconds is None else seconds / first.work
                held.append(TimedWay(group, way.packed, way.workers, rate))
        found[group] = held
    return found


def kept_ways(results: Results) -> Path:
    """Where a folder keeps what was timed on this machine."""
    return results.root / "ways" / f"{HOST}.json"


def read_ways(results: Results, device: str) -> dict[str, list[TimedWay]]:
    """What was timed on this machine with this device; other devices' times say nothing."""
    path = kept_ways(results)
    if not path.exists():
        return {}
    found: dict[str, list[TimedWay]] = {}
    try:
        for index, each in enumerate(_all_ways(path).get(device, [])):
            timed = validate(TimedWay, each, f"{device}[{index}]")
            found.setdefault(timed.group, []).append(timed)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError([f"{path}: cannot be used ({error}); remove it and run again"]) from None
    return found


def keep_ways(results: Results, device: str, timed: Mapping[str, Sequence[TimedWay]]) -> None:
    path = kept_ways(results)
    plain = _all_ways(path) if path.exists() else {}
    plain[device] = [asdict(each) for ways in timed.values() for each in ways]
    write_atomic(path, json.dumps(plain, indent=1, allow_nan=False) + "\n")


def _all_ways(path: Path) -> dict[str, Any]:
    """Device → what was timed there."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(plain, dict):
        raise ValueError("no times of devices")
    return plain
