"""plan.json: the experiments and trials of a results folder, readable without the YAML.

An entry is one experiment at one profile with its overrides. When that runs again, the entry is
rewritten; it keeps earlier seeds and variants whose settings have not changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ablations.expand import Trial
from ablations.plan import Expanded, Plan, metrics_of
from ablations.store.results import Results
from ablations.store.words import place_of

_WORDS = ("name", "question", "task", "baseline", "held_constant", "changes")
FEW = 3  # a batch of fewer seeds gives no verdict, so later seeds join it


def document(plan: Plan, profile: str | None = None) -> dict[str, Any]:
    """The plan's entries by title, in a folder that is mainly of this profile."""
    asked = [_entry(plan, each) for each in plan.experiments.values()]
    return {title(entry, profile or plan.profile.name): entry for entry in asked}


def titles(plan: Plan, results: Results) -> list[str]:
    """The titles of the plan's experiments in this folder's plan.json."""
    main = results.read_plan()["profile"] if results.plan_file.exists() else None
    return list(document(plan, main))


def title(entry: Mapping[str, Any], profile: str) -> str:
    """An experiment's name and its overrides, as users type them."""
    words = list(entry["overrides"])
    words += [f"profile={entry['profile']}"] if entry["profile"] != profile else []
    return f"{entry['name']} [{', '.join(words)}]" if words else entry["name"]


def _entry(plan: Plan, expanded: Expanded) -> dict[str, Any]:
    experiment, trials = expanded.experiment, expanded.trials
    metrics = metrics_of(experiment, trials)
    set_here = {path: json.dumps(value) for path, value in plan.overrides.items()}
    set_here |= {path: ",".join(levels) for path, levels in plan.factors.items()}
    return {
        **{name: getattr(experiment, name) for name in _WORDS},
        "claims": [
            {
                **vars(claim),
                "predicts": [each.to_dict() for each in predicted if each.role == "predicts"],
                "require": [each.to_dict() for each in predicted if each.role == "requires"],
            }
            for claim, predicted in experiment.predictions
        ],
        "tuning": [asdict(choice) for choice in expanded.choices],
        "grid": dict(experiment.tune),
        "overrides": sorted(f"{path}={text}" for path, text in set_here.items()),
        "profile": plan.profile.name,
        "metric": {"name": experiment.metric, "split": "test", **metrics[experiment.metric]},
        "metrics": metrics,
        "seed_batches": [sorted({trial.seed for trial in trials})],
        "trials": _in_order([_cell(trial) for trial in trials]),
    }


def _cell(trial: Trial) -> dict[str, Any]:
    return {
        "variant": trial.variant,
        "seed": trial.seed,
        "factors": dict(trial.factors),
        "id": trial.id,
        "settings": trial.settings,
        "tuned": dict(trial.tuned),
        "sources": [*trial.sources, *dict.fromkeys(name for name, _ in trial.timings)],
        "work": trial.work,
    }


def _in_order(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorted by variant, in the order of appearance, and by seed."""
    order = list(dict.fromkeys(map(_place, cells)))
    return sorted(cells, key=lambda cell: (order.index(_place(cell)), cell["seed"]))


def merge_into(results: Results, plan: Plan) -> list[str]:
    """Merge the plan into the folder's plan.json; return messages for the user."""
    if not plan.experiments:
        return []
    is_first = not results.plan_file.exists()
    earlier: dict[str, Any] = {"profile": plan.profile.name, "experiments": {}}
    earlier = earlier if is_first else results.read_plan()
    asked = json.loads(json.dumps(document(plan, earlier["profile"])))  # as it will be read
    entries, notes = dict(earlier["experiments"]), []
    for name, entry in asked.items():
        if before := entries.get(name):
            entry = _with_earlier(entry, before)
            if gone := {c["id"] for c in before["trials"]} - {c["id"] for c in entry["trials"]}:
                notes.append(f"{name}: settings have changed; {len(gone)} earlier trials left it")
        entries[name] = entry
    merged = {**earlier, "experiments": entries}
    if is_first or merged != earlier:
        results.write_plan(merged)
    return notes


def _with_earlier(entry: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The entry, with earlier trials whose settings are still those of the experiment."""
    settings = {_place(trial): trial["settings"] for trial in entry["trials"]}
    asked = {(_place(trial), trial["seed"]) for trial in entry["trials"]}
    kept = [
        trial
        for trial in before["trials"]
        if settings.get(_place(trial)) == trial["settings"]
        and (_place(trial), trial["seed"]) not in asked
    ]
    trials = _in_order([*entry["trials"], *kept])
    is_same = all(settings.get(_place(t), t["settings"]) == t["settings"] for t in before["trials"])
    seeds = {trial["seed"] for trial in trials}
    batches = joined(before["seed_batches"] if is_same else [], seeds)
    return {**entry, "trials": trials, "seed_batches": batches}


def _place(cell: Mapping[str, Any]) -> str:
    return place_of(cell["variant"], cell["factors"])


def joined(batches: Iterable[Sequence[int]], seeds: Iterable[int]) -> list[list[int]]:
    """The batches with new seeds as a batch of their own, or in a last batch of too few seeds."""
    found = [list(batch) for batch in batches]
    new = sorted(set(seeds) - {seed for batch in found for seed in batch})
    if new and found and len(found[-1]) < FEW:
        found[-1] += new
    elif new:
        found.append(new)
    return found
