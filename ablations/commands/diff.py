"""diff: what really differs between two variants."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ablations.commands.arguments import plan_of
from ablations.commands.terminal import print_table, working
from ablations.store.words import listed, nearest_label, quoted
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.expand import Trial


def act(options: Namespace) -> int:
    variants = options.variants
    if len(variants) != 2:
        raise ConfigError(["diff compares two variants, such as norm/g2p:pre norm/g2p:post"])
    words = [variant.partition(":")[0] for variant in variants]
    options.names, options.claim, options.seeds, options.large = words, [], [0], False
    from ablations.spec import find
    from ablations.store.words import CHAPTERS

    if chapters := [word for word in words if word in CHAPTERS]:
        raise ConfigError([f"{chapters[0]} is a chapter: name one of {listed(find(chapters[0]))}"])
    planned = plan_of(options).experiments
    trials = [
        _trial(variant, planned[next(iter(find(word)))].trials)
        for variant, word in zip(variants, words, strict=True)
    ]
    with working("Building both models"):
        from ablations.commands.difference import difference

        found = difference(*trials)
    rows = [[path, *pair] for path, pair in found["settings"].items()]
    for title, key in (("parameters", "parameters"), ("FLOPs/token", "flops_per_token")):
        one, other = found[key]
        rows.append([title, f"{one:,.0f}", f"{other:,.0f} ({(other - one) / one:+.1%})"])
    rows.append(["same first weights", *(f"{share:.1%}" for share in found["start_equal"])])
    print_table(("", *map(quoted, variants)), rows)
    _print_modules(found["modules"])
    return 0


def _trial(variant: str, trials: list[Trial]) -> Trial:
    """`norm/g2p:post`, or with the levels of factors: `training/depth:1 block:30000`."""
    experiment, _, label = variant.partition(":")
    label = label.strip("'")  # as lists quote those with commas
    known = {trial.place: trial for trial in trials}
    if label not in known:
        hint = nearest_label(label, known)
        raise ConfigError([f"no variant '{label[:100]}' in {experiment}. {hint}"])
    return known[label]


def _print_modules(modules: dict[str, Any]) -> None:
    for name, (one, other) in modules.items():
        print(f"\n{name}\n  {one}\n  → {other}")
