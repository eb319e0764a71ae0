"""Padded of sentences that say the same, by split: the two Bibles, or the user's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablations.tasks.data.lines import read_text
from model.config import ConfigError

SPLITS = {"train": "sentences", "valid": "valid_sentences", "test": "test_sentences"}
FILES = tuple(f"{split}_{side}" for split in SPLITS for side in ("source", "target"))

Sentences = Sequence[tuple[str, str]]


def from_files(paths: Mapping[str, str]) -> dict[str, Sentences]:
    """Line-aligned files, named by `FILES`; ConfigError has a line for each that is bad."""
    sides: dict[str, list[str]] = {}
    problems: list[str] = []
    for option, path in paths.items():
        try:
            sides[option] = _read(path)
        except ValueError as error:
            problems.append(f"{option}={error}")
    for source, target in zip(FILES[::2], FILES[1::2], strict=True):
        if source not in sides or target not in sides:
            continue
        short, long = sorted((source, target), key=lambda option: len(sides[option]))
        if len(sides[short]) < len(sides[long]):
            problems.append(
                f"{long}={paths[long]}:{len(sides[short]) + 1}: {paths[short]} has no such line; "
                "give every sentence its translation in the same line"
            )
    if problems:
        raise ConfigError(problems)
    return {
        split: list(zip(sides[f"{split}_source"], sides[f"{split}_target"], strict=True))
        for split in SPLITS
    }


def _read(path: str) -> list[str]:
    """One sentence a line, without the spaces around it."""
    lines = [line.strip() for line in read_text(path).removesuffix("\n").split("\n")]
    if "" in lines:
        line = lines.index("") + 1
        raise ValueError(f"{path}:{line}: the line is empty; write one sentence in each line")
    return lines


def choose(
    given: Mapping[str, Sentences],
    sizes: Mapping[str, int | None],
    max_words: int | None,
    at_most: bool,
) -> tuple[dict[str, Sentences], dict[str, int]]:
    """As many pairs of each split as asked for (or at most as many); and how many were left out
    for being too long."""
    chosen: dict[str, Sentences] = {}
    left_out: dict[str, int] = {}
    problems: list[str] = []
    for split, pairs in given.items():
        fit = [
            pair
            for pair in pairs
            if max_words is None or max(len(side.split()) for side in pair) <= max_words
        ]
        size = sizes[split]
        if not fit:
            problems.append(f"max_words={max_words}: nothing is left in {split}; choose more")
        elif size is not None and size > len(fit) and not at_most:
            problems.append(
                f"{SPLITS[split]}={size}: {split} has {len(fit)} pairs; "
                "choose at most that, or null for all"
            )
        chosen[split], left_out[split] = fit[:size], len(pairs) - len(fit)
    if problems:
        raise ConfigError(problems)
    return chosen, left_out
