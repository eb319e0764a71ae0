"""diff: the differences between two variants: settings, counts, modules, initial weights."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ablations.commands.arguments import plan_of
from ablations.commands.terminal import print_table, working
from ablations.config import paths
from ablations.spec import find
from ablations.store.identity import value_at
from ablations.store.words import CHAPTERS, listed, nearest_label, quoted
from model.config import ConfigError

if TYPE_CHECKING:
    from torch import nn

    from ablations.expand import Trial

_ABSENT = "—"


def act(options: Namespace) -> int:
    variants = options.names
    if len(variants) != 2:
        raise ConfigError(["diff compares two variants, such as norm/g2p:pre norm/g2p:post"])
    options.names = [variant.partition(":")[0] for variant in variants]
    options.claim, options.seeds, options.large = [], [0], False
    if chapters := [name for name in options.names if name in CHAPTERS]:
        raise ConfigError([f"{chapters[0]} is a chapter: name one of {listed(find(chapters[0]))}"])
    planned = plan_of(options).experiments
    trials = [
        _trial(variant, planned[next(iter(find(name)))].trials)
        for variant, name in zip(variants, options.names, strict=True)
    ]
    with working("Building both models"):
        found = difference(*trials)
    rows = [[path, *pair] for path, pair in found["settings"].items()]
    for title, key in (("parameters", "parameters"), ("FLOPs/token", "flops_per_token")):
        one, other = found[key]
        rows.append([title, f"{one:,.0f}", f"{other:,.0f} ({(other - one) / one:+.1%})"])
    rows.append(["same initial weights", *(f"{share:.1%}" for share in found["start_equal"])])
    print_table(("", *map(quoted, variants)), rows)
    for name, (here, there) in found["modules"].items():
        print(f"\n{name}\n  {here}\n  → {there}")
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


def difference(one: Trial, other: Trial) -> dict[str, Any]:
    """The settings and modules that differ, and both sides' parameters, FLOPs and equal weights."""
    from ablations.facts import cost_of, task_sizes
    from model.build import build

    models, flops = [], []
    for trial in (one, other):
        model, task = trial.sections["model"], trial.sections["task"]
        sizes = task_sizes(task)
        models.append(build(json.loads(model), sizes.source_size, sizes.target_size, seed=0))
        flops.append(cost_of(model, task).flops_per_token)
    return {
        "settings": _changes(*(_settings(trial.config) for trial in (one, other))),
        "parameters": [one.parameters, other.parameters],
        "flops_per_token": flops,
        "modules": _changes(*map(_named, models)),
        "start_equal": _equal_share(*models),
    }


def _settings(config: Mapping[str, Any]) -> dict[str, str]:
    """Dotted path → value, as text; without the seed."""
    values = {path: value_at(config, path) for path in paths(config) if path != "seed"}
    leaves = {path: value for path, value in values.items() if not isinstance(value, Mapping)}
    return {p: json.dumps(v, ensure_ascii=False).strip('"') for p, v in leaves.items()}


def _named(model: nn.Module) -> dict[str, str]:
    """Module name → its class and sizes; the blocks of a stack share one name."""
    from torch import nn

    found: dict[str, dict[str, None]] = {}
    for name, module in model.named_modules():
        if name and not isinstance(module, nn.ModuleList):
            sizes = module.extra_repr()
            words = type(module).__name__ + (f"({sizes})" if sizes else "")
            found.setdefault(re.sub(r"\.\d+(?=\.|$)", ".*", name), {})[words] = None
    return {name: ", ".join(words) for name, words in found.items()}


def _changes(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, list[str]]:
    """The entries that differ. A module that only one side has is listed without its submodules."""
    found: dict[str, list[str]] = {}
    for name in {**one, **other}:
        pair = [side.get(name, _ABSENT) for side in (one, other)]
        above = [name[: match.start()] for match in re.finditer(r"\.", name)]
        is_inside = any(_ABSENT in found.get(each, ()) for each in above)
        if pair[0] != pair[1] and not is_inside:
            found[name] = pair
    return found


def _equal_share(*models: nn.Module) -> list[float]:
    """The share of each model's weights whose initial value the other model has, too."""
    one, other = (dict(model.named_parameters()) for model in models)
    equal = sum(
        weight.numel()
        for name, weight in one.items()
        if name in other and weight.equal(other[name])
    )
    return [equal / max(1, sum(w.numel() for w in side.values())) for side in (one, other)]
