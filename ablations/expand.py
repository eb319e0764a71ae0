"""From a question to its trials: base ← profile ← ablation ← command line ← variant ← seed."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ablations.config import FOLDER, Source, read_yaml, referred, replaced
from model.config import ConfigError, nearest, validate


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One question, as its YAML file writes it."""

    question: str
    task: str
    control: str
    """The label of the variant that the others are compared with."""
    variants: dict[str, Any]
    """Label → {path: value}; each path is replaced whole."""
    metric: str
    """The score of the task that decides."""
    measures: list[str]
    fixed: str
    """What is held equal."""
    moves: str
    """What moves with the axis, unasked."""
    claims: list[Any] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    """{path: value} for every variant."""
    across: dict[str, Any] = field(default_factory=dict)
    """Factor → level → {path: value}; every variant is crossed with every level."""

    def __post_init__(self) -> None:
        if self.control not in self.variants:
            hint = nearest(self.control, self.variants)
            raise ConfigError([f"control: no variant '{self.control}'. {hint}"])
        problems = [
            f"variants.{label}: expected {{path: value}}, got {paths!r}"
            for label, paths in self.variants.items()
            if not isinstance(paths or {}, Mapping)
        ]
        for factor, levels in self.across.items():
            if not isinstance(levels, Mapping):
                problems.append(f"across.{factor}: expected levels, got {levels!r}")
                continue
            problems += [
                f"across.{factor}.{level}: expected {{path: value}}, got {paths!r}"
                for level, paths in levels.items()
                if not isinstance(paths or {}, Mapping)
            ]
        problems += [
            f"claims: expected an id, a statement and a source, got {claim!r}"
            for claim in self.claims
            if not isinstance(claim, Mapping) or not isinstance(claim.get("id"), str)
        ]
        if problems:
            raise ConfigError(problems)


@dataclass(frozen=True)
class Profile:
    """How much to spend."""

    name: str
    seeds: list[int]
    timing: dict[str, Any]
    settings: Source
    """Task → {path: value}."""


@dataclass(frozen=True)
class Cell:
    """One place in an ablation's table, and the trial that fills it."""

    label: str
    seed: int
    across: dict[str, str]
    config: dict[str, Any]
    trial: str
    frozen: Mapping[str, str]
    """Each section as one text, made once for all seeds."""
    settings: str
    """Twelve hex digits of what decides the trial's numbers besides the seed."""


def catalogue() -> dict[str, Path]:
    return {path.stem: path for path in sorted((FOLDER / "catalogue").glob("*.yaml"))}


def find(word: str) -> tuple[str, Path]:
    """An ablation by its name in the catalogue or by its file."""
    if word in catalogue():
        return word, catalogue()[word]
    if word.endswith((".yaml", ".yml")):
        return re.sub(r"[^\w.-]", "_", Path(word).stem)[:100], Path(word)
    raise ConfigError([f"no ablation '{word[:100]}'. {nearest(word[:100], catalogue())}"])


def read_ablation(path: Path) -> tuple[Ablation, Source]:
    source = read_yaml(path)
    try:
        return validate(Ablation, source.values, ""), source
    except ConfigError as error:
        raise located(error, [("", source)]) from None


def find_profile(name: str) -> Path:
    known = {path.stem: path for path in (FOLDER / "profiles").glob("*.yaml")}
    if name not in known:
        raise ConfigError([f"no profile '{name[:100]}'. {nearest(name[:100], known)}"])
    return known[name]


def read_profile(name: str) -> Profile:
    source = read_yaml(find_profile(name))
    values = dict(source.values)
    return Profile(
        name, values.pop("seeds"), values.pop("timing"), Source(source.name, values, source.lines)
    )


def located(error: ConfigError, origins: Sequence[tuple[str, Source]]) -> ConfigError:
    """The same problems, each with the file and line that wrote what is wrong.

    `origins` are (prefix, source) from the last written to the first.
    """

    def place(problem: str) -> str:
        path = re.match(r"[\w.-]*", problem)[0]  # type: ignore[index]
        for prefix, source in origins:
            written = path
            while written:
                if prefix + written in source.lines:
                    line = source.lines[prefix + written]
                    return (
                        f"{source.name}:{line}: {problem}" if line else f"{source.name}: {problem}"
                    )
                written = written.rpartition(".")[0]
        return problem

    return ConfigError([place(problem) for problem in error.problems])


def size(ablation: Ablation, seeds: Sequence[int]) -> int:
    """How many cells an ablation has, without making one."""
    return len(ablation.variants) * math.prod(map(len, ablation.across.values())) * len(seeds)


def expand(
    ablation: Ablation,
    source: Source,
    profile: Profile,
    overrides: Mapping[str, Any],
    seeds: Sequence[int],
) -> list[Cell]:
    """Every cell of the ablation; ConfigError lists all that is wrong with any of them."""
    base = read_yaml(_base(ablation.task, source))
    typed = Source("command line", {}, dict.fromkeys(overrides, 0))
    _refuse_varied(ablation, overrides)
    tree = dict(base.values)
    layers = (
        (profile.settings, profile.settings.values.get(ablation.task) or {}),
        (source, ablation.settings),
        (typed, overrides),
    )
    for layer, paths in layers:
        for path, value in paths.items():
            tree = replaced(tree, path, referred(value, tree, layer.name))
    levels = [
        [(factor, level, paths or {}) for level, paths in options.items()]
        for factor, options in ablation.across.items()
    ]
    cells: list[Cell] = []
    problems: dict[str, None] = {}  # in order, each once
    for label, variant in ablation.variants.items():
        for crossing in itertools.product(*levels):
            crossed = tree
            for path, value in itertools.chain(*(paths.items() for _, _, paths in crossing)):
                crossed = replaced(crossed, path, referred(value, tree, source.name))
            varied = crossed
            for path, value in (variant or {}).items():
                varied = replaced(varied, path, referred(value, crossed, source.name))
            origins = [(f"variants.{label}.", source)]
            origins += [(f"across.{factor}.{level}.", source) for factor, level, _ in crossing]
            origins += [
                ("", typed),
                ("settings.", source),
                (f"{ablation.task}.", profile.settings),
                ("", base),
            ]
            try:
                config = resolve_trial(varied)
            except ConfigError as error:
                problems |= dict.fromkeys(located(error, origins).problems)
                continue
            across = {factor: level for factor, level, _ in crossing}
            frozen = {name: freeze(section) for name, section in config.items()}
            decisive = _decisive(config)
            settings = _digest(decisive)
            for seed in seeds:
                trial = _identity(decisive, seed)
                full = {**config, "seed": seed}
                cells.append(Cell(label, seed, across, full, trial, frozen, settings))
    if problems:
        raise ConfigError(list(problems))
    return cells


def _base(task: str, source: Source) -> Path:
    path = FOLDER / "base" / f"{task}.yaml"
    known = [file.stem for file in path.parent.glob("*.yaml")]
    if task not in known:
        raise ConfigError([f"{source.place('task')}: no task '{task}'. {nearest(task, known)}"])
    return path


def _refuse_varied(ablation: Ablation, overrides: Mapping[str, Any]) -> None:
    """An override that a variant would replace again is a mistake, not a setting.

    Below a path that only a rival replaces (a whole model, say) it still holds for the control.
    """
    ours = set(ablation.variants[ablation.control] or {})
    theirs = {path for variant in ablation.variants.values() for path in variant or {}}
    theirs |= {p for o in ablation.across.values() for paths in o.values() for p in paths or {}}
    for path in overrides:
        above = {path[: match.start()] for match in re.finditer(r"\.", path)}
        if path in theirs or above & ours:
            raise ConfigError([f"{path}: this ablation varies it, so it cannot be set"])


def resolve_trial(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Task, model and training with every default written out, checked against each other."""
    from ablations.tasks import TASK
    from ablations.train import TrainConfig
    from model.build import resolve

    problems = [
        f"{key}: no such section. {nearest(key, ('task', 'model', 'train'))}"
        for key in tree.keys() - {"task", "model", "train"}
    ]
    resolved: dict[str, Any] = {}
    sections = {
        "task": lambda written: TASK.resolve(written, "task"),
        "model": resolve,
        "train": lambda written: _plain(validate(TrainConfig, written, "train")),
    }
    for name, check in sections.items():
        try:
            resolved[name] = check(tree.get(name, {}))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    _shape(freeze(resolved["model"]), freeze(resolved["task"]))
    return resolved


def _plain(config: Any) -> dict[str, Any]:
    return dict(vars(config))


def freeze(plain: Any) -> str:
    """One text for equal settings, whatever the order they were written in."""
    return json.dumps(plain, sort_keys=True, allow_nan=False)


@cache
def load_task(frozen: str) -> Any:
    from ablations.tasks import TASK

    return TASK.build(json.loads(frozen))


def announce(tasks: Iterable[Mapping[str, Any]]) -> None:
    """Let processes that this one starts know which tasks their jobs will ask for."""
    os.environ[_ANNOUNCED] = json.dumps(sorted({freeze(task) for task in tasks}))


def announced() -> list[str]:
    return json.loads(os.environ.get(_ANNOUNCED, "[]"))


_ANNOUNCED = "ABLATIONS_TASKS"


@cache
def _shape(frozen_model: str, frozen_task: str) -> Any:
    """The model on no device, checked against its task; ConfigError if the two do not fit."""
    import torch

    from model.build import build
    from model.head import HEAD, Head
    from model.position import Position

    try:
        task = load_task(frozen_task)
    except ConfigError as error:
        raise ConfigError([f"task.{problem}" for problem in error.problems]) from None
    written = json.loads(frozen_model)
    kind = written.get("kind", task.kind)
    if kind != task.kind:
        raise ConfigError([f"model.kind={kind}: this task needs {task.kind}"])
    try:
        with torch.device("meta"):
            model = build(written, task.source_size, task.target_size, seed=None)
    except ConfigError as error:
        raise ConfigError([f"model.{problem}" for problem in error.problems]) from None
    except (ValueError, RuntimeError) as error:  # RuntimeError: more weights than can be counted
        raise ConfigError([f"model: d_model or another size: {error}"]) from None
    head = getattr(model, "head", None)
    if isinstance(head, Head) and head.per != task.per:
        fitting = [name for name, part in HEAD.parts.items() if part.per == task.per]
        name = written["head"]["name"]
        raise ConfigError(
            [f"model.head={name}: this task has a label for each {task.per}; "
             f"choose {' or '.join(fitting)}"]
        )  # fmt: skip
    for module in model.modules():
        if isinstance(module, Position):
            try:
                module.check(task.longest)
            except ValueError as error:
                raise ConfigError([f"model.max_len: {error}"]) from None
    return model


@cache
def code(frozen_model: str, frozen_task: str, frozen_train: str) -> str:
    """The fingerprint of the code that decides a trial's numbers."""
    from ablations.numerics import digest
    from ablations.optimise import OPTIMISER, SCHEDULE
    from model.initialise import INITIAL

    model, train = json.loads(frozen_model), json.loads(frozen_train)
    choices = [(OPTIMISER, train["optimiser"]), (SCHEDULE, train["schedule"])]
    choices += [(INITIAL, model["initial"])] if "initial" in model else []
    parts = [family.part(choice["name"]) for family, choice in choices]
    return digest(_shape(frozen_model, frozen_task), load_task(frozen_task), parts)


@cache
def parameters(frozen_model: str, frozen_task: str) -> int:
    from model.count import parameters

    return parameters(_shape(frozen_model, frozen_task))


@cache
def count(frozen_model: str, frozen_task: str) -> dict[str, float]:
    """Parameters, and forward FLOPs per token at the task's longest sequences."""
    import torch

    from model.count import flops_per_token

    model, task = _shape(frozen_model, frozen_task), load_task(frozen_task)
    source_length = None if task.source_size is None else task.longest
    with torch.device("meta"):
        flops = flops_per_token(model, source_length, task.longest)
    return {"parameters": parameters(frozen_model, frozen_task), "flops_per_token": flops}


def identity(config: Mapping[str, Any]) -> str:
    """Twelve hex digits of what decides the numbers of a trial."""
    return _identity(_decisive(config), config["seed"])


def _decisive(config: Mapping[str, Any]) -> dict[str, str]:
    """What decides besides the seed, frozen; the digest of the data stands for its files."""
    task = load_task(freeze(config["task"]))
    options = {key: value for key, value in config["task"].items() if key not in task.files}
    parts = {"data": task.digest(), "task": options}
    parts |= {name: config[name] for name in ("model", "train")}
    return {name: freeze(part) for name, part in parts.items()}


def _identity(decisive: Mapping[str, str], seed: int) -> str:
    return _digest({**decisive, "seed": freeze(seed)})


def _digest(parts: Mapping[str, str]) -> str:
    text = ", ".join(f'"{name}": {parts[name]}' for name in sorted(parts))
    return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()[:12]
