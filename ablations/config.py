"""Settings from YAML files and the command line, each mistake with its file and line; and a trial
with every default written out and checked.
"""

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
_REFERENCE = re.compile(r"""(?<=['"])\$\{[A-Za-z_][\w.]*\}(?=['"])""")  # as a whole text
_PATH = 200  # characters; no setting is that far down
_HINT = re.compile(r"Did you mean '([\w-]+)'\?")
_RETIRED = dict(
    pair.split(" → ")
    for pair in (
        "train.optimiser → train.optimizer",
        "train.optimizer.rate → train.optimizer.lr",
        "train.parts → train.micro_batches",
        "train.smoothing → train.label_smoothing",
        "train.smoothing_over → train.label_smoothing_over",
        "model.initial → model.init",
    )
)
_WRONG = re.compile(r"([\w.-]+): no such (?:option|section)\. ")


def read_yaml(path: Path) -> Source:
    return parsed(*yaml_text(path))


def yaml_text(path: Path) -> tuple[str, str]:
    """What a file says, and the name that errors call it by."""
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
    """The same object for the same text: nobody writes to it."""
    return parse_yaml(text, name)


def located(error: ConfigError, origins: Sequence[tuple[str, Source]]) -> ConfigError:
    """The same problems, each with the file and line that wrote what is wrong.

    `origins` are (prefix, source) from the last written to the first.
    """

    def place(problem: str) -> str:
        path = re.match(r"[\w.-]*", problem)[0]  # type: ignore[index]
        for prefix, source in origins:
            # A wrong section is written where its settings are.
            below = [each for each in source.lines if each.startswith(f"{prefix}{path}.")]
            written = below[0].removeprefix(prefix) if path and below else path
            while written:
                if prefix + written in source.lines:
                    return f"{source.place(prefix + written)}: {problem}"
                written = written.rpartition(".")[0]
        return problem

    return ConfigError([place(problem) for problem in error.problems])


def parse_overrides(words: Iterable[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """`path=value` words, a value read as in YAML; and `path=a,b,c`, by level as it is written."""
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
    """A copy of the tree with what is at a path replaced, whole: no option of a component that was
    there before stays.

    A component that is only named keeps its name when it is given an option.
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


def value_at(tree: Any, path: str, default: Any = None) -> Any:
    """What the tree has at a path."""
    for key in path.split("."):
        if not isinstance(tree, Mapping) or key not in tree:
            return default
        tree = tree[key]
    return tree


def interpolated(value: Any, tree: Mapping[str, Any], path: str) -> Any:
    """The value of a path with each text `${path}` in it replaced by what the tree has there.

    Everything else with `${` is refused: a resolver could read the environment.
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
    """The problems; a path that does not exist is answered with the nearest one that does."""
    known = list(_paths(tree))

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
    """The path elsewhere that ends in the same word, the option `beside` it that is like it, or the
    path that ends in the word most like its own; None where there is no such."""
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


def _paths(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Every setting under its dotted path, choices as well as their options."""
    for key, value in tree.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _paths(value, f"{above}{key}.")


def _file_problems(task: Mapping[str, Any], options: Iterable[str]) -> list[str]:
    """A line for each of the user's data files that cannot be the one that was meant."""
    given = {  # files that exist; the task's reader complains of the others
        name: path
        for name in options
        if isinstance(path := task.get(name), str) and "\0" not in path and os.path.isfile(path)
    }
    problems = [
        f"task.{other}={given[other]}: the same as task.{one}: what was learned by heart tests "
        "nothing; name another file"
        for one, other in combinations(given, 2)
        if one.partition("_")[2] == other.partition("_")[2]  # source and source, of two splits
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
    """Whether the first line that is not a comment has two columns."""
    with open_file(path) as file:
        said = (x for x in file if x.strip() and not x.lstrip().startswith((b"#", b";;;")))
        return b"\t" in next(said, b"\t")  # an empty file is another mistake
