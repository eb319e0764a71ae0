"""The command line: python -m model describe."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from model import preset
from model.arguments import BAD_INPUT, Parser, complain, guarded, print_commands
from model.config import ConfigError, nearest
from model.strict_yaml import parse_value

COMMANDS = {"describe": "a model's structure, parameters, FLOPs and memory; no weight is made"}
VOCABULARY = 32_000  # where there is no preset


def main(argv: Sequence[str]) -> int:
    return guarded(lambda: _answer(list(argv)))


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print_commands("python -m model", "[PRESET] [options] [key=value …]", COMMANDS)
        return 0 if words else BAD_INPUT
    try:
        command = words.pop(0)[:100]
        if command not in COMMANDS:
            raise ConfigError([f"no command '{command}'. {nearest(command, COMMANDS)}"])
        return _describe(words)
    except ValueError as error:  # a ConfigError, or what a part says of its sizes
        complain(str(error))
        return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m model describe",
        usage="%(prog)s [PRESET] [key=value …] [--length N] [--vocabulary N] [--json]",
        description=f"Prints {COMMANDS['describe']}. key=value replaces a setting whole: "
        "n_heads=8, position=rotary, mixer.n_kv_heads=2.",
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="PRESET", help=", ".join(preset.names()))
    parser.add_argument("--length", type=_positive, metavar="N", help="default: max_len")
    parser.add_argument(
        "--vocabulary", type=_positive, metavar="N", help=f"default: the preset's or {VOCABULARY}"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    return parser


def _positive(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,14}", text):
        raise argparse.ArgumentTypeError(f"'{text[:80]}': expected a whole number from 1")
    return int(text)


def _describe(words: Sequence[str]) -> int:
    """Preset, options and overrides in any order."""
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    options = _parser().parse_intermixed_args([word for word in words if word not in overrides])
    if len(options.names) > 1:
        raise ConfigError([f"{' and '.join(options.names)}: describe one preset at a time"])
    chosen = preset.Preset("transformer", {"name": "transformer"}, VOCABULARY, VOCABULARY)
    if options.names:
        chosen = preset.load(options.names[0])
    target_size = options.vocabulary or chosen.target_size
    source_size = options.vocabulary or chosen.source_size or target_size

    written = overridden(chosen.model, overrides)

    from model.describe import as_json, as_text, describe

    description = describe(written, source_size, target_size, options.length)
    if options.json:
        name = chosen.name if options.names else None
        print(json.dumps({"preset": name, **as_json(description)}, indent=1))
    else:
        print(as_text(description, " ".join([chosen.name, *overrides])))
    return 0


def overridden(model: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The choice with each `key=value` replaced whole: a new name drops the old one's options."""
    values: dict[str, Any] = {}
    for word in words:
        path, _, text = word.partition("=")
        path = path.removeprefix("model.")
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)?", path):
            raise ConfigError([f"{word[:80]!r}: expected key=value, such as n_heads=8"])
        if path in values:
            raise ConfigError([f"{path}: given twice"])
        try:
            values[path] = parse_value(text)
        except ConfigError as error:
            problem = str(error).removeprefix("command line:1: ")
            raise ConfigError([f"{word[:80]!r}: {problem}"]) from None
    if "name" in values:
        model = {}  # another model has other settings
    changed = {**model, **{path: value for path, value in values.items() if "." not in path}}
    from model.build import resolve  # which imports torch

    defaults = resolve({"name": changed["name"]})
    for path in values.keys() - changed.keys():
        key, _, option = path.partition(".")
        above = changed.get(key, defaults.get(key))
        above = above if isinstance(above, Mapping) else {"name": above}
        changed[key] = {**above, option: values[path]}
    return changed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
