"""The right path for one that does not exist, wherever in the settings it is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_WRONG = re.compile(r"([\w.-]+): no such (?:option|section)\. ")
_HINT = re.compile(r"Did you mean '([\w-]+)'\?")
ELSEWHERE = {
    "lr": "train.optimiser.rate",
    "learning_rate": "train.optimiser.rate",
    "betas": "train.optimiser.beta1",
    "warmup_steps": "train.schedule.warmup",
    "batch_size": "train.batch_tokens",
    "max_steps": "train.steps",
    "epochs": "train.steps",
    "grad_clip": "train.clip",
    "label_smoothing": "train.smoothing",
    "heads": "model.n_heads",
    "num_heads": "model.n_heads",
    "n_head": "model.n_heads",
    "layers": "model.depth",
    "n_layers": "model.depth",
    "num_layers": "model.depth",
    "hidden_size": "model.d_model",
    "n_embd": "model.d_model",
    "block_size": "model.max_len",
    "activation": "model.feedforward",
}
"""What other programs call it."""


def with_right_paths(problems: Sequence[str], tree: Mapping[str, Any]) -> list[str]:
    """The problems; where a path does not exist, with the nearest of all that do."""
    known = list(_paths(tree))

    def mended(problem: str) -> str:
        wrong = _WRONG.match(problem)
        if wrong is None:
            return problem
        beside = _HINT.fullmatch(problem[wrong.end() :])
        others = [path for path in known if path != wrong[1]]
        right = right_path(wrong[1], others, beside[1] if beside else None)
        return problem if right is None else f"{wrong[0]}Did you mean '{right}'?"

    return [mended(problem) for problem in problems]


def right_path(wrong: str, known: Sequence[str], beside: str | None = None) -> str | None:
    """The path that was meant: what other programs call so, or what is called so elsewhere, or the
    option `beside` it that is like it; None where nothing is."""
    above, dot, name = wrong.rpartition(".")
    meant = ELSEWHERE.get(name.lower())
    if meant in known:
        return meant
    same_name = [path for path in known if path.rpartition(".")[2] == name]
    if close := difflib.get_close_matches(wrong, same_name, n=1, cutoff=0.0):
        return close[0]
    if beside is not None:
        return f"{above}{dot}{beside}"
    return next(iter(difflib.get_close_matches(wrong, known, n=1, cutoff=0.8)), None)


def _paths(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Every setting under its dotted path, choices as well as their options."""
    for key, value in tree.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _paths(value, f"{above}{key}.")
