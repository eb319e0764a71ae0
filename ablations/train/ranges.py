"""Which values an option of training may have."""

from __future__ import annotations

from collections.abc import Callable

from model.config import ConfigError

Range = tuple[Callable[[float], bool], str]


_positive: Range = (lambda x: x > 0, "must be positive")


_not_negative: Range = (lambda x: x >= 0, "must not be negative")


_below_one: Range = (lambda x: 0 <= x < 1, "must be from 0 to below 1")


_share: Range = (lambda x: 0 <= x <= 1, "must be from 0 to 1")


RANGES = {
    "rate": _positive, "eps": _positive, "beta1": _below_one, "beta2": _below_one,
    "momentum": _below_one, "weight_decay": _not_negative, "warmup": _not_negative,
    "floor": _share,
}  # fmt: skip


class Checked:
    """Options of one name have one range, whoever takes them."""

    def __post_init__(self) -> None:
        problems = [
            f"{name}={value}: {RANGES[name][1]}"
            for name, value in vars(self).items()
            if name in RANGES and not RANGES[name][0](value)
        ]
        if problems:
            raise ConfigError(problems)
