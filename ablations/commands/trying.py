"""try: the trained model's answer to your own input, and what each token looked at most."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ablations.commands.show import arguments as arguments_of_show
from ablations.commands.show import find
from model.arguments import working


def arguments(parser: ArgumentParser) -> None:
    arguments_of_show(parser)
    parser.add_argument("input", help="what to ask, such as a word; after -- if it starts with -")


def act(options: Namespace) -> int:
    results, record = find(options)
    with working("Loading torch"):
        from ablations.commands.answer import answer

    with working(f"Reading the data and the weights of {record.trial}"):
        reply = answer(record, results, options.input)
    said = f"{options.input} → {reply.text}    probability {reply.probability:.2g}"
    if reply.runner_up is not None:
        said += " (next: {} with {:.2g})".format(*reply.runner_up)
    print("".join(c if c.isprintable() else "�" for c in said.replace("\n", "⏎")))
    for token, symbol, weight in reply.looked_at():
        print(f"{token} ← {symbol} ({weight:.2g})")
    return 0
