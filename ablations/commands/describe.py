"""describe: what a model costs, before any weight is made."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from ablations.commands.terminal import print_json
from model import presets
from model.config import ConfigError

VOCABULARY = 32_000  # where there is no preset


def act(options: Namespace) -> int:
    if len(options.preset) > 1:
        raise ConfigError([f"{' and '.join(options.preset)}: describe one preset at a time"])
    for path, levels in options.factors.items():
        raise ConfigError([f"{path}={','.join(levels)}: describe one model at a time"])
    preset = presets.Preset("transformer", {"name": "transformer"}, VOCABULARY, VOCABULARY)
    if options.preset:
        preset = presets.load(options.preset[0])
    target_size = options.vocabulary or preset.target_size
    source_size = options.vocabulary or preset.source_size or target_size
    values = {path.removeprefix("model."): value for path, value in options.overrides.items()}
    if len(values) < len(options.overrides):
        raise ConfigError(["a setting is given twice, with and without `model.` before it"])
    try:
        written = overridden(preset.model, values)
        from model import describe

        description = describe.describe(written, source_size, target_size, options.length)
    except ValueError as error:  # a ConfigError, or what a component says of its sizes
        raise ConfigError([str(error)]) from None
    if options.json:
        name = preset.name if options.preset else None
        print_json({"preset": name, **describe.as_json(description)})
    else:
        changes = [f"{path}={value}" for path, value in values.items()]
        print(describe.as_text(description, " ".join([preset.name, *changes])))
    return 0


def overridden(model: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The model with each value replaced whole: a new name drops the old one's options."""
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
