"""describe: what a model costs, before any weight is made."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from typing import Any

from ablations.commands.arguments import as_json
from model import presets
from model.config import ConfigError

MEANING = "a model's structure, parameters, FLOPs and memory; no weight is made"
VOCABULARY = 32_000  # where there is no preset


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="PRESET", help=", ".join(presets.names()))
    parser.add_argument("--length", type=_positive, metavar="N", help="default: max_len")
    parser.add_argument(
        "--vocabulary", type=_positive, metavar="N", help=f"default: the preset's or {VOCABULARY}"
    )
    as_json(parser)


def _positive(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,14}", text):
        raise argparse.ArgumentTypeError(f"'{text[:80]}': expected a whole number from 1")
    return int(text)


def act(options: argparse.Namespace) -> int:
    if len(options.names) > 1:
        raise ConfigError([f"{' and '.join(options.names)}: describe one preset at a time"])
    for path, levels in options.factors.items():
        raise ConfigError([f"{path}={','.join(levels)}: describe one model at a time"])
    chosen = presets.Preset("transformer", {"name": "transformer"}, VOCABULARY, VOCABULARY)
    if options.names:
        chosen = presets.load(options.names[0])
    target_size = options.vocabulary or chosen.target_size
    source_size = options.vocabulary or chosen.source_size or target_size
    values = {path.removeprefix("model."): value for path, value in options.overrides.items()}
    if len(values) < len(options.overrides):
        raise ConfigError(["a setting is given twice, with and without `model.` before it"])
    try:
        written = overridden(chosen.model, values)
        from model import describe

        description = describe.describe(written, source_size, target_size, options.length)
    except ValueError as error:  # a ConfigError, or what a part says of its sizes
        raise ConfigError([str(error)]) from None
    if options.json:
        name = chosen.name if options.names else None
        print(json.dumps({"preset": name, **describe.as_json(description)}, indent=1))
    else:
        changes = [f"{path}={value}" for path, value in values.items()]
        print(describe.as_text(description, " ".join([chosen.name, *changes])))
    return 0


def overridden(model: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The choice with each value replaced whole: a new name drops the old one's options."""
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
