"""Several processes that train one model learn what one would, from the same batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rank_trainings import CONFIG, MODELS, train_each, trained
from small_task import Backwards

from ablations.signals import catching_sigterm
from ablations.train.checkpoint import Checkpointer
from ablations.train.ddp import Devices, run_together
from model.batch import Batch


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one of their trainings is kept when it is stopped."""
    return tmp_path_factory.mktemp("kept") / "unfinished"


@pytest.fixture(scope="module")
def together(place: Path) -> dict[str, Any]:
    """What two processes made of every model; a warning is an error there, too."""
    payload = {"place": str(place)}
    with pytest.MonkeyPatch.context() as patch, catching_sigterm() as notice:
        patch.setenv("PYTHONWARNINGS", "error")
        return run_together(train_each, payload, 2, lambda *_: None, notice)


@pytest.mark.parametrize("name", MODELS)
def test_two_processes_learn_what_one_does_from_the_whole_batch(
    together: dict[str, Any], name: str
) -> None:
    one, two = trained(name), together["trainings"][name]
    assert two["weights"].keys() == one["weights"].keys()
    for weight, values in one["weights"].items():
        ours, theirs = (
            torch.tensor(each, dtype=torch.float64) for each in (two["weights"][weight], values)
        )
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9, msg=lambda m, w=weight: w + m)
    assert two["measurements"].keys() == one["measurements"].keys() >= {("error", "test", 14)}
    for at, value in one["measurements"].items():
        # The training loss is summed in float32, whatever the model is.
        rel = 1e-6 if at[:2] == ("loss", "train") else 1e-9
        assert two["measurements"][at] == pytest.approx(value, rel=rel), at
    valid = [value for at, value in one["measurements"].items() if at[:2] == ("loss", "valid")]
    assert valid[-1] < valid[0] - 0.01, "where nothing is learned, all are equal"


def test_gradients_are_joined_once_a_step_however_many_parts_it_has(
    together: dict[str, Any],
) -> None:
    assert CONFIG.micro_batches > 1
    assert together["joins"] == CONFIG.steps


def test_no_two_devices_drop_the_same_and_each_drops_the_same_again(
    together: dict[str, Any],
) -> None:
    first, second, again = together["drawn"]
    assert first == again
    assert len({*first, *second}) == 4


def test_a_training_that_was_stopped_and_gone_on_with_ends_with_the_same_bits(
    together: dict[str, Any], place: Path
) -> None:
    """With dropout: nothing depends on where it was stopped."""
    kept = Checkpointer(place, {}).load()
    assert 0 < kept[1]["step"] < CONFIG.steps
    assert together["parts"] == together["whole"]
    assert together["whole"]["weights"] != together["trainings"]["decoder"]["weights"]


@pytest.fixture
def part() -> Batch:
    pairs = Backwards().pairs["train"]
    return pairs.batch(torch.arange(5))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_shares_of_a_part_are_its_rows_in_their_order(part: Batch, count: int) -> None:
    shares = [Devices(rank, count).share(part) for rank in range(count)]
    sizes = [len(share.labels) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sum(share.tokens for share in shares) == part.tokens
    for name, whole in vars(part).items():
        each = [vars(share)[name] for share in shares]
        if whole is None:
            assert each == [None] * count
        else:
            assert torch.equal(torch.cat(each), whole), name


def test_where_rows_are_few_a_device_computes_one_that_does_not_count(part: Batch) -> None:
    shares = [Devices(rank, 7).share(part) for rank in range(7)]
    assert all(len(share.labels) == 1 for share in shares)
    counted = [share for share in shares if share.tokens]
    assert len(counted) == 5
    assert torch.equal(torch.cat([share.labels for share in counted]), part.labels)
