"""list: the catalogue of questions."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from ablations.commands.arguments import as_json, names, names_of
from ablations.plan.question import catalogue, find, read_ablation
from ablations.store.words import listed, quoted


def arguments(parser: ArgumentParser) -> None:
    names(parser)
    as_json(parser)


def act(options: Namespace) -> int:
    named = [find(word) for word in names_of(options)] or list(catalogue().items())
    found = {name: read_ablation(path)[0] for name, path in named}
    if options.json:
        rows = [
            {
                "name": name,
                "question": ablation.question,
                "task": ablation.task,
                "control": ablation.control,
                "variants": list(ablation.variants),
                "claims": [claim.id for claim, _ in ablation.predictions],
            }
            for name, ablation in found.items()
        ]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    width = max(map(len, found), default=0)
    for name, ablation in found.items():
        rivals = listed(label for label in ablation.variants if label != ablation.control)
        print(f"{name:<{width}}  {ablation.question}")
        print(f"{'':<{width}}  {quoted(ablation.control)} against {rivals}, on {ablation.task}")
    return 0
