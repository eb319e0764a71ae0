"""The commands on a plan and a folder: what they answer, in which words and with which code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ablations.commands import parse, parsers
from ablations.commands.arguments import cores, machine_of, names_of
from ablations.estimate import BEFORE, FRESH
from ablations.jobs import RunConfig
from ablations.plan import Plan, make_plan
from ablations.plan_document import merge_into
from ablations.profile import find_profile
from ablations.spec import experiments, find, read_experiment
from ablations.store.record import Record
from ablations.store.results import Results

Ask = Callable[..., str]
Say = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test starts in an empty folder, and an operation takes a microsecond."""
    folder = tmp_path / "stands here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("ablations.estimate.rate_of", lambda *_: 1e-6)
    return folder


def document(say: Say, *words: str) -> Any:
    code, out, err = say(*words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


EXAMPLES = [
    shlex.split(line)[1:]
    for parser in parsers()[1].values()
    for line in (parser.epilog or "").splitlines()[1:]
]


def test_every_word_of_an_example_means_something() -> None:
    """Options are known, questions, variants and claims exist, and what is set can be set."""
    for example in EXAMPLES:
        check(example)


def check(example: list[str]) -> None:
    options = parse(example)
    find_profile(getattr(options, "profile", "quick"))
    if options.command == "describe":
        return
    words = [*options.names, getattr(options, "trial", "")]
    for variant in (word for word in words if ":" in word):
        experiment, label, *_ = variant.split(":")
        assert label in read_experiment(find(experiment)[experiment]).variants
    names = [word.partition(":")[0] for word in options.names if not word.endswith(".yaml")]
    if hasattr(options, "claim"):
        assert names_of(options) == options.names or options.claim
    if names:
        assert make_plan(names, "smoke", options.overrides, [300], False, options.factors).trials


def test_list_and_status_need_neither_torch_nor_pandas_nor_matplotlib(folder: Results) -> None:
    """And the program itself not even rich."""
    script = (
        "import sys; from ablations.commands import main; "
        "heavy = {'torch', 'numpy', 'pandas', 'matplotlib', 'rich'} & set(sys.modules); "
        "code = main(['list']) + main(['status', '--results', sys.argv[1]]); "
        "heavy |= {'torch', 'pandas', 'matplotlib'} & set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, folder.root],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"  # after what takes long, where it does
    assert all(name in done.stdout for name in experiments())


def test_the_list_is_one_json_document(say: Say, ask: Ask) -> None:
    rows = document(say, "list")
    assert [row["name"] for row in rows] == list(experiments())
    assert all(row["baseline"] in row["variants"] for row in rows)
    assert document(say, "list", "norm") == [row for row in rows if row["chapter"] == "norm"]
    deciding = document(say, "list", "--claim", "norm.pre-better")
    assert [row["name"] for row in deciding] == ["norm/g2p", "norm/text"]
    assert say("list", ask())[1].startswith("Your own\n  small  Does the model need positions?")


def planned(say: Say, *words: str) -> Any:
    return document(say, "plan", "--profile", "smoke", "--seeds", "0,1", *words)


def test_a_plan_is_one_json_document(say: Say, ask: Ask) -> None:
    plan = planned(say, ask(), "--jobs", "1", "model.n_heads=8")
    assert (plan["trials"], plan["done"]) == (4, 0)
    work = 4 * 256 * sum(row["parameters"] for row in plan["variants"])
    assert plan["seconds"] == pytest.approx(4 * BEFORE + 2 * work * 1e-6)
    assert [(row["variant"], row["baseline"]) for row in plan["variants"]] == [
        ("with", True),
        ("without", False),
    ]
    for row in plan["variants"]:
        assert row["experiment"] == "small"
        assert row["parameters"] > 1000
        assert (row["steps"], len(row["trials"])) == (4, 2)
    wanted = make_plan([ask()], "smoke", {"model.n_heads": 8}, [0, 1]).trials
    assert {trial for row in plan["variants"] for trial in row["trials"]} == set(wanted)
    assert os.listdir() == []


def test_a_plan_tells_the_time_of_its_timing_sessions(say: Say, ask: Ask) -> None:
    file = ask(sources=["quality", "throughput"])
    plan = planned(say, file, "--jobs", "4")
    # Processes, warm-up and blocks of the profile, and its shortest sample.
    started, a_candidate = 3 * FRESH, 3 * (2 + 5) * 0.002
    assert plan["timing"] == pytest.approx(
        started + 4 * a_candidate
    )  # two, the reference and its twin
    assert plan["seconds"] == pytest.approx(plan["training"] + plan["timing"])
    more = {"throughput": {"length": [4, 8], "pass": ["forward", "training"]}}
    plan = planned(say, ask(sources=["quality", "throughput"], benchmarks=more), "--jobs", "4")
    assert plan["timing"] == pytest.approx(started + 4 * 4 * a_candidate)  # at four places


def test_a_plan_of_days_says_so_and_jobs_beyond_the_cores_change_nothing(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 2)
    steps = "train.steps=10000000"
    found = {jobs: planned(say, ask(), steps, "--jobs", jobs, "--device", "cpu") for jobs in "128"}
    assert found["1"]["training"] == pytest.approx(2 * found["2"]["training"])
    assert found["8"]["training"] == found["2"]["training"]
    settings = ("--profile", "smoke", "--seeds", "0-0", steps, "--device", "cpu", "--jobs", "8")
    _, out, _ = say("plan", ask(), *settings)
    assert " days of training on 2 cores" in " ".join(out.split())


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_no_more_trials_run_at_once_than_cores_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container, or a batch system, may give a few of many."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 9})
    assert cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 64


def test_as_many_trials_run_at_once_as_have_a_core_for_each_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 8)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    for devices, jobs, words in ((1, 8, "8 cores"), (2, 4, "8 cores"), (3, 2, "6 cores")):
        on = machine_of(Namespace(device="cpu", jobs=None, devices=devices, pack=1))
        assert (on.jobs, on.at_once, str(on)) == (jobs, jobs, words)


def test_a_run_hands_its_options_to_the_runner(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def run(config: RunConfig, *_: Any) -> Counter[str]:
        given.append(config)
        return Counter(ok=2)

    monkeypatch.setattr("ablations.runner.run", run)
    words = ("run", ask(), "--profile", "smoke", "--seeds", "0-0", "--jobs", "4", "--limit", "7.5")
    assert say(*words, "--device", "cpu") == (0, "2 trials in results/smoke; 2 ok\n", "")
    (config,) = given
    expected = {"limit": 7.5, "accelerators": 0.0, "workers": 4, "devices": 1, "pack": 1}
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.fixture
def plan(ask: Ask) -> Plan:
    return make_plan([ask()], "smoke", {}, [0, 1, 2, 3, 4])


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Results:
    """Ten trials that are done."""
    results = Results(tmp_path / "out")
    merge_into(results, plan)
    for want in plan.trials.values():
        taken = {name: want.source_code(name) for name in want.sources}
        results.write(Record(want.id, "ok", want.config, env={"code": want.code}, sources=taken))
    return results


def test_looking_at_a_folder_changes_nothing_in_it(say: Say, ask: Ask, folder: Results) -> None:
    unreadable, missing, *_ = sorted(folder.trials.glob("*.json"))
    unreadable.write_text("{")
    missing.unlink()
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*")}
    here = ("--results", str(folder.root), "--profile", "smoke")
    say("status", "small", *here)
    say("plan", ask(), "--seeds", "0,1,2,3,4", *here)
    assert {path: path.stat().st_mtime_ns for path in folder.root.rglob("*")} == before


def test_a_plan_of_what_is_done_measures_nothing(
    say: Say, ask: Ask, folder: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.estimate.rate_of", None)
    words = ("plan", ask(), "--profile", "smoke", "--seeds", "0,1,2,3,4")
    found = document(say, *words, "--results", str(folder.root))
    assert (found["trials"], found["done"], found["seconds"]) == (10, 10, 0)
    assert {row["seconds_per_trial"] for row in found["variants"]} == {None}
