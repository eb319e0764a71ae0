"""The command line: what it answers, in which words, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations.commands.arguments import cores, machine_of
from ablations.plan.document import merge_into
from ablations.plan.wanted import Plan, make_plan
from ablations.spec import experiments
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.schema import STATUSES

Ask = Callable[..., str]
ROOT = Path(__file__).parents[3]
STATES = {*STATUSES, "running", "stale", "waiting"}


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test stands in an empty folder, where each weight takes so long for a token."""
    folder = tmp_path / "stands here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("ablations.plan.estimate.rate_of", lambda _: 1e-6)
    return folder


Say = Callable[..., tuple[int, str, str]]


def refusal(say: Say, *words: str) -> str:
    """The one line that a mistake is answered with: exit code 2, nothing written."""
    code, out, err = say(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) < 500 or max(map(len, words)) > 1000
    assert os.listdir() == []
    return err.strip()


def document(say: Say, *words: str) -> Any:
    code, out, err = say(*words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


# Mistakes.


def test_what_is_gone_is_answered_with_what_replaces_it(say: Say, ask: Ask) -> None:
    for words in (
        ["run", "norm", "--until", "decided"],
        ["plan", "norm", "--budget=45m"],
        ["status", "--follow"],
        ["plan", "norm", "--arms", "all"],
        ["try", "norm/g2p:pre", "word", "--figure", "x.svg"],
        ["plan", ask(equal="time")],
        ["plan", ask(control="with")],
        ["plan", ask(seeds_from=210)],
    ):
        assert " is gone: " in refusal(say, *words)


def test_results_that_are_a_file_are_one_line_from_every_command(say: Say, tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("mine")
    asked, meant = "norm/g2p", "norm/g2p:pre"
    for command in (["plan", asked], ["run", asked], ["status"], ["clean"], ["show", meant],
                    ["try", meant, "word"]):  # fmt: skip
        for name in (str(file), str(file / "below")):
            line = refusal(say, *command, "--results", name)
            assert line == f"--results {name}: {file} is no folder"
    assert file.read_text() == "mine"


MISTAKES = [
    (["frobnicate"], "clean, compare, describe, diff"),
    *(
        (["plan", "norm", "--import", name], "--import")
        for name in ("no_such", "..", ".x", "", "a b", "a/b.py", "x" * 5000, "a\0b")
    ),
    *((["run", "--limit", limit], f"--limit {limit}") for limit in ("0", "nan", "inf", "an hour")),
    (["run", "--limit", "-5"], "--limit"),
    (["run", "--json"], "no option '--json'"),
    (["clean", "--ye"], "'--yes'"),
    (["clean", "--results", ""], "--results ''"),
    (["status", "--results", "a\0b"], "--results"),
    (["clean", "norm"], "norm"),
    (["plan", "--profile"], "--profile: expected one argument"),
    (["show"], "ablations show needs trial"),
    (["compare", "results/quick"], "ablations compare needs B"),
    (["plan", "norm", "=2"], "path=value"),
    (
        ["diff", "norm/g2p:pre", "norm/g2p:pots"],
        "no variant 'pots' in norm/g2p. Did you mean 'post'?",
    ),
    (["diff", "norm/g2p:pre", "nrm:post"], "no chapter or experiment 'nrm'. Did you mean 'norm'?"),
    (["diff", "norm/g2p", "norm/g2p:post"], "no variant '' in norm/g2p. Choose from: "),
    (["diff", "norm:pre", "norm/g2p:post"], "norm is a chapter: name one of norm/g2p, norm/text, "),
    (["run", "--devcies", "2"], "'--devices'"),
    *(
        (["run", option, number], f"{option} {number}: expected a whole number from 1")
        for option, number in (("--devices", "0"), ("--devices", "1.5"), ("--pack", "0"))
    ),
    (["run", "--devices", "2", "--pack", "3"], "--pack and --devices do not go together"),
    (["run", "--device", "cpu:0", "--devices", "2"], "--devices 2: say --device cpu, without a"),
    *(
        (["plan", "norm/g2p", "--profile", "smoke", nested], "")
        for nested in (
            "model.x=" + "{" * 5_000,
            "model.x=" + "[" * 50_000 + "]" * 50_000,
            "model" + ".a" * 5_000 + "=1",
            "model.x=" + "{a: " * 200 + "1" + "}" * 200,
        )
    ),
]


def test_a_mistake_in_a_word_is_one_line_with_what_is_right(say: Say) -> None:
    for words, right in MISTAKES:
        assert right in refusal(say, *words), words


def test_more_devices_than_there_are_are_refused(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ablations.train.device.pick_device", torch.device)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    words = ("run", "norm", "--profile", "smoke", "--device", "cuda", "--devices", "3")
    assert "--devices 3: this machine has 2 (cuda)" in refusal(say, *words)


def test_seeds_that_cannot_be_are_refused_with_the_reason(say: Say) -> None:
    """Fault 31."""
    for seeds, why in [("-1", "such as"), ("0,-3", "such as"), ("1,2,1", "twice"), ("a", "such as"),
                       ("", "such as"), ("0", "from 1 to 10"), ("11", "from 1 to 10"),
                       ("99-101", "100 is of those that choose settings")]:  # fmt: skip
        line = refusal(say, "run", "norm", "--seeds", seeds)
        assert "--seeds" in line
        assert why in line, seeds


def test_a_number_of_seeds_means_the_first_of_the_reported_ones() -> None:
    from ablations.commands.arguments import _seeds

    assert _seeds("1") == [300]
    assert _seeds("3") == [300, 301, 302]
    assert _seeds("300-302,309") == [300, 301, 302, 309]
    assert _seeds("7,8") == [7, 8]


NAMES = ["../../x", "/etc/passwd", "..", ".", "", "a\0b", "a b", "<img onerror=x>", "x" * 5000]
NAMES += [f"{name}.yaml" for name in NAMES]


def test_a_name_of_any_shape_is_a_label_never_a_path(say: Say) -> None:
    for name in NAMES:
        for command in ("list", "plan", "run", "show", "status"):
            refusal(say, command, name)
        for command in ("plan", "status", "clean"):
            refusal(say, command, "--profile", name)


OVERRIDES = [
    *("train=5", "model=5", "model.n_heads=???", "train.clip=.nan", "model.norm.eps=1e999"),
    *("train.steps=0", "train.steps=.inf", "model.d_model=1e18", "model.n_heads=" + "9" * 5000),
    *("question=4", "model.n_heads=${oc.env:HOME}", "train.optimizer=[1]"),
]


def test_a_value_that_cannot_be_is_refused_without_a_traceback(say: Say) -> None:
    for override in OVERRIDES:
        code, out, err = say("run", "norm/g2p", "--profile", "smoke", override)
        assert (code, out) == (2, ""), override[:30]
        assert 0 < len(err) < 1000
        assert os.listdir() == []


# list.


def test_list_and_status_need_neither_torch_nor_pandas_nor_matplotlib(folder: Results) -> None:
    script = (
        "import sys; from ablations.commands import main; "
        "code = main(['list']) + main(['status', '--results', sys.argv[1]]); "
        "print(sorted({'torch', 'pandas', 'matplotlib'} & set(sys.modules)), file=sys.stderr); "
        "sys.exit(code)"
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


def test_the_list_is_one_json_document(say: Say) -> None:
    rows = document(say, "list")
    assert [row["name"] for row in rows] == list(experiments())
    assert all(row["baseline"] in row["variants"] for row in rows)
    assert document(say, "list", "norm") == [row for row in rows if row["chapter"] == "norm"]
    deciding = document(say, "list", "--claim", "norm.pre-better")
    assert [row["name"] for row in deciding] == ["norm/g2p", "norm/text"]


# plan.


def planned(say: Say, *words: str) -> Any:
    return document(say, "plan", "--profile", "smoke", "--seeds", "0,1", *words)


def test_a_plan_is_one_json_document(say: Say, ask: Ask) -> None:
    plan = planned(say, ask(), "--jobs", "1", "model.n_heads=8")
    assert (plan["trials"], plan["done"]) == (4, 0)
    work = 4 * 256 * sum(row["parameters"] for row in plan["variants"])
    assert plan["seconds"] == pytest.approx(2 * work * 1e-6)
    assert [(row["variant"], row["control"]) for row in plan["variants"]] == [
        ("with", True),
        ("without", False),
    ]
    for row in plan["variants"]:
        assert row["ablation"] == "small"
        assert row["parameters"] > 1000
        assert (row["steps"], len(row["trials"])) == (4, 2)
    wanted = make_plan([ask()], "smoke", {"model.n_heads": 8}, [0, 1]).wanted
    assert {trial for row in plan["variants"] for trial in row["trials"]} == set(wanted)
    assert os.listdir() == []


def test_a_plan_tells_the_time_of_its_timing_sessions(say: Say, ask: Ask) -> None:
    file = ask(measures=["quality", "throughput"])
    plan = planned(say, file, "--jobs", "4")
    # Processes, warm-up and blocks of the profile, and its shortest sample.
    a_candidate = 3 * (2 + 5) * 0.002
    assert plan["timing"] == pytest.approx(4 * a_candidate)  # two, the reference and its twin
    assert plan["seconds"] == pytest.approx(plan["training"] + plan["timing"])
    more = {"throughput": {"length": [4, 8], "pass": ["forward", "training"]}}
    plan = planned(say, ask(measures=["quality", "throughput"], benchmarks=more), "--jobs", "4")
    assert plan["timing"] == pytest.approx(4 * 4 * a_candidate)  # at four places


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


def test_a_run_of_days_says_so_and_goes_on(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 2)
    given: dict[str, Any] = {}

    def run(*_: Any, **options: Any) -> Counter[str]:
        given.update(options)
        return Counter(ok=2)

    monkeypatch.setattr("ablations.runner.run", run)
    words = ("run", ask(), "--profile", "smoke", "--seeds", "0-0", "--jobs", "4", "--limit", "7.5")
    for rate, told in ((1e-6, ""), (10.0, " days on 2 cores; it may be stopped.\n")):
        monkeypatch.setattr("ablations.plan.estimate.rate_of", lambda _, rate=rate: rate)
        code, out, err = say(*words, "--device", "cpu", "--rerun", "stale")
        assert (code, out) == (0, "2 trials in results/smoke; 2 ok\n")
        assert err.endswith(told)
        assert bool(err) == bool(told)
    expected = {"limit": 7.5, "accelerators": 0.0, "workers": 4, "devices": 1, "pack": 1}
    assert given == {**expected, "after_pass": given["after_pass"]}


# status and show.


@pytest.fixture
def plan(ask: Ask) -> Plan:
    return make_plan([ask()], "smoke", {}, [0, 1, 2, 3, 4])


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Results:
    """Ten trials: one of each end, one made by other code, one that cannot be read, one to come."""
    results = Results(tmp_path / "out")
    merge_into(results, plan)
    wants = list(plan.wanted.values())
    for want, status in zip(wants, (*STATUSES, "ok", "ok"), strict=False):
        reason = None if status == "ok" else f"was {status}\nand more"
        code = want.code if want is not wants[7] else {"model/norms.py": "other"}
        results.write(
            Record(
                want.trial,
                status,
                want.config,
                reason=reason,
                env={"code": code},
                measures={name: want.measure_code(name) for name in want.measures},
            )
        )
    results.path(wants[8].trial).write_text("{")
    return results


def test_status_counts_every_state_in_one_json_document(say: Say, folder: Results) -> None:
    counts = document(say, "status", "--results", str(folder.root))
    reasons = counts.pop("reasons")
    assert len(counts.pop("trials")) == 10
    assert counts.pop("set_aside") == []
    assert counts.pop("unmeasured") == 0
    assert counts.pop("seconds_left") is None  # no record says how long it took
    assert set(counts) == STATES
    expected = {**dict.fromkeys(STATES, 0), **dict.fromkeys(STATUSES, 1), "ok": 2}
    assert counts == {**expected, "stale": 1, "waiting": 2}
    assert len(reasons) == len(STATUSES) - 1 + 1
    assert all("\n" not in reason for reason in reasons)


def test_looking_at_a_folder_changes_nothing_in_it(say: Say, ask: Ask, folder: Results) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*")}
    here = ("--results", str(folder.root), "--profile", "smoke")
    say("status", "small", *here)
    say("plan", ask(), "--seeds", "0,1,2,3,4", *here)
    assert {path: path.stat().st_mtime_ns for path in folder.root.rglob("*")} == before


def test_a_plan_of_what_is_done_measures_nothing(
    say: Say, ask: Ask, plan: Plan, folder: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.plan.estimate.rate_of", None)
    for want in plan.wanted.values():
        taken = {name: want.measure_code(name) for name in want.measures}
        folder.write(Record(want.trial, "ok", want.config, env={"code": want.code}, measures=taken))
    words = ("plan", ask(), "--profile", "smoke", "--seeds", "0,1,2,3,4")
    found = document(say, *words, "--results", str(folder.root))
    assert (found["trials"], found["done"], found["seconds"]) == (10, 10, 0)
    assert {row["seconds_per_trial"] for row in found["variants"]} == {None}


def test_a_prefix_that_fits_none_or_several_is_one_line(say: Say, folder: Results) -> None:
    twins = [f"{letter * 11}{digit}" for letter in "f" for digit in "01"]
    for twin in twins:
        folder.write(Record(twin, "ok", {}))
    assert "2 trials 'fffffffffff…'" in refusal(
        say, "show", "f" * 11, "--results", str(folder.root)
    )
    assert "no trial '0f0f0f…'" in refusal(say, "show", "0f0f0f", "--results", str(folder.root))
