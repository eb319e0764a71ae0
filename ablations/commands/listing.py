"""list: chapters and their experiments."""

from __future__ import annotations

from argparse import Namespace
from itertools import groupby

from ablations.commands.arguments import names_of
from ablations.commands.terminal import print_json, print_lines
from ablations.config import FOLDER
from ablations.spec import experiments, find, read_chapter, read_experiment
from ablations.store.words import CHAPTERS, listed, quoted


def act(options: Namespace) -> int:
    words, ours, rows = names_of(options) or CHAPTERS, experiments(), []
    found = {name: path for word in words for name, path in find(word).items()}
    for name, path in found.items():
        experiment = read_experiment(path)
        rows.append(
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
        )
    if options.json:
        print_json(rows)
        return 0
    width = max(len(row["name"]) for row in rows)
    for chapter, group in groupby(rows, key=lambda row: row["chapter"]):
        print_lines([_heading(chapter)])
        for row in group:
            least = f" (from {row['from']})" if row["from"] else ""
            print_lines([f"  {row['name']:<{width}}  {row['question']}{least}"], width + 4)
        print()
    print(f"{len(rows)} experiments; `ablations plan NAME` shows an experiment's trials and time.")
    return 0


def _heading(chapter: str) -> str:
    """A chapter's title and its variants, where it has some for all its experiments."""
    title = CHAPTERS.get(chapter, "Your own")
    shared = read_chapter(FOLDER / "experiments" / chapter)
    if shared is None:
        return title
    rest = listed(label for label in shared.variants if label != shared.baseline)
    return f"{title}: {quoted(shared.baseline)} against {rest}"
