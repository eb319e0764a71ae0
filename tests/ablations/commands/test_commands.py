"""The command line: what it answers, in which words, and with which exit code."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ablations.commands import COMMANDS, main
from ablations.commands.arguments import cores
from ablations.plan.document import merge_into
from ablations.plan.estimate import RECORD
from ablations.plan.question import catalogue
from ablations.plan.wanted import Plan, make_plan
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.schema import STATUSES

Ask = Callable[..., str]
ROOT = Path(__file__).parents[3]
STATES = {*STATUSES, "running", "stale", "waiting"}


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test stands in an empty folder, and no step is timed."""
    folder = tmp_path / "stands here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("clock", "counted_clock"):
        monkeypatch.setattr(
            f"ablations.sweep.calibrate.{name}",
            lambda *_: lambda wants: [0.5 * want.config["train"]["steps"] for want in wants],
        )
    return folder


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def answer(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return (code, *capsys.readouterr())

    return answer


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


@pytest.mark.parametrize("command", ["list", "plan", "run"])
def test_a_misspelt_name_is_answered_with_the_nearest(say: Say, command: str) -> None:
    assert refusal(say, command, "positoin") == "no ablation 'positoin'. Did you mean 'position'?"


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["lst"], "'list'"),
        (["plans"], "'plan'"),
        (["frobnicate"], "clean, diff, list, plan, run, show, status, try"),
        (["plan", "--profil", "smoke"], "'--profile'"),
        (["run", "--job", "2"], "'--jobs'"),
        (["list", "--jsn"], "'--json'"),
        (["plan", "--profile", "smok"], "'smoke'"),
        (["run", "norm", "--profile", "fulll"], "'full'"),
        (["run", "norm", "--rerun", "stael"], "stale"),
        (["run", "norm", "--import", "no_such_module"], "no_such_module"),
        (["run", "norm", "--profile", "smoke", "--device", "gpu9"], "--device gpu9"),
        (["run", "--jobs", "0"], "--jobs 0"),
        (["run", "--jobs", "two"], "--jobs two"),
        (["run", "--limit", "0"], "--limit 0: expected a number of seconds above 0"),
        (["run", "--limit", "-5"], "--limit"),
        (["run", "--limit", "nan"], "--limit nan"),
        (["run", "--limit", "inf"], "--limit inf"),
        (["run", "--limit", "an hour"], "--limit an hour"),
        (["run", "--json"], "no option '--json'"),
        (["status", "--folow"], "'--follow'"),
        (["status", "--follow", "--json"], "leave one out"),
        (["clean", "--ye"], "'--yes'"),
        (["clean", "--results", ""], "--results ''"),
        (["status", "--results", "a\0b"], "--results"),
        (["clean", "norm"], "norm"),
        (["clean", "model.depth=2"], "path=value"),
        (["plan", "--profile"], "--profile"),
        (["show"], "trial"),
        (["list", "norm", "model.depth=2"], "path=value"),
        (["status", "model.depth=2"], "path=value"),
        (["plan", "norm", "=2"], "path=value"),
    ],
)
def test_a_mistake_in_a_word_is_one_line_with_what_is_right(
    say: Say, words: list[str], right: str
) -> None:
    assert right in refusal(say, *words)


def test_heads_that_do_not_divide_the_width_are_refused_before_anything_is_written(
    say: Say,
) -> None:
    for command in ("plan", "run"):
        line = refusal(say, command, "norm", "--profile", "smoke", "model.n_heads=7")
        assert "n_heads=7" in line
        assert "32" in line


@pytest.mark.parametrize(
    ("seeds", "why"),
    [("-1", "from 0"), ("0,-3", "from 0"), ("1,2,1", "twice"), ("a", "whole"), ("", "whole")],
)
def test_seeds_that_cannot_be_are_refused_with_the_reason(say: Say, seeds: str, why: str) -> None:
    line = refusal(say, "run", "norm", "--seeds", seeds)
    assert "--seeds" in line
    assert why in line


NAMES = ["../../x", "/etc/passwd", "..", ".", "", "a\0b", "a b", "<img onerror=x>", "x" * 5000]
NAMES += [f"{name}.yaml" for name in NAMES]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:20]))
def test_a_name_of_any_shape_is_a_label_never_a_path(say: Say, name: str) -> None:
    for command in ("list", "plan", "run"):
        refusal(say, command, name)
    refusal(say, "plan", "--profile", name)
    refusal(say, "show", name)
    refusal(say, "status", name)
    for command in ("status", "clean"):
        refusal(say, command, "--profile", name)


@pytest.mark.parametrize("name", ["no_such", "..", ".x", "", "a b", "a/b.py", "x" * 5000, "a\0b"])
def test_a_module_that_cannot_be_imported_is_one_line(say: Say, name: str) -> None:
    assert "--import" in refusal(say, "plan", "norm", "--import", name)


@pytest.mark.parametrize(
    "override",
    ["train=5", "model=5", "model.n_heads=???", "train.clip=.nan", "model.norm.eps=1e999",
     "train.steps=0", "model.d_model=1e18", "model.n_heads=" + "9" * 5000, "question=4",
     "model.n_heads=${oc.env:HOME}", "train.optimiser=[1]"],
    ids=lambda word: word[:24],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_without_a_traceback(say: Say, override: str) -> None:
    code, out, err = say("run", "norm", "--profile", "smoke", override)
    assert (code, out) == (2, "")
    assert 0 < len(err) < 1000
    assert os.listdir() == []


@pytest.mark.parametrize(
    "changes",
    [{"variants": {"with": 3}}, {"claims": [3]}, {"claims": [{}]}, {"claims": [{"id": "x\ny"}]},
     {"claims": [{"id": "margin", "margin": float("nan")}]}],
    ids=repr,
)  # fmt: skip
def test_a_file_of_the_wrong_shape_ends_no_command_in_a_traceback(
    say: Say, ask: Ask, changes: dict[str, Any]
) -> None:
    file = ask(**changes)
    for command in ("list", "plan"):
        code, _, err = say(command, file)
        assert code in (0, 2)
        assert "Traceback" not in err


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_who_asks_for_help_is_told_every_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == (0 if words else 2)
    told = capsys.readouterr().out
    assert all(f"  {command} " in told for command in COMMANDS)


# list.


def test_listing_needs_neither_torch_nor_pandas_nor_matplotlib() -> None:
    script = (
        "import sys; from ablations.commands import main; code = main(['list']); "
        "print(sorted({'torch', 'pandas', 'matplotlib'} & set(sys.modules)), file=sys.stderr); "
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "[]"
    assert all(name in done.stdout for name in catalogue())


def test_the_list_is_one_json_document(say: Say) -> None:
    rows = document(say, "list")
    assert [row["name"] for row in rows] == list(catalogue())
    assert all(row["control"] in row["variants"] for row in rows)
    assert document(say, "list", "norm") == [row for row in rows if row["name"] == "norm"]


def test_a_file_can_be_listed(say: Say, ask: Ask) -> None:
    code, out, _ = say("list", ask(question="Is this one ours?"))
    assert code == 0
    assert "Is this one ours?" in out


# plan.


def planned(say: Say, *words: str) -> Any:
    return document(say, "plan", "--profile", "smoke", "--seeds", "0,1", *words)


def test_a_plan_is_one_json_document(say: Say, ask: Ask) -> None:
    plan = planned(say, ask(), "--jobs", "1")
    assert (plan["trials"], plan["done"]) == (4, 0)
    assert plan["seconds"] == pytest.approx(4 * 4 * 0.5)
    weights = [4 * row["parameters"] for row in plan["variants"]]
    assert 2 * sum(weights) + 4 * RECORD < plan["bytes"] < 12 * sum(weights) + 4 * RECORD
    assert [(row["variant"], row["control"]) for row in plan["variants"]] == [
        ("with", True),
        ("without", False),
    ]
    for row in plan["variants"]:
        assert row["ablation"] == "small"
        assert row["parameters"] > 1000
        assert row["flops_per_token"] > 1000
        assert (row["steps"], len(row["trials"])) == (4, 2)
    assert os.listdir() == []


def test_a_plan_for_people_says_the_same(say: Say, ask: Ask) -> None:
    code, out, err = say("plan", ask(), "--profile", "smoke", "--seeds", "0")
    assert (code, err) == (0, "")
    assert "with (control)" in out
    assert "2 trials, 0 done; the rest takes about 5 s" in out
    assert "kB of disk" in out


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 4)


@pytest.mark.usefixtures("four_cores")
def test_a_plan_for_other_workers_takes_another_time(say: Say, ask: Ask) -> None:
    alone, four = (planned(say, ask(), "--jobs", jobs, "--device", "cpu") for jobs in "14")
    assert (alone["seconds"], four["seconds"]) == (8.0, 2.0)
    _, out, _ = say("plan", ask(), "--profile", "smoke", "--seeds", "0", "--jobs", "1")
    assert "about 5 s of training on 1 core, " in out


@pytest.mark.usefixtures("four_cores")
def test_a_plan_tells_the_time_of_its_timing_sessions(say: Say, ask: Ask) -> None:
    file = ask(measures=["quality", "throughput"])
    plan = planned(say, file, "--jobs", "4")
    # Processes, warm-up and blocks of the profile, and its shortest sample.
    a_candidate = 3 * (2 + 5) * 0.002
    assert plan["timing"] == pytest.approx(4 * a_candidate)  # two, the reference and its twin
    assert plan["seconds"] == pytest.approx(2.0 + plan["timing"])
    more = {"throughput": {"length": [4, 8], "pass": ["forward", "training"]}}
    plan = planned(say, ask(measures=["quality", "throughput"], points=more), "--jobs", "4")
    assert plan["timing"] == pytest.approx(4 * 4 * a_candidate)  # at four places


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        (1, "6 days of training on 1 core"),
        (2, "3 days of training on 2 cores"),
        (8, "3 days of training on 2 cores"),  # which eight jobs share
    ],
)
def test_a_plan_of_days_says_so(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch, jobs: int, words: str
) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 2)
    settings = ("--profile", "smoke", "--seeds", "0", f"train.steps={3 * 86_400 * 2}")
    _, out, _ = say("plan", ask(), *settings, "--jobs", str(jobs), "--device", "cpu")
    assert f"the rest takes about {words}" in " ".join(out.split())


def test_a_trial_of_days_takes_days_however_many_run_at_once(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 64)
    steps = 3 * 86_400 * 2
    plan = planned(say, ask(), f"train.steps={steps}", "--jobs", "64", "--device", "cpu")
    assert plan["training"] == steps * 0.5


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_no_more_trials_run_at_once_than_cores_may_be_used(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container, or a batch system, may give a few of many."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 9})
    assert planned(say, ask(), "--device", "cpu")["seconds"] == pytest.approx(4 * 4 * 0.5 / 2)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 64


def test_a_plan_that_does_not_fit_on_the_disk_says_so(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.plan.estimate.free_disk", lambda folder: 50_000)
    _, out, _ = say("plan", ask(), "--profile", "smoke")
    assert out.splitlines()[-1] == "Only 50 kB of disk are free in results/smoke."


@pytest.mark.parametrize("days", [0, 3])
def test_a_run_of_days_says_so_and_goes_on(
    say: Say, ask: Ask, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    asked: list[Any] = []

    def days_ahead(*words: Any) -> float:
        asked.extend(words[2:-1])
        return days * 86_400.0

    monkeypatch.setattr("ablations.plan.estimate.days_ahead", days_ahead)
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 2)
    given: dict[str, Any] = {}

    def run(*_: Any, **options: Any) -> Counter[str]:
        given.update(options)
        return Counter(ok=2)

    monkeypatch.setattr("ablations.sweep.runner.run", run)
    words = ("run", ask(), "--profile", "smoke", "--seeds", "0", "--jobs", "4", "--limit", "7.5")
    code, out, err = say(*words, "--device", "cpu", "--rerun", "stale")
    assert (code, out) == (0, "2 trials in results/smoke; 2 ok\n")
    assert err == ("This takes about 3 days on 2 cores; it may be stopped.\n" if days else "")
    expected = {"limit": 7.5, "deadline": math.inf, "spared": frozenset(), "watcher": None}
    expected |= {"accelerators": 0.0, "devices": 1, "ways": given["ways"]}
    assert given == expected
    assert [str(each) for each in asked] == ["stale", "cpu", "2"]


def test_an_override_is_obeyed(say: Say, ask: Ask) -> None:
    file = ask()
    obeyed = planned(say, file, "model.n_heads=8")
    wanted = make_plan([file], "smoke", {"model.n_heads": 8}, [0, 1]).wanted
    assert {trial for row in obeyed["variants"] for trial in row["trials"]} == set(wanted)
    assert all(want.config["model"]["n_heads"] == 8 for want in wanted.values())
    plain = planned(say, file)
    assert {trial for row in plain["variants"] for trial in row["trials"]}.isdisjoint(wanted)


def test_names_options_and_overrides_come_in_any_order(say: Say, ask: Ask) -> None:
    groups = [
        [ask()],
        ["--profile", "smoke"],
        ["--seeds=0"],
        ["model.n_heads=2"],
        ["train.steps=3"],
    ]
    answers = {
        json.dumps(document(say, "plan", *(word for group in order for word in group)))
        for order in list(permutations(groups))[::12]
    }
    assert len(answers) == 1


def test_a_results_folder_may_have_any_name(say: Say, ask: Ask, tmp_path: Path) -> None:
    plan = planned(say, ask(), "--results", str(tmp_path / "rate=3 again"))
    assert plan["trials"] == 4


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
        code = want.code if want is not wants[7] else {"model/norm.py": "other"}
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


def test_status_for_people_leaves_out_what_is_not_there(say: Say, folder: Results) -> None:
    code, out, _ = say("status", "--results", str(folder.root))
    assert code == 0
    assert "2 ok (1 stale), " in out
    assert "2 waiting" in out
    assert " 0 " not in out.partition("\n")[0]


def test_looking_at_a_folder_changes_nothing_in_it(say: Say, ask: Ask, folder: Results) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*")}
    here = ("--results", str(folder.root), "--profile", "smoke")
    say("status", "small", *here)
    say("plan", ask(), "--seeds", "0,1,2,3,4", *here)
    assert {path: path.stat().st_mtime_ns for path in folder.root.rglob("*")} == before


def test_a_plan_of_what_is_done_measures_nothing(
    say: Say, ask: Ask, plan: Plan, folder: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("clock", "counted_clock"):
        monkeypatch.setattr(f"ablations.sweep.calibrate.{name}", lambda *_: None)
    for want in plan.wanted.values():
        taken = {name: want.measure_code(name) for name in want.measures}
        folder.write(Record(want.trial, "ok", want.config, env={"code": want.code}, measures=taken))
    words = ("plan", ask(), "--profile", "smoke", "--seeds", "0,1,2,3,4")
    _, out, _ = say(*words, "--results", str(folder.root))
    assert out.splitlines()[-1] == "10 trials, 10 done; nothing is left to run"
    found = document(say, *words, "--results", str(folder.root))
    assert (found["seconds"], found["bytes"]) == (0, 0)
    assert {row["seconds_per_trial"] for row in found["variants"]} == {None}


def test_a_plan_counts_what_is_done(say: Say, ask: Ask, folder: Results) -> None:
    words = ("plan", ask(), "--profile", "smoke", "--seeds", "0,1,2,3,4")
    plan = document(say, *words, "--results", str(folder.root))
    assert (plan["trials"], plan["done"]) == (10, 8)


def test_status_answers_an_unknown_ablation_with_the_nearest(say: Say, folder: Results) -> None:
    assert "'small'" in refusal(say, "status", "smal", "--results", str(folder.root))


def test_status_of_a_folder_without_a_plan_is_one_line(say: Say) -> None:
    assert "run an ablation there first" in refusal(say, "status", "--results", "nowhere")


def test_status_does_not_need_the_parts_that_a_record_was_made_with(
    say: Say, plan: Plan, folder: Results
) -> None:
    want = next(iter(plan.wanted.values()))
    config = {**want.config, "model": {**want.config["model"], "position": {"name": "of_ours"}}}
    folder.write(Record(want.trial, "ok", config, env={"code": {"my_parts": "1"}}))
    assert document(say, "status", "--results", str(folder.root))["ok"] == 2


def test_a_record_is_shown_by_the_first_digits_of_its_id(
    say: Say, plan: Plan, folder: Results
) -> None:
    trial = next(iter(plan.wanted))
    record = folder.read(trial)
    assert record is not None
    for prefix in (trial, trial[:8]):
        code, out, err = say("show", prefix, "--results", str(folder.root))
        assert (code, err) == (0, "")
        assert json.loads(out) == record.to_dict()


def test_a_prefix_that_fits_none_or_several_is_one_line(say: Say, folder: Results) -> None:
    twins = [f"{letter * 11}{digit}" for letter in "f" for digit in "01"]
    for twin in twins:
        folder.write(Record(twin, "ok", {}))
    assert "2 trials 'fffffffffff…'" in refusal(
        say, "show", "f" * 11, "--results", str(folder.root)
    )
    assert "no trial '0f0f0f…'" in refusal(say, "show", "0f0f0f", "--results", str(folder.root))


def test_a_record_that_cannot_be_read_is_shown_as_one_line(
    say: Say, plan: Plan, folder: Results
) -> None:
    trial = list(plan.wanted)[8]
    assert f"{trial}.json" in refusal(say, "show", trial, "--results", str(folder.root))
