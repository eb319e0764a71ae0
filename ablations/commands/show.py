"""show: one trial; try: its trained model's answer to your own input.

A trial is named `norm/g2p:post`, `norm/g2p:post:301`, or by the first digits of its id.
"""

from __future__ import annotations

import re
from argparse import Namespace

import yaml

from ablations.commands.arguments import import_modules, results_of
from ablations.commands.terminal import print_table, working
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.words import nearest_label, place_of, quoted
from model.config import ConfigError, nearest

MOST = 60  # measurements


def act(options: Namespace) -> int:
    results, record = find(options)
    print(f"{record.id} {record.status}" + (f": {record.reason}" if record.reason else ""))
    for what, why in record.failures.items():
        print(f"{what} failed: {why}")
    facts = {name: getattr(record, name) for name in ("parameters", "flops_per_token")}
    facts |= {name: record.env.get(name) for name in ("device", "seconds")}
    print("\n" + yaml.safe_dump({**record.config, **facts}, sort_keys=False, allow_unicode=True))
    steps = [m.coordinates["step"] for m in record.measurements if "step" in m.coordinates]
    last = max(map(float, steps), default=None)
    rows = [
        [
            each.metric,
            each.split or "",
            f"{each.value:.6g} {each.unit}".removesuffix(" 1"),
            ", ".join(f"{name}={value}" for name, value in each.coordinates.items()),
        ]
        for each in record.measurements
        if each.value is not None and each.coordinates.get("step") in (None, last)
    ]
    if rows:
        print_table(("measurement", "split", "value", "at"), rows[:MOST])
    print(f"\nLearning curves, samples and all else: {results.path(record.id)}")
    return 0


def try_act(options: Namespace) -> int:
    results, record = find(options)
    with working("Loading torch"):
        from ablations.commands.answer import answer

    with working(f"Reading the data and the weights of {record.id}"):
        reply = answer(record, results, options.input)
    line = f"{options.input} → {reply.text}    probability {reply.probability:.2g}"
    if reply.runner_up is not None:
        line += " (next: {} with {:.2g})".format(*reply.runner_up)
    print("".join(c if c.isprintable() else "\ufffd" for c in line.replace("\n", "⏎")))
    if reply.weights:
        print("each token, and what it attended to most:")
    for token, symbol, weight in reply.looked_at():
        print(f"  {token} ← {symbol} ({weight:.2g})")
    return 0


def find(options: Namespace) -> tuple[Results, Record]:
    """The results folder and the record of the named trial."""
    import_modules(options)
    results = results_of(options)
    trial = trial_of(options.trial, results)
    record = results.read(trial)
    if record is None:  # deleted since
        raise ConfigError([f"no trial '{trial}…' in {results.root}"])
    return results, record


def trial_of(word: str, results: Results) -> str:
    """The id of the named trial; ConfigError if none or several match."""
    if ":" in word:
        return _of_variant(word, results)
    if not re.fullmatch(r"[0-9a-f]{1,12}", word):
        fix = "a trial is EXPERIMENT:VARIANT, such as norm/g2p:post, or up to 12 digits of an id"
        raise ConfigError([f"'{word[:100]}': {fix}"])
    found = sorted(path.stem for path in results.trials.glob(f"{word}*.json"))
    if len(found) != 1:
        kind = "no trial" if not found else f"{len(found)} trials"
        raise ConfigError([f"{kind} '{word}…' in {results.root}"])
    return found[0]


def _of_variant(word: str, results: Results) -> str:
    planned = results.read_plan()["experiments"]
    # A name stands for the first entry of its experiment.
    titles = {entry["name"]: title for title, entry in reversed(planned.items())}
    titles |= {title: title for title in planned}
    name = max((each for each in titles if word.startswith(f"{each}:")), key=len, default="")
    if not name:
        asked = word.partition(":")[0][:100]
        hint = nearest(asked, titles)
        raise ConfigError([f"no experiment '{asked}' in {results.root}. {hint}"])
    trials: dict[str, dict[str, str]] = {}  # variant → seed → trial
    for cell in planned[titles[name]]["trials"]:
        held = trials.setdefault(place_of(cell["variant"], cell["factors"]), {})
        held[str(cell["seed"])] = cell["id"]
    variant, seed = word.removeprefix(f"{name}:").replace("'", ""), ""
    if variant not in trials and variant.rpartition(":")[0] in trials:
        variant, _, seed = variant.rpartition(":")
    if variant not in trials:
        hint = nearest_label(variant, trials)
        raise ConfigError([f"no variant '{variant[:100]}' in {titles[name]}. {hint}"])
    seeds, meant = sorted(trials[variant], key=int), f"{titles[name]}:{quoted(variant)}"
    if seed and seed not in seeds:
        raise ConfigError([f"{meant} has no seed {seed[:100]}: it has {', '.join(seeds)}"])
    for each in [seed] if seed else seeds:
        if results.path(trials[variant][each]).exists():
            return trials[variant][each]
    which = f" seed {seed}" if seed else ""
    raise ConfigError([f"{meant}{which} has not been run in {results.root} yet"])
