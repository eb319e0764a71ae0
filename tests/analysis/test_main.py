"""The command line and the notebook: an answer on success, one line and a code on a mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import analysis
from ablations.commands import main
from analysis.load import load

ROOT = Path(__file__).parents[2]
LONG = "x" * 5000


@pytest.fixture
def small(folder: Any) -> Any:
    folder.ablation("position", ["sinusoidal", "none"], seeds=[300, 301])
    for index, seed in enumerate((300, 301)):
        folder.record("sinusoidal", seed, 0.25 + 0.01 * index)
        folder.record("none", seed, 0.65 + 0.02 * index)
    return folder


def run(*words: Any) -> int:
    return main([str(word) for word in words])


def test_figure_draws_one_kind_and_prints_its_paths(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("figure", "forest", "--results", small.root) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [path.suffix for path in paths] == [".svg", ".pdf"]
    assert all(path.stat().st_size for path in paths)
    assert run("figure", "speed", "--results", small.root) == 1
    assert capsys.readouterr().err.startswith("nothing to draw yet")


def test_claims_are_told_in_lines_or_as_one_strict_document(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("claims", "--results", small.root) == 0
    assert capsys.readouterr().out.startswith("position.matters: undecided")
    small.ablation("scale", ["scaled", "raw"])
    assert run("claims", "--json", "--results", small.root) == 0

    def refuse(word: str) -> None:
        raise AssertionError(word)

    first, second = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert first["id"] == "position.matters"
    assert first["findings"][0]["effect"] == pytest.approx(0.405)
    assert second["verdict"] == "not run"


COMMANDS: list[list[Any]] = [
    ["report", "--results", "{}"],
    ["claims", "--results", "{}"],
    ["figure", "forest", "--results", "{}"],
    ["compare", "{}", "{}"],
    ["tensorboard", "--results", "{}", "--to", "{}-new"],
    ["publish", "--results", "{}", "--to", "{}-new"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_file_no_folder_and_no_plan_are_refused_in_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_text("precious")
    empty.mkdir()
    for place, answer in (
        (file, "is no folder"),
        (tmp_path / "nowhere", "no results folder"),
        (empty, "no plan in"),
    ):
        assert run(*(word.format(place) for word in command)) == 2
        out, err = capsys.readouterr()
        assert answer in err
        assert (out, err.count("\n")) == ("", 1)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "file"]
    assert file.read_text() == "precious"


def test_a_label_of_5000_characters_breaks_nothing(
    folder: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.ablation("position", ["baseline", LONG], crossings=[{"coordinates": LONG}])
    for seed in (0, 1, 2):
        for place, label in enumerate(("baseline", LONG)):
            timed = folder.timing(1.0 + place) if seed == 0 else []
            score = 0.2 + place + 0.01 * seed * (1 + place)
            folder.record(label, seed, score, factors={"coordinates": LONG}, measurements=timed)
    for words in (["report"], ["claims"], ["publish", "--to", tmp_path / "kept"]):
        assert run(*words, "--results", folder.root) == 0
    assert run("compare", folder.root, folder.root) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) < 1000
    for path in (folder.root / "figures").iterdir():
        assert len(path.name) < 120
    for table in ("contrasts.md", "speed.md"):
        lines = (folder.root / "tables" / table).read_text(encoding="utf-8").splitlines()
        assert max(map(len, lines)) < 2000, table


def test_the_report_needs_no_torch_and_a_wrong_command_no_pandas(small: Any) -> None:
    script = (
        "import sys\n"
        "import analysis\n"
        "from ablations.commands import main\n"
        "assert main(['reprot']) == 2\n"
        "assert not {'pandas', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        f"assert main(['report', '--results', {str(small.root)!r}]) == 0\n"
        "assert not {'torch', 'model.build'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_that_takes_no_file_is_named_in_one_line(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = small.root / "figures"
    lost.write_text("a file where a folder should be")
    for words in (["report"], ["figure", "forest"]):
        assert run(*words, "--results", small.root) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert str(lost) in err


# --- notebooks


def test_a_notebook_has_every_reading_and_shows_the_figure_of_one_question(small: Any) -> None:
    frame = analysis.frame(small.root)
    assert len(frame) == len(load(small.root).measurements) == 2 * 2 * 3
    last = frame[frame["step"] == 300]
    assert last.groupby("variant")["value"].mean()["none"] == pytest.approx(0.66)
    assert set(frame[frame["is_baseline"] == 1]["variant"]) == {"sinusoidal"}
    figure: Any = analysis.figure("forest", small.root, experiment="position")
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="Did you mean 'position'"):
        analysis.figure("forest", small.root, experiment="positon")


def test_the_example_of_the_readme_runs(
    folder: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder.ablation("norm", ["pre", "post"])
    for seed in (0, 1, 2):
        folder.record("pre", seed, 0.2 + 0.013 * seed)
        folder.record("post", seed, 0.3 + 0.026 * seed)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- tested -->\n```python\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "quick").symlink_to(folder.root)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert len(names["frame"]) == 2 * 3 * 3
