"""Learning curves reach TensorBoard as they were read, and a name is never a way out."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from ablations.commands import main
from ablations.store.record import Measurement
from analysis.load import load
from analysis.tensorboard import MISSING, safe, write

HOSTILE = "../../<img src=x>\n"


@pytest.fixture
def trained(folder: Any) -> Any:
    folder.ablation("norm", ["pre", HOSTILE], seeds=[200, 201])
    longer = [Measurement("loss", "nats/token", 3.0, "test", {"step": 300, "length": 64})]
    for label, score in (("pre", 0.2), (HOSTILE, 0.4)):
        for seed in (200, 201):
            folder.record(label, seed, score + seed, measurements=longer)
    return folder


def points(run: Path) -> dict[tuple[str, int], float]:
    """The values in a run's one file: of an event its length, checksum, message and checksum."""
    from tensorboardX.proto.event_pb2 import Event

    (file,), found = run.iterdir(), {}
    data = file.read_bytes()
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        event: Any = Event.FromString(data[12 : 12 + size])
        found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
        data = data[16 + size :]
    return found


def test_a_run_holds_the_curve_of_its_trial(
    trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboardX", reason="an extra: pip install -e '.[tensorboard]'")
    to = tmp_path / "events"
    assert main(["tensorboard", "--results", str(trained.root), "--to", str(to)]) == 0
    runs = [Path(path) for path in capsys.readouterr().out.splitlines()]
    assert len(runs) == 4
    assert all(run.resolve().is_relative_to(to.resolve()) for run in runs)
    assert len(list(to.rglob("*tfevents*"))) == 4
    assert points(to / "norm" / "pre" / "seed 201") == pytest.approx(
        {
            ("valid/per", 100): 2 * 201.2,
            ("valid/per", 200): 1.2 * 201.2,
            ("valid/per", 300): 201.2,
            ("test/loss/length_64", 300): 3.0,
        }
    )
    (tmp_path / "mine").write_text("precious")
    assert main(["tensorboard", "--results", str(trained.root), "--to", str(tmp_path)]) == 2
    assert "name a new folder with --to" in capsys.readouterr().err


def test_without_the_extra_one_line_says_how_to_get_it(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ValueError, match=re.escape(MISSING)):
        write(load(trained.root), tmp_path / "events")
    assert not (tmp_path / "events").exists()


def test_a_name_is_one_folder_and_shared_by_no_other() -> None:
    for name in ("..", "a/b", "", "con\x00trol", "\ud800", "é", "x" * 300):
        assert "/" not in safe(name)
        assert safe(name).strip(". ")
        assert len(safe(name)) < 100
        assert safe(name) != safe(f"{name}!")
