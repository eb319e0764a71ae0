"""Settings from YAML files and the command line; mistakes are reported with file and line."""

from __future__ import annotations

import difflib
import filecmp
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import combinations
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ablations.store.files import open_file, read_file
from ablations.store.identity import canonical_json
from model.config import ConfigError, nearest, validate
from model.strict_yaml import Source, parse_value, parse_yaml

FOLDER = Path(__file__).parent
_EXAMPLE = "${model.d_model}"
_REFERENCE = re.compile(r"""(?<=['"])\$\{[A-Za-z_][\w.]*\}(?=['"])""")  # a whole string
_PATH = 200  # characters; longer paths are mistakes
_HINT = re.compile(r"Did you mean '([\w-]+)'\?")
_RETIRED = {
    "train.optimiser": "train.optimizer",
    "train.optimizer.rate": "train.optimizer.lr",
    "train.parts": "train.micro_batches",
    "train.smoothing": "train.label_smoothing",
    "train.smoothing_over": "train.label_smoothing_over",
    "model.initial": "model.init",
}
_WRONG = re.compile(r"([\w.-]+): no such (?:option|section)\. ")


def read_yaml(path: Path) -> Source:
    return parsed(*yaml_text(path))


def yaml_text(path: Path) -> tuple[str, str]:
    """The text of a file, and its name in error messages."""
    name = "/".join(path.parts[-2:]) if path.is_relative_to(FOLDER) else str(path)
    try:
        text = read_file(path).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{name}:{line}: not UTF-8; save the file as UTF-8"]) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        raise ConfigError([f"{name}: {getattr(error, 'strerror', None) or error}"]) from None
    return text, name


@lru_cache(maxsize=512)
def parsed(text: str, name: str) -> Source:
    """Cached: the result must not be changed."""
    return parse_yaml(text, name)


def located(error: ConfigError, origins: Sequence[tuple[str, Source]]) -> ConfigError:
    """The same problems, each with the file and line of the wrong setting.

    `origins` are (prefix, source) pairs, those that override others first.
    """

    def place(problem: str) -> str:
        path = re.match(r"[\w.-]*", problem)[0]  # type: ignore[index]
        for prefix, source in origins:
            # The line of a section is that of its first setting.
            below = [each for each in source.lines if each.startswith(f"{prefix}{path}.")]
            written = below[0].removeprefix(prefix) if path and below else path
            while written:
                if prefix + written in source.lines:
                    return f"{source.place(prefix + written)}: {problem}"
                written = written.rpartition(".")[0]
        return problem

    return ConfigError([place(problem) for problem in error.problems])


def parse_overrides(words: Iterable[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Path → value of `path=value` words, and path → level → value of `path=a,b,c` words."""
    values: dict[str, Any] = {}
    factors: dict[str, dict[str, Any]] = {}
    for word in words:
        path, _, text = word.partition("=")
        if len(path) > _PATH or not re.fullmatch(r"[A-Za-z_][\w-]*(\.[\w-]+)*", path):
            raise ConfigError([f"{word[:80]!r}: expected path=value, such as model.n_heads=8"])
        if re.search(r"\..+\.name$", path):  # the options of another part would stay beside it
            raise ConfigError([f"{word[:80]}: write {path.removesuffix('.name')}={text[:80]}"])
        if path in values or path in factors:
            raise ConfigError([f"{path}: given twice on the command line"])
        if "," in text and text.lstrip()[:1] not in tuple("[{\"'"):
            factors[path] = _levels(path, text)
        else:
            values[path] = parse_value(text)
    return values, factors


def _levels(path: str, text: str) -> dict[str, Any]:
    levels = [level.strip() for level in text.split(",")]
    values = [parse_value(level) for level in levels]
    if "" in levels or any(value in values[:index] for index, value in enumerate(values)):
        problem = "a list of different values" if "" not in levels else "a value between commas"
        raise ConfigError([f"{path}={text[:80]}: expected {problem}, such as {path}=1,2"])
    return dict(zip(levels, values, strict=True))


# Layers.


def lay(tree: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the tree with the whole value at a path replaced: old options do not stay.

    An option below a component that is only a name keeps that name.
    """
    key, _, below = path.partition(".")
    if below:
        held = tree.get(key)
        held = {"name": held} if isinstance(held, str) else held
        value = lay(held if isinstance(held, Mapping) else {}, below, value)
    return {**tree, key: value}


def override(tree: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the tree with each {path: value} laid over it."""
    return reduce(lambda under, path: lay(under, path, settings[path]), settings, dict(tree))


def interpolated(value: Any, tree: Mapping[str, Any], path: str) -> Any:
    """The value with each string `${path}` in it replaced by the tree's value at that path.

    Any other `${` is refused: an OmegaConf resolver could read the environment.
    """
    if "${" not in (text := repr(value)):
        return value
    try:
        if text.count("${") > len(_REFERENCE.findall(text)):
            raise KeyError(path)
        known = tree if isinstance(tree, DictConfig) else OmegaConf.create(dict(tree))
        filled: Any = OmegaConf.create({"value": value}, parent=known)
        return OmegaConf.to_container(filled, resolve=True)["value"]  # type: ignore[call-overload, index]
    except (KeyError, OmegaConfBaseException):
        raise ConfigError([f"{path}: {text[:80]} refers to nothing; write {_EXAMPLE}"]) from None


# One trial.


def resolve_trial(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Task, model and training with every default written out, checked against each other."""
    from ablations.facts import model_facts, user_code_errors
    from ablations.tasks import TASK
    from ablations.train.config import TrainConfig
    from model.build import resolve

    problems = [
        f"{key}: no such section. {nearest(key, ('task', 'model', 'train'))}"
        for key in tree.keys() - {"task", "model", "train"}
    ]
    resolved: dict[str, Any] = {}
    sections = {
        "task": lambda written: TASK.resolve(written, "task"),
        "model": resolve,
        "train": lambda written: {**vars(validate(TrainConfig, written, "train"))},
    }
    for name, check in sections.items():
        try:
            with user_code_errors(name):
                resolved[name] = check(tree.get(name, {}))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(_with_right_paths(problems, tree))
    if problems := _file_problems(resolved["task"], TASK.component(resolved["task"]["name"]).files):
        raise ConfigError(problems)
    model_facts(canonical_json(resolved["model"]), canonical_json(resolved["task"]))
    return resolved


def _with_right_paths(problems: Sequence[str], tree: Mapping[str, Any]) -> list[str]:
    """The problems; for an unknown path with a hint at the nearest path in the tree."""
    known = list(paths(tree))

    def mended(problem: str) -> str:
        wrong = _WRONG.match(problem)
        if wrong is None:
            return problem
        if wrong[1] in _RETIRED:
            return f"{wrong[1]}: is gone: write {_RETIRED[wrong[1]]}"
        beside = _HINT.fullmatch(problem[wrong.end() :])
        right = _right_path(wrong[1], known, beside[1] if beside else None)
        return problem if right is None else f"{wrong[0]}Did you mean '{right}'?"

    return [mended(problem) for problem in problems]


def _right_path(wrong: str, known: Sequence[str], beside: str | None) -> str | None:
    """The same option in another section; else `beside`; else a path that ends similarly."""
    above, dot, name = wrong.rpartition(".")
    by_name: dict[str, list[str]] = {}
    for path in known:
        if path != wrong:
            by_name.setdefault(path.rpartition(".")[2], []).append(path)
    if name not in by_name and beside is not None:
        return f"{above}{dot}{beside}"
    like = [name] if name in by_name else difflib.get_close_matches(name, by_name, 1, 0.75)
    ending = [path for word in like for path in by_name[word]]
    return next(iter(difflib.get_close_matches(wrong, ending, 1, 0.0)), None)


def paths(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The dotted path of every setting and section."""
    for key, value in tree.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from paths(value, f"{above}{key}.")


def _file_problems(task: Mapping[str, Any], options: Iterable[str]) -> list[str]:
    """A problem for each of the user's data files that looks like the wrong file."""
    given = {  # the task's own reader reports files that do not exist
        name: path
        for name in options
        if isinstance(path := task.get(name), str) and "\0" not in path and os.path.isfile(path)
    }
    problems = [
        f"task.{other}={given[other]}: the same as task.{one}: it would test on training data; "
        "name another file"
        for one, other in combinations(given, 2)
        if one.partition("_")[2] == other.partition("_")[2]  # both source, or both target
        and "train" in (one.partition("_")[0], other.partition("_")[0])
        and filecmp.cmp(given[one], given[other], shallow=False)
    ]
    return problems + [
        f"task.{option}={path}:1: no tab in it, though it is called .tsv; write "
        "word<TAB>p h o n e s, or call it .txt if it is WORD  P H O N E S"
        for option, path in given.items()
        if path.lower().endswith(".tsv") and not _has_tab(path)
    ]


def _has_tab(path: str) -> bool:
    """Whether the first line that is no comment has a tab; an empty file is another mistake."""
    with open_file(path) as file:
        lines = (x for x in file if x.strip() and not x.lstrip().startswith((b"#", b";;;")))
        return b"\t" in next(lines, b"\t")
