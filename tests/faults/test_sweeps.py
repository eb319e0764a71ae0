"""Whatever happens to a sweep or its trials: nothing lost, nothing twice, nobody left over."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from processes import start, start_toys
from small import SETTINGS, facts, held
from toy_trials import starts
from watching import LONG, Watch

from ablations.launch.local import LocalLauncher
from ablations.leases import Leases
from ablations.store.results import Results

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes of others through Linux pidfds"
)

Does = dict[str, Any]
Sweep = Callable[..., Counter[str]]


def pipes(folder: Path, *names: str) -> dict[str, str]:
    for name in names:
        os.mkfifo(folder / name)
    return {name.partition("-")[0]: str(folder / name) for name in names}


# Killed, stopped, interrupted.


def test_a_killed_sweep_ends_with_the_records_of_one_left_alone(
    drivers: list[subprocess.Popen[str]], results: Results, sweep: Sweep
) -> None:
    """Fault 2."""
    trials: dict[str, Does] = {f"t{'x' * n}": {} for n in range(12)}
    driver = start_toys(drivers, results, trials, jobs=2)
    assert driver.stderr
    for _ in range(3):
        driver.stderr.readline()
    with Watch() as watch:
        watch.add_family(driver.pid)
        watch.kill()
        watch.assert_gone()
    driver.wait()  # or it would stay a zombie, whose leases live until they have been silent
    kept = len(facts(results))
    assert kept >= 3
    assert sweep(trials)["ok"] == 12 - kept
    assert facts(results) == {
        trial: ("ok", 1, [], [("loss", "valid", {}, 1 / (1 + len(trial)))]) for trial in trials
    }


@pytest.mark.soak
def test_a_real_sweep_killed_twenty_times_ends_with_the_records_of_one_left_alone(
    drivers: list[subprocess.Popen[str]], ask: Callable[..., str], tmp_path: Path
) -> None:
    """Fault 2."""
    question = ask(settings={**SETTINGS, "task.words": 400, "train.steps": 20})
    alone, killed = Results(tmp_path / "alone"), Results(tmp_path / "killed")

    def begin(results: Results) -> subprocess.Popen[str]:
        words = ["run", question, "--profile", "smoke", "--seeds", "0-19", "--jobs", "2"]
        return start(drivers, "-m", "ablations", *words, "--results", str(results.root))

    assert begin(alone).wait(20 * LONG) == 0
    moments, done = Random(0), []
    for _ in range(20):
        driver = begin(killed)
        assert driver.stderr
        # A sweep has to load its modules first: mostly kill it at work, sometimes before.
        for _ in range(moments.randrange(4)):
            driver.stderr.readline()
        time.sleep(moments.uniform(0.0, 0.5))
        with Watch() as watch:
            watch.add_family(driver.pid)
            watch.kill()
            watch.assert_gone()
        driver.wait()
        done.append(len(facts(killed)))
    assert 0 < done[10] < 40, "the kills must come while it is at work"
    assert begin(killed).wait(20 * LONG) == 0
    assert len(facts(alone)) == 40
    assert facts(killed) == facts(alone)


def test_a_stopped_sweep_leaves_a_checkpoint_no_record_and_no_lease_and_goes_on_from_there(
    drivers: list[subprocess.Popen[str]],
    results: Results,
    tmp_path: Path,
    sweep: Sweep,
    watch: Watch,
) -> None:
    """Fault 10."""
    trials = {"a": {"do": "learn", **pipes(tmp_path, "told", "go")}, "b": {}}
    driver = start_toys(drivers, results, trials)
    Path(trials["a"]["told"]).read_text()
    watch.add_family(driver.pid)
    os.kill(driver.pid, signal.SIGTERM)
    out, noise = driver.communicate(timeout=LONG)
    assert (out, noise) == ("", "Stopped. The same command goes on from here.\n")
    assert driver.returncode == 143
    watch.assert_gone()
    assert facts(results) == {}
    assert results.unfinished("a").read_text() == "7"
    assert Leases(results.root / "leases").live() == []

    assert sweep(trials) == {"ok": 2}
    assert held(results, "a").env["begun"] == 7
    assert held(results, "a").attempts == 1
    assert not results.unfinished("a").exists()
    assert Counter(starts(results.root)) == {"a": 2, "b": 1}


def test_a_second_ctrl_c_changes_nothing(
    drivers: list[subprocess.Popen[str]], results: Results, tmp_path: Path, watch: Watch
) -> None:
    """Fault 11."""
    names = pipes(tmp_path, "told", "go", "stopping", "leave")
    driver = start_toys(drivers, results, {"a": {"do": "dawdle", **names}})
    Path(names["told"]).read_text()
    watch.add_family(driver.pid)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: to the whole foreground group
    Path(names["stopping"]).read_text()
    os.killpg(driver.pid, signal.SIGINT)
    os.killpg(driver.pid, signal.SIGTERM)
    assert driver.poll() is None
    Path(names["leave"]).write_text("")
    assert driver.communicate(timeout=LONG) == (
        "",
        "Stopped. The same command goes on from here.\n",
    )
    assert driver.returncode == 130
    watch.assert_gone()
    with Leases(results.root / "leases") as leases:
        assert leases.take("a")


# Two sweeps, one folder.


def test_two_sweeps_on_one_folder_run_each_trial_once(
    drivers: list[subprocess.Popen[str]], results: Results, tmp_path: Path
) -> None:
    """Fault 12."""
    waiting: dict[str, Does] = {
        name: {"do": "wait", **pipes(tmp_path, f"told-{name}", f"go-{name}")} for name in "ab"
    }
    between: dict[str, Does] = {f"t{number}": {} for number in range(10)}
    trials = {"a": waiting["a"], **between, "b": waiting["b"]}  # whoever has a holds one more
    both = [start_toys(drivers, results, trials) for _ in range(2)]
    for name in "ab":  # one each: both are at work
        Path(trials[name]["told"]).read_text()
    assert {lease.pid for lease in Leases(results.root / "leases").live()} == {
        driver.pid for driver in both
    }
    for name in "ab":
        Path(trials[name]["go"]).write_text("")
    told = [driver.communicate(timeout=LONG)[1] for driver in both]
    assert [driver.returncode for driver in both] == [0, 0]
    assert Counter(starts(results.root)) == dict.fromkeys(trials, 1)
    assert facts(results).keys() == trials.keys()
    assert all(" ok " in each for each in told)
    assert Leases(results.root / "leases").live() == []


def test_the_work_of_a_killed_sweep_is_taken_over_by_the_one_that_waits_for_it(
    drivers: list[subprocess.Popen[str]],
    results: Results,
    tmp_path: Path,
    sweep: Sweep,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Fault 13."""
    names = pipes(tmp_path, "told", "go")
    trials: dict[str, Does] = {"a": {"do": "wait", "times": 1, **names}}
    first = start_toys(drivers, results, trials)
    Path(names["told"]).read_text()
    monkeypatch.setattr("ablations.runner.time.sleep", lambda _: first.kill())
    assert sweep(trials) == {"ok": 1}
    assert f"Waiting for trials that process {first.pid} on " in capsys.readouterr().err
    assert held(results, "a").status == "ok"
    assert Counter(starts(results.root)) == {"a": 2}


def test_a_paused_sweep_that_wakes_after_losing_its_lease_does_no_harm(
    drivers: list[subprocess.Popen[str]], results: Results, tmp_path: Path, sweep: Sweep
) -> None:
    """Fault 16."""
    names = pipes(tmp_path, "told", "go")
    late = start_toys(drivers, results, {"a": {"do": "wait", "driver": "late", **names}})
    Path(names["told"]).read_text()
    late.send_signal(signal.SIGSTOP)
    os.utime(results.root / "leases/a", (0, 0))  # as long as it was silent
    assert sweep({"a": {"driver": "new"}}) == {"ok": 1}
    stored = results.path("a").read_bytes()
    assert held(results, "a").env["driver"] == "new"
    late.send_signal(signal.SIGCONT)
    Path(names["go"]).write_text("")
    _, noise = late.communicate(timeout=LONG)
    assert "another sweep has taken this trial over" in noise
    assert late.returncode == 0
    assert results.path("a").read_bytes() == stored


# Trials that fail.


def test_each_way_to_fail_costs_its_own_trial_and_is_recorded_as_what_it_is(
    results: Results, sweep: Sweep, launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults 17 to 22. What may pass is tried again, and every attempt is recorded.

    The time of the trial that hangs is up when it says so.
    """

    def note(_display: Any, job: str, _title: str, fraction: float, note: str) -> None:
        if note == "hanging":
            launcher._running[job].deadline = 0.0

    monkeypatch.setattr("ablations.progress.Display.progress", note)
    ways = ("nothing", "fail", "diverge", "memory", "die", "crash", "hang")
    trials: dict[str, Does] = {way: {"do": way} for way in ways}
    counts = sweep(trials | {"once": {"do": "die", "times": 1}, "last": {}}, limit=LONG)
    assert counts == {"ok": 3, "error": 1, "diverged": 1, "oom": 1, "killed": 2, "timeout": 1}
    found = {trial: held(results, trial) for trial in (*ways, "once", "last")}
    reasons = {way: (each.reason or "").splitlines() for way, each in found.items()}
    expected = {
        "nothing": ("ok", 1), "fail": ("error", 1), "diverge": ("diverged", 1),
        "memory": ("oom", 3), "die": ("killed", 3), "crash": ("killed", 3), "once": ("ok", 2),
        "last": ("ok", 1), "hang": ("timeout", 1),
    }  # fmt: skip
    assert {way: (each.status, each.attempts) for way, each in found.items()} == expected
    assert Counter(starts(results.root)) == {way: tries for way, (_, tries) in expected.items()}
    assert reasons["fail"][0] == "ValueError: width 7 is not divisible by 2"
    assert any("toy_trials.py" in line for line in reasons["fail"][1:])
    assert reasons["diverge"] == ["loss nan at step 3"]
    assert reasons["die"][0].startswith("SIGKILL")
    assert reasons["crash"][0] == "SIGSEGV"
    assert any("in crash" in line for line in reasons["crash"][1:])
    assert reasons["hang"][0].startswith("longer than 60 s")
    assert any("in hang" in line for line in reasons["hang"][1:])
    for way, (status, tries) in expected.items():
        earlier = found[way].env.get("earlier", [])
        assert [attempt["status"] for attempt in earlier] == [
            "killed" if way == "once" else status
        ] * (tries - 1)
        assert all(attempt["reason"] and attempt["seconds"] > 0 for attempt in earlier)


# The first trials all fail alike.


@pytest.mark.parametrize(("do", "status"), [("fail", "error"), ("die", "killed")])
def test_a_sweep_whose_first_trials_all_fail_alike_stops_and_says_why(
    results: Results, sweep: Sweep, capsys: pytest.CaptureFixture[str], do: str, status: str
) -> None:
    """Fault 23."""
    trials = {f"t{number}": {"do": do} for number in range(8)}
    assert sweep(trials) == {status: 3}
    tried = [held(results, trial) for trial in facts(results)]
    assert {each.status for each in tried} == {status}
    ended = [each for each in tried if "again" not in each.env]
    assert [each.attempts for each in ended] == [3 if do == "die" else 1] * 3
    assert len(tried) - len(ended) <= 1, "at most one beside them was between two tries"
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "Stopped" in line]
    assert f"the first 3 trials all failed alike ({status}: " in line
    assert "--rerun failed" in line
    assert Leases(results.root / "leases").live() == []


def test_three_variants_whose_seeds_all_fail_alike_stop_a_sweep_and_those_of_one_do_not(
    results: Results, sweep: Sweep
) -> None:
    """Fault 23."""
    many = {f"{kind}{seed}": {"do": "fail", "kind": kind} for kind in "cdef" for seed in range(2)}
    counts = sweep(many)
    assert counts.keys() == {"error"}
    assert 4 <= counts["error"] <= 6, "one of each of three, and two workers may overtake"
    seeds: dict[str, Does] = {f"a{seed}": {"do": "fail", "kind": "a"} for seed in range(5)}
    assert sweep(seeds | {"b": {"kind": "b"}}) == {"error": 5, "ok": 1}
    left = {f"{name}x": does for name, does in many.items()}
    assert sweep({"b": {"kind": "b"}} | left) == {"error": 8}, "another variant has a good record"
