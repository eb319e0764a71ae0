"""A trial by the words people have for it: `norm/g2p:post`, `norm/g2p:post:301`, or its id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ablations.commands.trial_list import variant_of
from ablations.store.results import Results
from ablations.store.words import listed, nearest_label, quoted
from model.config import ConfigError, nearest

Cells = list[Mapping[str, Any]]


def trial_of(word: str, results: Results, seed: int | None = None) -> str:
    """The one trial that is meant; ConfigError where there is none, or more than one."""
    if ":" in word:
        return _of_variant(word, results, seed)
    if seed is not None:
        raise ConfigError(["--seed goes with EXPERIMENT:VARIANT: an id is of one seed alone"])
    if not re.fullmatch(r"[0-9a-f]{1,12}", word):
        fix = "a trial is EXPERIMENT:VARIANT, such as norm/g2p:post, or up to 12 digits of an id"
        raise ConfigError([f"'{word[:100]}': {fix}"])
    found = sorted(path.stem for path in results.trials.glob(f"{word}*.json"))
    if len(found) != 1:
        kind = "no trial" if not found else f"{len(found)} trials"
        raise ConfigError([f"{kind} '{word}…' in {results.root}"])
    return found[0]


def _of_variant(word: str, results: Results, seed: int | None) -> str:
    name, cells, rest = _table(word, results)
    variants: dict[str, Cells] = {}
    for cell in cells:
        variants.setdefault(variant_of(cell), []).append(cell)
    wanted = rest.strip("'\"")
    if wanted not in variants:  # or it ends in its seed
        above, _, last = wanted.rpartition(":")
        if above.strip("'\"") in variants and last.isdecimal():
            if seed not in (None, int(last)):
                raise ConfigError([f"{word[:100]} --seed {seed}: two seeds; leave one out"])
            wanted, seed = above.strip("'\""), int(last)
    if wanted not in variants:
        levels = [each for each in variants if each.startswith(f"{wanted}:")]
        hint = f"Say at which level: {listed(levels)}." if levels else None
        hint = hint or nearest_label(wanted, variants)
        raise ConfigError([f"no variant '{wanted[:100]}' in {name}. {hint}"])
    known = {cell["seed"]: cell["trial"] for cell in variants[wanted]}
    if seed is not None and seed not in known:
        told = ", ".join(map(str, sorted(known)))
        raise ConfigError([f"{name}:{quoted(wanted)} has no seed {seed}: it has {told}"])
    asked = [seed] if seed is not None else sorted(known)
    for each in asked:
        if results.path(known[each]).exists():
            return str(known[each])
    place = f"{name}:{quoted(wanted)}" + (f" seed {seed}" if seed is not None else "")
    raise ConfigError([f"{place} has not been run in {results.root} yet"])


def _table(word: str, results: Results) -> tuple[str, Cells, str]:
    """The table that a word begins with, its cells, and the rest of the word.

    Of a question with several tables it is the plain one; `norm [tuned]:post` means another.
    """
    tables = results.read_plan()["ablations"]
    by_name = {entry["name"]: name for name, entry in reversed(tables.items())}
    known = {**by_name, **{name: name for name in tables}}
    fitting = [each for each in known if word.startswith(f"{each}:")]
    if not fitting:
        asked = word.partition(":")[0]
        raise ConfigError(
            [f"no experiment '{asked[:100]}' in {results.root}. {nearest(asked, known)}"]
        )
    said = max(fitting, key=len)
    cells = [cell for cell in tables[known[said]]["cells"] if cell["role"] == "report"]
    return known[said], cells, word[len(said) + 1 :]
