"""describe: what a model costs, before any weight is made."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from ablations.commands.terminal import print_json
from ablations.config import override
from model import presets
from model.config import ConfigError

VOCABULARY = 32_000  # without a preset


def act(options: Namespace) -> int:
    if len(options.names) > 1:
        raise ConfigError([f"{' and '.join(options.names)}: describe one preset at a time"])
    for path, levels in options.factors.items():
        raise ConfigError([f"{path}={','.join(levels)}: describe one model at a time"])
    preset = presets.Preset("transformer", {"name": "transformer"}, VOCABULARY, VOCABULARY)
    if options.names:
        preset = presets.load(options.names[0])
    target_size = options.vocabulary or preset.target_size
    source_size = options.vocabulary or preset.source_size or target_size
    values = {path.removeprefix("model."): value for path, value in options.overrides.items()}
    if len(values) < len(options.overrides):
        raise ConfigError(["a setting is given twice, with and without `model.` before it"])
    title = " ".join([preset.name, *(f"{path}={value}" for path, value in values.items())])
    from model import describe
    from model.build import resolve

    try:
        # name=… chooses another model, without the preset's settings.
        model = {"name": values.pop("name")} if "name" in values else preset.model
        parts = {key: part for key, part in resolve(model).items() if isinstance(part, Mapping)}
        named = {key: part["name"] for key, part in parts.items()}  # so that options can be added
        by_depth = sorted(values, key=lambda path: path.count("."))
        settings = {f"model.{path}": values[path] for path in by_depth}
        written = override({"model": {**named, **model}}, settings)["model"]
        description = describe.describe(written, source_size, target_size, options.length)
    except ValueError as error:  # a ConfigError, or a component's own error about sizes
        raise ConfigError([str(error)]) from None
    if options.json:
        name = preset.name if options.names else None
        print_json({"preset": name, **describe.as_json(description)})
    else:
        print(describe.as_text(description, title))
    return 0
