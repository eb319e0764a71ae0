"""Whatever happens to a checkpoint, a whole one is used, another's is not, and none is run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import ablations.train.checkpoint
from ablations.train.checkpoint import Checkpointer, code_of
from ablations.train.stopping import Stopped

STAMP = {"trial": "abc", "code": "1"}
few = settings(max_examples=150)

Found = tuple[dict[str, torch.Tensor], dict[str, Any]] | None


def keeper(folder: Path, **stamp: str) -> Checkpointer:
    return Checkpointer(folder / "abc.unfinished", {**STAMP, **stamp})


def state(step: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    tensors = {
        "model:weight": torch.full((2, 3), float(step)),
        "model:half": torch.full((3,), step, dtype=torch.bfloat16),
        "optimizer:0/step": torch.tensor(float(step)),
        "random:cpu": torch.arange(8, dtype=torch.uint8),
        "model:flag": torch.tensor(True),
        "model:none": torch.empty(0),
    }
    return tensors, {"step": step, "measurements": [{"value": 0.1 + 0.2, "reason": None}]}


def keep(folder: Path, *steps: int) -> Checkpointer:
    kept = keeper(folder)
    for step in steps:
        kept.save(*state(step))
    return kept


def step_of(found: Found) -> int | None:
    """Which state was found; it must be that state to the last bit."""
    if found is None:
        return None
    tensors, facts = found
    expected, same_facts = state(facts["step"])
    assert facts == same_facts
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor), name
    return int(facts["step"])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpointer, bytes]:
    """A folder with two states in it, 7 and then 8, and the newest as it was written."""
    kept = keep(tmp_path_factory.mktemp("two"), 7, 8)
    return kept, kept.path.read_bytes()


def test_the_newest_of_many_is_found_and_the_one_before_it_kept(tmp_path: Path) -> None:
    kept = keep(tmp_path, 1, 2, 3)
    assert step_of(kept.load()) == 3
    kept.path.unlink()
    assert step_of(kept.load()) == 2
    kept.previous.unlink()
    assert step_of(kept.load()) is None


@few
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_newest_that_is_torn_or_has_a_flipped_bit_is_passed_over(
    two: tuple[Checkpointer, bytes], place: float, bit: int
) -> None:
    kept, newest = two
    at = int(place * len(newest))
    flipped = bytearray(newest)
    flipped[at] ^= 1 << bit
    for harmed in (newest[:at], flipped):
        kept.path.write_bytes(harmed)
        assert step_of(kept.load()) == 7


def test_a_bad_newest_never_takes_the_place_of_a_good_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(tmp_path, 1, 2)
    kept.path.write_bytes(b"torn")
    again = keeper(tmp_path)
    assert step_of(again.load()) == 1
    monkeypatch.setattr(ablations.train.checkpoint, "write_atomic", out_of_space)
    with pytest.raises(OSError, match="No space left"):
        again.save(*state(3))
    assert step_of(keeper(tmp_path).load()) == 1


def out_of_space(path: Path, content: bytes) -> None:
    raise OSError(28, "No space left on device")


def test_killed_between_the_two_renames_one_is_left(tmp_path: Path) -> None:
    """In a child that dies as soon as the newest has become the one before it."""
    kept = keep(tmp_path, 1, 2)
    child = os.fork()
    if child == 0:
        ablations.train.checkpoint.write_atomic = lambda path, content: os._exit(7)
        kept.save(*state(3))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not kept.path.exists()
    again = keeper(tmp_path)
    assert step_of(again.load()) == 2
    again.save(*state(3))
    again.save(*state(4))
    assert step_of(keeper(tmp_path).load()) == 4
    assert {path.name for path in tmp_path.iterdir()} == {
        "abc.unfinished",
        "abc.unfinished.previous",
    }


def test_a_checkpoint_tells_which_code_made_it(tmp_path: Path) -> None:
    kept = keep(tmp_path, 1)
    assert code_of(kept.path) == STAMP["code"]
    for words in ({}, [], {"stamp": 3}, {"stamp": "{"}, {"stamp": "[]"}, {"stamp": "{}"}):
        save_file(state(1)[0], kept.path, metadata={"words": json.dumps(words)})
        assert code_of(kept.path) is None
    kept.path.write_bytes(b"torn")
    assert code_of(kept.path) is None
    assert code_of(tmp_path / "nothing") is None


def test_a_state_is_due_when_time_has_passed_or_the_end_is_near(tmp_path: Path) -> None:
    asked: list[bool] = []
    path = tmp_path / "kept"
    assert Checkpointer(path, {}, seconds=0.0).is_due()
    patient = Checkpointer(path, {}, seconds=1e9, is_stopping=lambda: bool(asked))
    assert not patient.is_due()
    patient.save(*state(1))
    asked.append(True)
    assert patient.is_due()
    with pytest.raises(Stopped):
        patient.save(*state(2))
    assert step_of(patient.load()) == 2
