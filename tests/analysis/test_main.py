"""The command line: paths on success, one line and exit code 2 on a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main


@pytest.fixture
def small(folder: Any) -> Any:
    folder.ablation("position", ["sinusoidal", "none"], seeds=[200, 201])
    for index, seed in enumerate((200, 201)):
        folder.record("sinusoidal", seed, 0.25 + 0.01 * index)
        folder.record("none", seed, 0.65 + 0.02 * index)
    return folder


def run(*words: Any) -> int:
    return main([str(word) for word in words])


def test_report_ends_with_the_path_of_the_page(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("report", "--results", small.root) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert Path(last) == small.root / "report" / "index.html"
    assert Path(last).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_figure_draws_one_and_prints_its_paths(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("figure", "forest", "--results", small.root) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.name for path in paths] == ["forest.svg", "forest.pdf", "forest.png"]
    assert all(path.stat().st_size for path in paths)


def test_a_figure_without_data_says_so(small: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("figure", "speed", "--results", small.root) == 1
    assert capsys.readouterr().err.startswith("nothing to draw yet")


def test_claims_lists_each_claim_with_its_evidence(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("claims", "--results", small.root) == 0
    out = capsys.readouterr().out
    assert "position.matters: undecided (2 seeds; 3 are needed for a look)" in out
    assert "  It matters. (V17)" in out
    assert "none worse than sinusoidal" in out


def test_claims_as_json_are_one_strict_document(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    small.ablation("scale", ["scaled", "raw"])
    assert run("claims", "--json", "--results", small.root) == 0

    def refuse(word: str) -> None:
        raise AssertionError(word)

    first, second = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert (first["id"], first["statement"], first["source"]) == (
        "position.matters",
        "It matters.",
        "V17",
    )
    assert first["evidence"][0]["effect"] == first["effect"] == pytest.approx(0.405)
    assert (second["verdict"], second["effect"]) == ("not run", None)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["figure", "forrest"], "did you mean 'forest'"),
        (["figure"], "which figure? one of: along, "),
        (["reprot"], "did you mean 'report'"),
        (["report", "extra"], "report takes no name"),
        (["report", "--jsn"], "unrecognized arguments"),
        ([], "required: command"),
    ],
    ids=str,
)
def test_a_mistake_is_answered_in_one_line(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    out, err = capsys.readouterr()
    assert answer in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("command", [["report"], ["claims"], ["figure", "forest"]], ids=str)
def test_no_folder_and_no_plan_are_answered_in_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, answer in ((tmp_path / "nowhere", "no results folder"), (tmp_path, "no plan in")):
        assert run(*command, "--results", place) == 2
        err = capsys.readouterr().err
        assert answer in err
        assert err.count("\n") == 1
    assert not list(tmp_path.iterdir()), "a mistake writes nothing"


def test_the_report_needs_no_torch_and_a_wrong_name_no_pandas(small: Any) -> None:
    script = (
        "import sys\n"
        "from analysis.__main__ import main\n"
        "assert main(['figure', 'nope']) == 2\n"
        "assert not {'pandas', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        f"assert main(['report', '--results', {str(small.root)!r}]) == 0\n"
        "assert not {'torch', 'model.build', 'matplotlib.pyplot'} & set(sys.modules)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
