"""Stopped at any time, the page and the terminal show what is done, pass by pass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import InProcess

from ablations.commands import pages
from ablations.launch import Job, Outcome, Report
from ablations.plan import make_plan
from ablations.store.record import Measurement
from ablations.store.results import Results
from ablations.worker import new_record

CLAIM = {"id": "position.needed", "predicts": [{"worse": "without", "by": 0.01, "because": "x"}]}
VERDICTS = {"0 of 3": "not run", "3 of 3": "supported"}


class Stopped(InProcess):
    """Trials score at once; Ctrl-C comes when another would start after `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def work(self, job: Job, report: Report) -> Outcome:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        (asked,) = job.payload["trials"]
        record, seed = new_record(job.payload, asked), asked["config"]["seed"]
        score = 0.3 + 0.2 * (asked["config"]["model"]["position"] == {"name": "none"})
        value = score + 0.001 * (seed - 300) + 0.0004 * (seed % 2) * (score > 0.4)
        measurement = Measurement("per", "edits/phone", value, "test", {"step": 4})
        record.take("quality", asked["sources"]["quality"], [measurement])
        return Outcome(job.id, "done", {job.id: record.to_dict()}, seconds=0.1)


RUNS = [
    # trials until Ctrl-C; what the terminal says; what the page says
    (1, "Stopped in pass 1 of 3", "0 of 3", "1 of 6"),
    (1, "Pass 1 of 3 is done.", "1 of 3", "2 of 6"),
    (2, "Pass 2 of 3 is done.", "2 of 3", "4 of 6"),
    (9, "6 trials in ", "3 of 3", "6 of 6"),
]


def test_a_run_that_is_stopped_leaves_the_page_of_what_is_done(
    ask: Callable[..., str],
    say: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In pass 1, after it and after pass 2. The same command goes on; verdicts come at the end."""
    monkeypatch.setattr("ablations.commands.run.write_page", pages.write_page)
    folder, file = tmp_path / "out", ask(claims=[CLAIM])
    page = folder / "report" / "index.html"
    words = ("run", file, "--profile", "smoke", "--seeds", "3", "--results", str(folder))
    for most, says, passes, trials in RUNS:
        here = Stopped(most)
        monkeypatch.setattr("ablations.launch.local.LocalLauncher", lambda *_, h=here, **__: h)
        code, out, err = say(*words, "--jobs", "1", "--device", "cpu")
        is_whole = passes == "3 of 3"
        assert code == (0 if is_whole else 130)
        assert ("Stopped. The same command goes on from here." in err) != is_whole
        assert says in out
        assert f"The page: {page}" in out, err
        assert ("Verdicts come with pass 3." in out) != is_whole
        text = " ".join(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8")).split())
        assert f"Passes {passes} Trials {trials} done" in text
        assert (f"This report is partial: {trials} trials are done" in text) != is_whole
        (claim,) = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
        assert claim["verdict"] == VERDICTS.get(passes, "undecided")
    # The last words are the table of each experiment, and its claims as `claims` prints them.
    last = out[out.index("\nsmall\n") + 1 :]
    _, headings, baseline, variant, *_ = last.splitlines()
    assert (headings.split()[0], headings.split()[-1]) == ("variant", "mark")
    assert baseline.split()[:2] == ["with", "(baseline)"]
    assert variant.split()[:3] == ["without", "0.5011", "(0.4986"], "score with its interval"
    assert say("claims", "--results", str(folder))[1].strip() in last
    plan = make_plan([file], "smoke", {}, [300, 301, 302])
    pages.print_answers(plan, Results(folder), ["another.claim"])
    assert capsys.readouterr().out == ""
