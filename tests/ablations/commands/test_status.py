"""status: what is done, what runs, what is left, and each trial with its outcome and score."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from small import plan_document

from ablations.commands.status import look, print_chapters, seconds_left, summary
from ablations.commands.terminal import print_table
from ablations.leases import Leases
from ablations.store.record import Measurement, Record
from ablations.store.results import Results

Say = Callable[..., tuple[int, str, str]]
TRIALS = [f"{digit}" * 12 for digit in range(6)]
CONFIG = {"model": {"name": "m"}, "task": {}, "train": {}}
NOW, OTHER = {}, {"model/norms.py": "other"}  # which code made a record


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Six planned trials of growing size, in two experiments that share one."""
    results = Results(tmp_path / "out")
    cells = [{"id": trial, "work": 10.0 * (n + 1)} for n, trial in enumerate(TRIALS)]
    results.write_plan(plan_document({"one": cells[:4], "two": cells[3:]}))
    return results


@pytest.fixture
def leases(results: Results) -> Iterator[Leases]:
    with Leases(results.root / "leases") as leases:
        yield leases


def write(results: Results, number: int, status: str = "ok", **changes: Any) -> None:
    env = {"code": NOW, "seconds": 3.0} | changes.pop("env", {})
    results.write(Record(TRIALS[number], status, CONFIG, env=env, **changes))


def counts(results: Results, *names: str) -> dict[str, Any]:
    """What is not nothing."""
    return {key: value for key, value in look(results, names).items() if value and key != "trials"}


def per(value: float | None, step: int, split: str = "valid", **at: Any) -> Measurement:
    reason = None if value is not None else "no answer"
    return Measurement("per", "edits/phone", value, split, {"step": step, **at}, reason=reason)


def test_a_trial_waits_runs_or_is_done_and_is_counted_once(
    results: Results, leases: Leases
) -> None:
    write(results, 3)  # of both experiments
    leases.take(TRIALS[1], TRIALS[2])
    leases.take("throughput:abc", "timing:here")  # no trials
    found = counts(results)
    assert [found[key] for key in ("ok", "running", "waiting")] == [1, 2, 3]
    leases.release_all()
    child = os.fork()
    if child == 0:
        mine = Leases(results.root / "leases")
        mine.take(TRIALS[0])
        os._exit(0)
    os.waitpid(child, 0)
    assert (results.root / "leases" / TRIALS[0]).exists()
    assert ("running" in counts(results), counts(results)["waiting"]) == (False, 5), "it is dead"
    for name, waiting in (("one", 3), ("two", 2)):
        assert [counts(results, name)[key] for key in ("ok", "waiting")] == [1, waiting]


def test_the_time_left_follows_from_what_finished_trials_took_for_their_sizes() -> None:
    sizes = {"a": 10.0, "b": 20.0, "c": 30.0, "d": 60.0}
    assert seconds_left(sizes, {}, 2) is None, "nothing is known yet"
    assert seconds_left(sizes, {"a": 30.0, "b": None}, 1) == 3.0 * 90, "a failure tells nothing"
    assert seconds_left(sizes, {"a": 30.0}, 10) == 3.0 * 60, "nobody shares the largest"
    assert seconds_left(sizes, dict.fromkeys(sizes, 1.0), 2) == 0.0


def test_reasons_are_one_line_each_with_the_attempt(results: Results) -> None:
    write(results, 0, "error", reason="ValueError: no\nTraceback", attempts=3)
    results.path(TRIALS[1]).write_text("{")
    first, second = counts(results)["reasons"]
    assert first == f"{TRIALS[0]} error: ValueError: no (attempt 3)"
    assert second.startswith(f"{TRIALS[1]}.json: ")
    assert counts(results)["waiting"] == 5


def test_the_summary_counts_stale_records(results: Results) -> None:
    for number, status in enumerate(("ok", "ok", "ok", "diverged", "stuck")):
        write(results, number, status, env={"code": NOW if number == 4 else OTHER})
    write(results, 1)
    found = look(results)
    assert found["stale"] == 3
    assert summary(found).startswith("3 ok, 1 diverged, 1 stuck, 1 waiting; 3 stale")


def test_a_trial_is_done_when_all_that_is_asked_of_it_is_measured(results: Results) -> None:
    cells = [{"id": trial, "sources": ["quality"]} for trial in TRIALS[:2]]
    timed = {**cells[1], "sources": ["quality", "throughput"]}
    results.write_plan(plan_document({"one": cells, "two": [timed]}))
    for number in (0, 1):
        write(results, number, sources={"quality": {}})
    for names, unmeasured in (((), 1), (("one",), 0), (("two",), 1)):
        found = look(results, names)
        assert found["unmeasured"] == unmeasured
        assert ("; 1 not all measured" in summary(found)) == bool(unmeasured)
    write(results, 1, sources={"throughput": {}, "quality": {}, "beam": {}})
    assert look(results)["unmeasured"] == 0
    for status in ("error", "oom", "timeout", "killed"):  # of what has failed nothing is asked
        write(results, 0, status, reason="bad luck")
        assert look(results)["unmeasured"] == 0, status


def test_each_trial_is_listed_with_its_outcome_and_score(say: Say, tmp_path: Path) -> None:
    results = Results(tmp_path / "listed")
    cells = [
        {"id": TRIALS[2 * n + seed], "variant": label, "seed": 200 + seed}
        for n, label in enumerate(("with", "none, causal"))
        for seed in (0, 1)
    ]
    results.write_plan(plan_document({"position": cells}))
    write(results, 0, measurements=[per(0.9, 10), per(0.25, 20), per(0.1, 20, length=5)])
    write(results, 2, "stuck", reason="no better", measurements=[per(1.5, 20)])
    write(results, 3, "error", reason="bad", env={"code": OTHER},
          measurements=[per(0.3, 10), per(None, 20)])  # fmt: skip
    folder = ("--results", str(results.root))
    code, out, _ = say("status", *folder)
    lines = out.partition("\n\n")[0].splitlines()
    assert code == 0
    assert [line.split() for line in lines] == [
        ["experiment", "variant", "seed", "trial", "outcome", "score"],
        ["position", "with", "200", TRIALS[0], "ok", "0.25", "edits/phone"],
        ["201", TRIALS[1], "waiting", "—"],
        ["'none,", "causal'", "200", TRIALS[2], "stuck", "1.5", "edits/phone"],
        ["201", TRIALS[3], "error,", "stale", "—"],
    ]
    (first, *_, last) = json.loads(say("status", "position", *folder, "--json")[1])["trials"]
    assert (first["score"], last["score"]) == (0.25, None)
    assert (last["variant"], last["seed"], last["trial"]) == ("none, causal", 201, TRIALS[3])


def test_the_seeds_of_a_chapter_are_those_of_what_it_trains(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is only counted may have more; alone it counts."""
    trained = [{"id": TRIALS[seed], "seed": seed} for seed in (0, 1)]
    counted = [{"id": f"{seed:012x}", "seed": seed, "work": 0.0} for seed in range(1, 5)]
    results.write_plan(plan_document({"norm/g2p": trained, "norm/depth": counted}))
    for trial in (TRIALS[0], *(cell["id"] for cell in counted)):
        results.write(Record(trial, "ok", CONFIG))
    assert print_chapters(look(results)["trials"]) == 0.5
    assert " 1 of 1 " in (line := capsys.readouterr().out.splitlines()[-1])
    assert " 1 of 2 " in line
    assert print_chapters(look(results, ["norm/depth"])["trials"]) == 1.0


def test_a_name_of_any_kind_lines_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a", "n"], [["two\nlines\x1b[31m", "1"], ["漢字", "100"]], right=["n"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("two lines\ufffd[31m ")
    assert [line[-1] for line in lines] == ["n", "1", "0"]
    assert [cell_len(line) for line in lines] == [cell_len(lines[0])] * 3
