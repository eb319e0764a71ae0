"""Where a question is timed: each of its coordinates with each, as far as a profile goes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.measure import Place, Timing, discover
from ablations.measure.timing import TimingConfig
from ablations.plan.question import Ablation
from ablations.store.identity import freeze
from model.config import ConfigError, nearest

TOKENS = "tokens"  # of a batch: instead of how many sequences it has


def places(measure: str, ablation: Ablation, timing: TimingConfig) -> list[Place]:
    """Every place at which a measure is timed."""
    part: type[Timing] = discover().part(measure)
    given = ablation.points.get(measure, {})
    _check(measure, given, part)
    wanted = {**part.places, **given}
    if TOKENS in given and "batch" not in given:
        wanted["batch"] = []
    walked = _thinned(wanted.pop(part.along), timing)
    batches = [{"batch": batch} for batch in wanted.pop("batch", [])]
    batches += [{TOKENS: tokens} for tokens in wanted.pop(TOKENS, [])]
    batches = batches if "batch" in part.places else [{}]
    rest = [
        dict(zip(wanted, values, strict=True)) for values in itertools.product(*wanted.values())
    ]
    found: list[Place] = []
    for batch, others, far in itertools.product(batches, rest, walked):
        # A budget of tokens makes the batch at this length.
        filled = {"batch": max(1, batch[TOKENS] // far)} if TOKENS in batch else {}
        found.append({part.along: far, **batch, **others, **filled})
    return list({freeze(at): at for at in found}.values())


def _thinned(values: Sequence[int], timing: TimingConfig) -> list[int]:
    """So many of the values as a profile allows, its ends among them."""
    inside = [v for v in values if timing.longest is None or v <= timing.longest]
    inside = inside or list(values[:1])
    if timing.lengths is None or len(inside) <= timing.lengths:
        return inside
    last, parts = len(inside) - 1, timing.lengths - 1
    return [inside[round(i * last / parts)] for i in range(timing.lengths)]


def _check(measure: str, given: Mapping[str, Any], part: type[Timing]) -> None:
    problems, known = [], part.places
    words = [*known, *([TOKENS] if "batch" in known else [])]
    for name, values in given.items():
        place = f"points.{measure}.{name}"
        if name not in words:
            problems.append(f"{place}: is no coordinate of it. {nearest(str(name), words)}")
        elif not isinstance(values, list) or not values:
            problems.append(f"{place}: expected a list of values, got {values!r}")
        elif name in part.words:
            problems += [
                f"{place}: no '{str(word)[:40]}'. {nearest(str(word)[:40], part.words[name])}"
                for word in values
                if word not in part.words[name]
            ]
        else:
            whole = all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in values)
            if not whole or sorted(set(values)) != values:
                problems.append(f"{place}: expected whole numbers that rise, got {values!r}")
    if problems:
        raise ConfigError(problems)
