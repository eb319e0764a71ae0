"""Names are labels, data is never code, and nothing of the environment gets out."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import InProcess
from small import DATA, SETTINGS, Trap, config, held, plan_document, question, trial_of
from torch import nn

from ablations.commands import main
from ablations.jobs import RunConfig
from ablations.launch import Job, Outcome
from ablations.plan import make_plan
from ablations.runner import run
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.train.checkpoint import Checkpointer, load_weights
from model.config import ConfigError

PLACES = ("report", "figures", "tables", "claims.json")
NAMES = ["../../x", "/etc/x", "a\0b", "x" * 5000, "..", "~/x", "C:\\x", "a\nb", "-rf", "${HOME}"]
SECRET = "hunter2-in-no-file"
TRIAL = "f302523445c7"


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "deep" / "down" / "out")


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# Names.


def test_whatever_a_label_is_no_file_is_made_outside_of_the_results_folder(
    results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 38. A plan that anyone may have written is reported on: names stay inside the page."""
    configs = [config(label, seed) for label in NAMES for seed in range(2)]
    cells = [
        {"variant": own["model"]["variant"], "seed": own["seed"], "sources": ["quality"],
         "factors": {own["model"]["variant"]: own["model"]["variant"]}, "id": trial_of(own)}
        for own in configs
    ]  # fmt: skip
    plan = plan_document(dict.fromkeys(NAMES, cells), question="../../x", task="../../x",
                         baseline=NAMES[0])  # fmt: skip
    results.write_plan({**plan, "profile": "../../x"})
    for own in configs:
        scored = Measurement("per", "1", 0.1, "valid", {"step": 1})
        given: Any = {"data": DATA, "measurements": [scored], "sources": {"quality": {}}}
        results.write(Record(trial_of(own), "ok", own, **given))
    before = files(tmp_path)
    assert main(["report", "--results", str(results.root)]) == 0
    inside = results.root.relative_to(tmp_path)
    made = files(tmp_path) - before
    assert made
    for name in made:
        assert Path(name).is_relative_to(inside)
        assert Path(name).relative_to(inside).parts[0] in PLACES
    assert main(["status", "--results", str(results.root)]) == 0
    assert main(["clean", "--results", str(results.root), "--yes"]) == 0
    assert files(tmp_path) - before - made <= {str(inside / "leases")}


# Pickles.


def test_a_pickle_in_place_of_a_record_or_a_plan_is_refused_and_not_run(
    results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 39."""
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    results.trials.mkdir(parents=True)
    results.path(TRIAL).write_bytes(trap)
    with pytest.raises(RecordError, match=f"{TRIAL}.json"):
        results.read(TRIAL)
    results.plan_file.write_bytes(trap)
    for command in ("status", "report"):
        assert main([command, "--results", str(results.root)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "sprung").exists()
    pickle.loads(trap)
    assert (tmp_path / "sprung").exists()  # it would have shown


def test_a_pickle_in_place_of_a_checkpoint_is_refused_and_not_run(tmp_path: Path) -> None:
    """Fault 39. As weights, and as a training to go on from."""
    sprung, path = tmp_path / "sprung", tmp_path / "file"
    for write in (lambda: path.write_bytes(pickle.dumps(Trap(sprung))),
                  lambda: torch.save({"weight": Trap(sprung)}, path)):  # fmt: skip
        write()
        with pytest.raises(ConfigError, match="not a checkpoint"):
            load_weights(nn.Linear(1, 1), path, {})
        assert Checkpointer(path, {}).load() is None
    assert not sprung.exists()


# The environment.

TRAPS = ["${oc.env:SECRET_TOKEN}", "${oc.decode:${oc.env:SECRET_TOKEN}}", "${env:SECRET_TOKEN}",
         "${SECRET_TOKEN}", "$SECRET_TOKEN", "${oc.create:{}}", "${", "${}", "$${task.words}",
         "1${task.words}", "${task.words}0", "${ task.words }", "${task}"]  # fmt: skip
TAGS = ["!!python/object/apply:os.getenv [SECRET_TOKEN]", "!ENV ${SECRET_TOKEN}", "!include x",
        "!!python/name:os.environ"]  # fmt: skip


def test_what_would_read_the_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 40."""
    monkeypatch.setenv("SECRET_TOKEN", SECRET)
    monkeypatch.chdir(tmp_path)
    fields = itertools.cycle(["model.position", "train.clip", "task.words", "model.n_heads"])
    for field, trap in zip(fields, [*map(json.dumps, TRAPS), *TAGS], strict=False):
        settings = {key: value for key, value in SETTINGS.items() if key != field}
        text = json.dumps(question(settings=settings))
        text = text.replace('"settings": {', f'"settings": {{"{field}": {trap}, ')
        (tmp_path / "trap.yaml").write_text(text)
        code = main(["run", "trap.yaml", "--profile", "smoke", "--seeds", "0-0"])
        out, err = capsys.readouterr()
        assert (code, out) == (2, ""), trap
        assert "trap.yaml" in err
        assert SECRET not in err
        assert "Traceback" not in err
        assert [path.name for path in tmp_path.iterdir()] == ["trap.yaml"]


def test_a_secret_in_the_environment_is_in_no_record_and_no_report(
    results: Results, ask: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 41. A real trial, and one that fails."""
    for name in ("SECRET_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PASSWORD"):
        monkeypatch.setenv(name, SECRET)
    file = ask(variants={"with": {}, "post": {"model.residual": "post"}})
    plan = make_plan([file], "smoke", {}, [0])
    good, bad = plan.trials
    here = InProcess()
    work = here.work

    def fail(job: Job, report: Callable[[float, str], None]) -> Outcome:
        payload = job.payload | ({"device": "no such device"} if job.id == bad else {})
        return work(replace(job, payload=payload), report)

    monkeypatch.setattr(here, "work", fail)
    assert run(RunConfig(plan, results, "cpu"), here)["error"] == 1
    assert held(results, good).status in ("ok", "stuck", "diverged")
    assert held(results, bad).status == "error"
    assert main(["report", "--results", str(results.root)]) == 0
    stored = [path for path in results.root.rglob("*") if path.is_file()]
    assert len(stored) > 4
    assert [path for path in stored if SECRET.encode() in path.read_bytes()] == []
