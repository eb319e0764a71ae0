"""Files of one's own: the same one twice, or one without its separator, is not what was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ablations.plan import Plan, make_plan
from model.config import ConfigError

Ask = Callable[..., str]
WORDS = [f"{'ab' * n}c\tAH B K\n" for n in range(1, 12)]
SMALL = {"model.d_model": 16, "model.depth": 1, "model.max_len": 64, "train.steps": 4}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Three files of different words."""
    found = {split: tmp_path / f"{split}.tsv" for split in ("train", "valid", "test")}
    for number, file in enumerate(found.values()):
        file.write_text("".join(WORDS[: len(WORDS) - number]))
    return found


def planned(ask: Ask, files: dict[str, Path]) -> Plan:
    settings = {f"task.{split}": str(file) for split, file in files.items()}
    return make_plan([ask(settings={**SMALL, **settings})], "smoke", {}, [300])


def refusal(ask: Ask, files: dict[str, Path]) -> str:
    with pytest.raises(ConfigError) as refused:
        planned(ask, files)
    (line,) = refused.value.problems
    return line


def test_a_split_that_is_the_training_file_or_a_copy_of_it_is_refused(
    ask: Ask, files: dict[str, Path]
) -> None:
    for split in ("valid", "test"):
        line = refusal(ask, {**files, split: files["train"]})
        assert f"task.{split}={files['train']}: the same as task.train: " in line
    files["test"].write_bytes(files["train"].read_bytes())
    assert f"task.test={files['test']}: the same as task.train: " in refusal(ask, files)
    files["test"].write_text("".join(WORDS[:2]))
    assert planned(ask, files).notes == []


def test_a_tsv_without_a_tab_is_refused_and_other_names_are_not(
    ask: Ask, files: dict[str, Path], tmp_path: Path
) -> None:
    spaced = "# said by hand\n\n" + "".join(WORDS).replace("\t", "  ")
    files["train"].write_text(spaced)
    assert f"task.train={files['train']}:1: no tab in it" in refusal(ask, files)
    plain = tmp_path / "train.dict"
    plain.write_text(spaced)
    assert planned(ask, {**files, "train": plain}).notes == []


def test_a_variant_that_changes_nothing_is_told(ask: Ask) -> None:
    variants = {
        "with": {},
        "with, too": {"model.residual": "pre"},
        "without": {"model.norm": "rms"},
    }
    (note,) = make_plan([ask(variants=variants)], "smoke", {}, [300]).notes
    assert note == ("small: 'with, too' changes nothing: it is its baseline, with, in other words")
