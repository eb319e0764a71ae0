"""The command line: python -m model describe."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from model import preset
from model.arguments import BAD_INPUT, Parser, complain, guarded, print_commands
from model.config import ConfigError, nearest
from model.strict_yaml import parse_value

COMMANDS = {"describe": "a model's structure, parameters, FLOPs and memory; no weight is made"}
VOCABULARY = 32_000  # where there is no preset


def main(argv: Sequence[str], alone: bool = False) -> int:
    """`alone`: nothing else will run in this process."""
    return guarded(lambda: _answer(list(argv), alone))


def _answer(words: list[str], alone: bool) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print_commands("python -m model", "[PRESET] [options] [key=value …]", COMMANDS)
        return 0 if words else BAD_INPUT
    try:
        command = words.pop(0)[:100]
        if command not in COMMANDS:
            raise ConfigError([f"no command '{command}'. {nearest(command, COMMANDS)}"])
        return _describe(words, alone)
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


def _describe(words: Sequence[str], alone: bool) -> int:
    """Preset, options and overrides in any order."""
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    options = _parser().parse_intermixed_args([word for word in words if word not in overrides])
    if len(options.names) > 1:
        raise ConfigError([f"{' and '.join(options.names)}: describe one preset at a time"])
    chosen = preset.Preset("default", {"name": "transformer"}, VOCABULARY, VOCABULARY)
    if options.names:
        chosen = preset.load(options.names[0])
    target_size = options.vocabulary or chosen.target_size
    source_size = options.vocabulary or chosen.source_size or target_size

    import torch  # noqa: F401 (first, as it asks the compiler for more than we do)

    if alone:
        sys.modules.setdefault("torch._dynamo", _Compiler("torch._dynamo"))
    from model.describe import as_json, as_text, describe

    written = overridden(chosen.model, overrides)
    description = describe(written, source_size, target_size, options.length)
    if options.json:
        name = chosen.name if options.names else None
        print(json.dumps({"preset": name, **as_json(description)}, indent=1))
    else:
        print(as_text(description, " ".join([chosen.name, *overrides])))
    return 0


def overridden(model: Any, words: Sequence[str]) -> Any:
    """The choice with each `key=value` replaced whole: a new name drops the old one's options."""
    from model.build import resolve

    values: dict[str, Any] = {}
    for word in words:
        path, _, text = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", path):
            raise ConfigError([f"{word[:80]!r}: expected key=value, such as n_heads=8"])
        keys = path.removeprefix("model.").split(".")
        keys = [] if keys == ["model"] else keys
        path = ".".join(keys[:-1] if keys[-1:] == ["name"] else keys)
        if path in values:
            raise ConfigError([f"{path or 'model'}: given twice"])
        values[path] = _value(word, text)
    model = _choice(values.pop("", model))
    defaults = resolve({"name": model.get("name")})
    for path, value in sorted(values.items(), key=lambda item: item[0].count(".")):
        key, _, option = path.partition(".")
        if option:
            value = {**_choice(model.get(key, defaults.get(key))), option: value}
        model = {**model, key: value}
    return model


def _choice(written: Any) -> dict[str, Any]:
    return dict(written) if isinstance(written, Mapping) else {"name": written}


def _value(word: str, text: str) -> Any:
    try:
        return parse_value(text)
    except ConfigError as error:
        problem = str(error).removeprefix("command line").lstrip(":1 ")
        raise ConfigError([f"{word[:80]!r}: {problem}"]) from None


class _Compiler(ModuleType):
    """In place of torch's compiler, until more is asked than that it leave a function alone.

    The meta device asks for that alone, and importing the compiler would double our time.
    """

    @staticmethod
    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        return function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        sys.modules.pop(self.__name__, None)
        return getattr(importlib.import_module(self.__name__), name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], alone=True))
