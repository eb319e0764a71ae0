"""list: chapters and their experiments."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from ablations.commands.arguments import as_json, names, names_of
from ablations.config import FOLDER
from ablations.spec import CHAPTERS, experiments, find, read_chapter, read_experiment
from ablations.store.words import listed, quoted


def arguments(parser: ArgumentParser) -> None:
    names(parser)
    as_json(parser)


def act(options: Namespace) -> int:
    words = names_of(options) or CHAPTERS
    found = {name: read_experiment(path)[0] for w in words for name, path in find(w).items()}
    ours = experiments()
    if options.json:
        rows = [
            {
                "name": name,
                "chapter": name.partition("/")[0] if name in ours else "own",
                "question": experiment.question,
                "task": experiment.task,
                "baseline": experiment.baseline,
                "variants": list(experiment.variants),
                "from": experiment.from_,
                "claims": [claim.id for claim, _ in experiment.predictions],
            }
            for name, experiment in found.items()
        ]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    width = max(map(len, found), default=0)
    before = ""
    for name, experiment in found.items():
        chapter = name.partition("/")[0] if name in ours else "own"
        if chapter != before:
            print(("\n" if before else "") + _heading(chapter))
        before = chapter
        least = f" (from {experiment.from_})" if experiment.from_ else ""
        print(f"  {name:<{width}}  {experiment.question}{least}")
    return 0


def _heading(chapter: str) -> str:
    """A chapter's title and its variants, where it has some for all its experiments."""
    shared = read_chapter(FOLDER / "experiments" / chapter)
    if shared is None:
        return chapter.capitalize()
    rest = listed(label for label in shared.variants if label != shared.baseline)
    return f"{shared.title}: {quoted(shared.baseline)} against {rest}"
