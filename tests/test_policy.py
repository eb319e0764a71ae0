"""Rules that keep the project in order, as tests."""

from __future__ import annotations

import ast
import gzip
import re
import shlex
import subprocess
import tokenize
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from ablations.commands import main, parse
from ablations.expand import expand
from ablations.profile import read_profile
from ablations.spec import experiments, read_experiment
from model import presets
from model.build import REGISTRIES

ROOT = Path(__file__).parent.parent
PACKAGES = ("model", "ablations", "analysis")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


@cache
def nodes(path: Path) -> list[Any]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


ROOMS = (
    *("store", "signals", "tasks", "train", "measurement", "benchmarks", "probes", "evaluations"),
    *("facts", "config", "predictions", "profile", "spec", "expand", "tuning"),
    *("plan", "missing", "estimate", "plan_document", "leases", "progress", "launch", "worker"),
    *("preload", "jobs", "benchmark_jobs", "runner", "commands"),
)
"""Of ablations/, from the ground up: one uses those below it, and never one above."""


def wrong_arrows(importer: str, imported: set[str]) -> list[str]:
    """analysis → ablations.store ← ablations → model, and inside ablations down the rooms.

    The commands alone may ask analysis for verdicts.
    """
    package, _, rest = importer.partition(".")
    room = rest.partition(".")[0]
    allowed = {
        "model": ["model"],
        "ablations": ["model", *(f"ablations.{below}" for below in ROOMS)],
        "analysis": ["analysis", "ablations.store"],
    }[package]
    if room in ROOMS:
        above = ROOMS[ROOMS.index(room) + 1 :]
        allowed = [name for name in allowed if name.rpartition(".")[2] not in above]
        allowed += ["analysis"] if room == "commands" else []
    ours = [name for name in imported if name.split(".")[0] in PACKAGES]
    return [name for name in ours if not any(f"{name}.".startswith(f"{a}.") for a in allowed)]


def test_imports_go_one_way() -> None:
    wrong = {
        module: arrows
        for module, path in MODULES.items()
        if (arrows := wrong_arrows(module, imported_modules(path)))
    }
    assert wrong == {}, (
        "move what is shared down, or hand it over as an argument. "
        f"From the ground up: {', '.join(ROOMS)}"
    )


def test_every_package_and_module_has_its_place() -> None:
    folders = {path.parent.name for path in (ROOT / "ablations").glob("*/__init__.py")}
    alone = {path.stem for path in (ROOT / "ablations").glob("*.py")} - {"__init__", "__main__"}
    assert folders | alone == set(ROOMS), "name a new one in ROOMS, where it stands among them"


def test_a_measurement_goes_forward_only() -> None:
    """The ten steps of CONTRIBUTING: none imports a later one, but for the store that all share."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\d+\. (.+)$", page, flags=re.MULTILINE)
    assert len(lines) == 10
    steps = {
        name: number
        for number, line in enumerate(lines)
        for name in re.findall(r"`((?:ablations|analysis)\.[\w.]+)`", line)
    }
    wrong = []
    for module, path in MODULES.items():
        own = next((n for name, n in steps.items() if f"{module}.".startswith(f"{name}.")), None)
        for imported in imported_modules(path) if own is not None else ():
            at = next((n for s, n in steps.items() if f"{imported}.".startswith(f"{s}.")), own)
            if at > own and not imported.startswith("ablations.store"):
                wrong.append(f"{module} imports {imported}")
    assert not wrong
    assert {name for name in steps if name not in MODULES} == set()


HEAVY = {
    "model": {"pandas", "matplotlib", "seaborn", "scipy", "rich"},
    "ablations": {"pandas", "matplotlib", "seaborn", "scipy"},
    "analysis": {"torch", "safetensors", "rich"},
}


def test_each_package_keeps_to_its_own_libraries() -> None:
    for module, path in MODULES.items():
        tops = {name.split(".")[0] for name in imported_modules(path)}
        assert not tops & HEAVY[module.split(".")[0]], module


def compares_a_name(node: Any, names: set[str]) -> bool:
    """Whether it compares or matches against the name of a part."""
    values = [getattr(node, "value", None)] if isinstance(node, ast.MatchValue) else []
    if isinstance(node, ast.Compare):
        values = [node.left, *node.comparators]
    leaves = [leaf for value in values for leaf in ast.walk(value)]
    return any(isinstance(leaf, ast.Constant) and leaf.value in names for leaf in leaves)


def test_no_code_but_build_asks_for_a_part_by_name() -> None:
    names = {name for registry in REGISTRIES for name in registry.components}
    for module, path in MODULES.items():
        # Also plain words of statistics and schedules, and the name of a reading.
        plain = {"none", "linear", "attention"} if module.startswith("analysis") else set()
        if module != "model.build":
            found = [n.lineno for n in nodes(path) if compares_a_name(n, names - plain)]
            assert found == [], f"{module}, lines {found}"


RETIRED = {
    "ablation": "experiment",
    "arms": "variants",
    "crew": "processes",
    "door": "entry point, command",
    "flight": "submitted job",
    "freeze": "canonical_json",
    "keeper": "checkpointer",
    "house": "project",
    "lane": "replica",
    "ledger": "claims",
    "luck": "noise",
    "optimiser": "optimizer",
    "owed": "missing",
    "pace": "step_time",
    "paced": "equal time",
    "readings": "measurements",
    "smoothing_over": "label_smoothing_over",
    "standing": "rank",
    "strangers": "what it is",
    "told": "what it holds",
    "twin": "baseline_again",
    "undisturbed": "defer_signals",
    "vouched": "with_checksum",
}
"""Word, or whole name → what it is called now. In prose they are English."""


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Identifiers of a module, or keys of a YAML file, with their lines; the text of a module may
    have old names, which the program answers with the new ones."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        for before, token in pairwise(yaml.scan(text)):
            if isinstance(before, yaml.KeyToken) and isinstance(token, yaml.ScalarToken):
                yield token.start_mark.line + 1, token.value
        return
    yield 1, path.stem
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def test_a_retired_word_is_in_no_name_and_no_key() -> None:
    data = [path for package in PACKAGES for path in (ROOT / package).rglob("*.yaml")]
    found = set()
    for path in (*FILES, *data):
        for line, name in names_in(path):
            words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
            for word in RETIRED.keys() & {name, *(word.lower() for word in words)}:
                found.add(f"{path.relative_to(ROOT)}:{line}: {name}: say {RETIRED[word]}")
    assert not found, "\n".join(sorted(found))


def test_no_file_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc"}
    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert [path for path in (*FILES, *tests) if path.stem in empty] == []


def test_no_two_classes_share_a_name() -> None:
    names = [
        node.name
        for path in FILES
        for node in nodes(path)[0].body
        if isinstance(node, ast.ClassDef)
    ]
    again = {name for name in names if names.count(name) > 1}
    assert not again, "one name, one idea: rename all but one of these classes"


PROFILES = sorted(path.stem for path in (ROOT / "ablations/profiles").glob("*.yaml"))


@cache
def expanded(profile: str) -> list[tuple[Any, list[Any]]]:
    """Every experiment with its trials of one seed."""
    read = map(read_experiment, experiments().values())
    return [(each, expand(each, read_profile(profile), {}, [0])) for each in read]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_experiment_resolves(profile: str) -> None:
    for experiment, trials in expanded(profile):
        assert {trial.variant for trial in trials} == set(experiment.variants), experiment.name
        assert len({trial.id for trial in trials}) == len(trials), f"{experiment.name}: two are one"


def chosen_parts() -> set[tuple[str, str]]:
    """(registry, part) of every choice in any preset, or any variant of an experiment at quick."""
    found: set[tuple[str, str]] = set()

    def walk(word: str, value: object) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("name"), str):
                found.add((word, value["name"]))
            for key, below in value.items():
                walk(key, below)

    for name in presets.names():
        walk("model", presets.load(name).model)
    for _, trials in expanded("quick"):
        for trial in trials:
            walk("model", trial.config["model"])
    return found


def test_every_part_stands_in_an_ablation_or_a_preset() -> None:
    registered = {(registry.word, name) for registry in REGISTRIES for name in registry.components}
    owed = [
        f"{word} '{name}' stands nowhere: name it in a variant of a file of ablations/experiments, "
        "or in a preset in model/presets/"
        for word, name in sorted(registered - chosen_parts())
    ]
    assert not owed, "\n".join(owed)


def readme_commands() -> list[tuple[str, bool]]:
    """Commands of the README's console blocks, and whether a comment marks them as tested."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(<!-- tested -->\n)?```console\n(.*?)```", text, flags=re.DOTALL)
    lines = [
        (line.split(" #")[0].strip(), bool(mark)) for mark, b in blocks for line in b.splitlines()
    ]
    return [(line, marked) for line, marked in lines if line]


def test_the_commands_of_the_readme_parse() -> None:
    script = (ROOT / "run_all.sh").read_text(encoding="utf-8")
    for command, _ in readme_commands():
        words = shlex.split(command)
        if words[0] == "./run_all.sh":
            assert len(words) == 1 or re.search(rf"\b{words[1]}\b", script)
        elif words[0] == ".venv/bin/ablations":
            parse(words[1:])
        elif command.startswith(".venv/bin/python -m zipfile -e "):
            assert (ROOT / words[4]).is_file()
        else:
            assert words[0] in ("git", "cd"), f"no test knows how to read {command!r}"


@pytest.mark.parametrize("command", [line for line, marked in readme_commands() if marked])
def test_the_marked_commands_of_the_readme_run(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command)
    assert words[0] == ".venv/bin/ablations"
    assert main(words[1:]) == 0
    assert capsys.readouterr().out


def test_the_project_names_neither_a_machine_nor_a_registry() -> None:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the project's files")
    words = re.compile(rb"/(work|root|home)/|pypi\.org|/opt/wheels")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".png", ".svg", ".pdf") or path == Path(__file__) or not path.is_file():
            continue
        assert not any(map(words.search, contents(path))), name


def contents(path: Path) -> list[bytes]:
    """What a file holds, packed or not."""
    if path.suffix == ".gz":
        return [gzip.decompress(path.read_bytes())]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            return [packed.read(name) for name in packed.namelist()]
    return [path.read_bytes()]


def test_a_wheel_carries_every_file_that_is_not_code() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = {
        path
        for package, patterns in settings["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package).glob(pattern)
    }
    files = {path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()}
    code = {path for path in files if path.suffix in (".py", ".pyc")}
    assert files - code == carried
