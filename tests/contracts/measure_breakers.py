"""Measures that each break one contract, to prove that the contract can fail."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

import numpy as np
import torch
from measure_checks import (
    Check,
    can_be_called_again,
    counts_the_same_again,
    leaves_the_config_alone,
    leaves_the_generators_of_others,
    leaves_the_model_as_it_was,
    names_what_it_times,
    prepares_each_call_apart,
    reads_numbers_with_units,
    reads_what_it_names,
    refuses_in_a_line,
    says_each_thing_once,
    says_the_same_again,
    tells_of_each_example_what_it_told_of_all,
)
from torch import nn

from ablations.measure import Measure, Probe, Quantity, Taken, Timing
from ablations.store.record import Reading

BROKEN: list[tuple[Check, type, str]] = []


def breaks(check: Check, sentence: str) -> Any:
    """Enter a measure as one that must fail `check` with these words."""

    def enter(measure: Any) -> Any:
        BROKEN.append((check, measure, sentence))
        return measure

    return enter


class Reads(Measure):
    """Takes one sound reading, unless a measure below says otherwise."""

    def take(self, model: nn.Module, *_: Any) -> Taken:
        self.touch(model)
        return Taken([Reading(**plain) for plain in self.readings], items=self.items)

    items: ClassVar[dict[str, list[float | None]]] = {}

    readings: ClassVar[list[dict[str, Any]]] = [
        {"metric": "size", "unit": "1", "value": 1.0, "split": "test", "at": {"step": 17}}
    ]

    def touch(self, model: nn.Module) -> None:
        """Nothing."""


def reading(**changed: Any) -> list[dict[str, Any]]:
    return [{**Reads.readings[0], **changed}]


@breaks(reads_numbers_with_units, "reads nothing")
class ReadsNothing(Reads):
    readings: ClassVar = []


@breaks(reads_numbers_with_units, "gives what is no reading .*name a metric and a unit")
class HasNoUnit(Reads):
    readings: ClassVar = reading(unit="")


@breaks(reads_numbers_with_units, "gives what is no reading .*neither a value nor a reason")
class GivesNoReason(Reads):
    readings: ClassVar = reading(value=None)


@breaks(reads_numbers_with_units, "gives what is no reading .*not finite")
class HidesNaNInAnArray(Reads):
    readings: ClassVar = reading(value=None, axes=["row"], values=[math.nan])


@breaks(reads_numbers_with_units, "reads size on 'dev'")
class ReadsAnUnknownSplit(Reads):
    readings: ClassVar = reading(split="dev")


@breaks(reads_numbers_with_units, "gives size no axes")
class HasNoAxes(Reads):
    readings: ClassVar = reading(value=None, values=[1.0])


@breaks(reads_numbers_with_units, "gives a reading that is no JSON")
class GivesATensor(Reads):
    readings: ClassVar = reading(value=torch.tensor(1.0))


@breaks(tells_of_each_example_what_it_told_of_all, "items of luck, which it does not read")
class TellsOfNothingRead(Reads):
    items: ClassVar = {"luck": [1.0]}


@breaks(tells_of_each_example_what_it_told_of_all, "has 3 items of size, of 200 examples")
class LeavesExamplesOut(Reads):
    items: ClassVar = {"size": [1.0, None, 1.0]}


@breaks(tells_of_each_example_what_it_told_of_all, "has no number among size")
class HasNaNAmongItems(Reads):
    items: ClassVar = {"size": [math.nan] * 200}


@breaks(says_each_thing_once, "reads twice")
class SaysItTwice(Reads):
    readings: ClassVar = Reads.readings * 2


@breaks(says_each_thing_once, "coordinates stand in `at`")
class WritesALengthInAName(Reads):
    readings: ClassVar = reading(metric="accuracy_at_32")


@breaks(says_the_same_again, "something else the second time")
class Counts(Reads):
    numbers: ClassVar = count()

    def take(self, *_: Any) -> Taken:
        return Taken([Reading("size", "1", float(next(self.numbers)), "test")])


@breaks(leaves_the_model_as_it_was, "leaves the model in another mode")
class LeavesItEvaluating(Reads):
    def touch(self, model: nn.Module) -> None:
        model.eval()


@breaks(leaves_the_model_as_it_was, "moves the weight")
class MovesAWeight(Reads):
    def touch(self, model: nn.Module) -> None:
        with torch.no_grad():
            next(model.parameters()).add_(1.0)


@breaks(leaves_the_model_as_it_was, "leaves a gradient of")
class LeavesAGradient(Reads):
    def touch(self, model: nn.Module) -> None:
        next(model.parameters()).sum().backward()


@breaks(leaves_the_model_as_it_was, "freezes")
class Freezes(Reads):
    def touch(self, model: nn.Module) -> None:
        model.requires_grad_(False)


@breaks(leaves_the_generators_of_others, "draws from a generator that others use")
class DrawsFromTorch(Reads):
    def touch(self, model: nn.Module) -> None:
        torch.rand(1)


@breaks(leaves_the_generators_of_others, "draws from a generator that others use")
class DrawsFromNumpy(Reads):
    def touch(self, model: nn.Module) -> None:
        np.random.rand()


@breaks(leaves_the_generators_of_others, "draws from a generator that others use")
class DrawsFromPython(Reads):
    def touch(self, model: nn.Module) -> None:
        random.random()


# Probes


class Probes(Probe):
    """Reads one sound number off the settings, unless a probe below says otherwise."""

    quantities: ClassVar = {"size": Quantity("1", "lower", "size", repeats="nothing")}

    def take(self, config: dict[str, Any], *_: Any) -> Taken:
        return Taken([Reading("size", "1", 1.0)])


@breaks(reads_what_it_names, "and names")
class ReadsMoreThanItNames(Probes):
    def take(self, *_: Any) -> Taken:
        return Taken([Reading("size", "1", 1.0), Reading("weight", "1", 1.0)])


@breaks(reads_what_it_names, "and names")
class ReadsInAnotherUnit(Probes):
    def take(self, *_: Any) -> Taken:
        return Taken([Reading("size", "bytes", 1.0)])


@breaks(reads_numbers_with_units, "reads size on 'test'")
class ReadsASplitUntrained(Probes):
    def take(self, *_: Any) -> Taken:
        return Taken([Reading("size", "1", 1.0, "test")])


@breaks(counts_the_same_again, "another size the second time")
class CountsOn(Probes):
    numbers: ClassVar = count()

    def take(self, *_: Any) -> Taken:
        return Taken([Reading("size", "1", float(next(self.numbers)))])


@breaks(counts_the_same_again, "looks elsewhere")
class LooksElsewhere(Probes):
    numbers: ClassVar = count()

    def take(self, *_: Any) -> Taken:
        return Taken([Reading("size", "1", 1.0, at={"length": next(self.numbers)})])


@breaks(leaves_the_config_alone, "changes the settings")
class WritesInTheConfig(Probes):
    def take(self, config: dict[str, Any], *_: Any) -> Taken:
        config["model"]["d_model"] = 7
        return super().take(config)


@breaks(refuses_in_a_line, "falls over .*KeyError")
class FallsOver(Probes):
    def take(self, config: dict[str, Any], *_: Any) -> Taken:
        return Taken([Reading("size", "1", config["no such key"])])


@breaks(refuses_in_a_line, "refuses in other than a line")
class RefusesAtLength(Probes):
    def take(self, *_: Any) -> Taken:
        raise ValueError("not here:\nchoose another")


@breaks(refuses_in_a_line, "refuses in other than a line")
class RefusesInSilence(Probes):
    def take(self, *_: Any) -> Taken:
        raise ValueError


# Timings


class Times(Timing):
    quantities: ClassVar = {"time": Quantity("s", "lower", "time", repeats="processes")}
    places: ClassVar = {"length": [5]}

    def prepare(self, *_: Any, **__: Any) -> Callable[[], None]:
        return lambda: None


@breaks(names_what_it_times, "has no quantities")
class HasNoMetric(Timing):
    """It never says what it times."""


@breaks(names_what_it_times, "has no unit")
class TimesInNothing(Times):
    quantities: ClassVar = {"time": Quantity("", "lower", "time", repeats="processes")}


@breaks(names_what_it_times, "a second process would not tell anew")
class TimesWithoutNoise(Times):
    quantities: ClassVar = {"time": Quantity("s", "lower", "time", repeats="nothing")}


@breaks(names_what_it_times, "is timed nowhere along position")
class WalksNowhere(Times):
    along = "position"


@breaks(names_what_it_times, "stands beside no place")
class StandsBesideNothing(Times):
    beside: ClassVar = {"side": "left"}


@breaks(leaves_the_config_alone, "changes the settings")
class WritesWhereItIsTimed(Times):
    def prepare(self, config: dict[str, Any], *_: Any) -> Callable[[], None]:
        return lambda: config.clear()


@breaks(can_be_called_again, "fails at call 2")
class WorksOnce(Times):
    def prepare(self, *_: Any, **__: Any) -> Callable[[], None]:
        left = iter([None])
        return lambda: next(left)


@breaks(can_be_called_again, "gives its call a value")
class Returns(Times):
    def prepare(self, *_: Any, **__: Any) -> Callable[[], None]:
        return lambda: 3  # type: ignore[return-value]


@breaks(prepares_each_call_apart, "prepares the same call twice")
class PreparesOnce(Times):
    @staticmethod
    def call() -> None:
        """Whoever asks, it is this one."""

    def prepare(self, *_: Any, **__: Any) -> Callable[[], None]:
        return self.call
