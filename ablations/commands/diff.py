"""diff: what really differs between two variants."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from ablations.commands.arguments import as_json, imports, plan_of, profile
from ablations.commands.columns import print_columns
from ablations.commands.terminal import working
from ablations.store.words import listed, nearest_label, quoted
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan.merge import Cell


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "variants", nargs=2, metavar="EXPERIMENT:VARIANT", help="such as norm/g2p:post"
    )
    profile(parser)
    imports(parser)
    as_json(parser)


def act(options: Namespace) -> int:
    words = [variant.partition(":")[0] for variant in options.variants]
    options.names, options.claim, options.seeds, options.large = words, [], [0], False
    from ablations.spec import CHAPTERS, find

    if chapters := [word for word in words if word in CHAPTERS]:
        raise ConfigError([f"{chapters[0]} is a chapter: name one of {listed(find(chapters[0]))}"])
    tables = plan_of(options).tables
    cells = [
        _cell(variant, tables[next(iter(find(word)))].cells)
        for variant, word in zip(options.variants, words, strict=True)
    ]
    with working("Building both models"):
        from ablations.plan.difference import difference

        found = difference(*cells)
    if options.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _print(options.variants, found)
    return 0


def _cell(variant: str, cells: list[Cell]) -> Cell:
    """`norm/g2p:post`, or with the levels of what is crossed: `training/depth:1 block:30000`."""
    ablation, _, label = variant.partition(":")
    label = label.strip("'")  # as lists have those with commas
    known = {":".join((cell.label, *cell.across.values())): cell for cell in cells}
    if label not in known:
        hint = nearest_label(label, known)
        raise ConfigError([f"no variant '{label[:100]}' in {ablation}. {hint}"])
    return known[label]


def _print(variants: list[str], found: dict[str, Any]) -> None:
    rows = [[path, *pair] for path, pair in found["settings"].items()]
    for title, key in (("parameters", "parameters"), ("FLOPs/token", "flops_per_token")):
        one, other = found[key]
        rows.append([title, f"{one:,.0f}", f"{other:,.0f} ({(other - one) / one:+.1%})"])
    rows.append(["start as the other's do", *(f"{share:.1%}" for share in found["start_equal"])])
    print_columns(("", *map(quoted, variants)), rows)
    for name, (one, other) in found["modules"].items():
        print(f"{name}: {one} → {other}")
