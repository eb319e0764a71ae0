"""Batches of several trainings in one shape: what is added changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from ablations.train.pack import side_by_side
from model.batch import IGNORE, PAD, Batch


def words(rows: int, length: int, first: int = 3) -> Tensor:
    return first + torch.arange(rows * length).reshape(rows, length) % 5


def decoded(rows: int, length: int, lengths: list[int] | None = None) -> Batch:
    told = None if lengths is None else torch.tensor(lengths)
    return Batch(words(rows, length), words(rows, length), told)


def test_batches_of_one_shape_stand_side_by_side_as_they_are() -> None:
    one, two = decoded(2, 3), decoded(2, 3)
    found = side_by_side([one, two])
    assert set(found) == {"labels", "inputs"}, "where nothing is padded no length is told"
    for name in found:
        torch.testing.assert_close(found[name], torch.stack([getattr(b, name) for b in (one, two)]))


def test_what_is_added_has_no_label_and_lies_beyond_the_lengths() -> None:
    small, large = decoded(1, 2), decoded(3, 4, [4, 3, 1])
    found = side_by_side([small, large])
    assert found["labels"].shape == found["inputs"].shape == (2, 3, 4)
    assert found["lengths"].tolist() == [[2, 1, 1], [4, 3, 1]]
    for name, fill in (("labels", IGNORE), ("inputs", PAD)):
        torch.testing.assert_close(found[name][0, :1, :2], getattr(small, name))
        torch.testing.assert_close(found[name][1], getattr(large, name))
        added = found[name][0].clone()
        added[:1, :2] = fill
        assert (added == fill).all()


def test_rows_alone_are_added_without_a_word_about_lengths() -> None:
    found = side_by_side([decoded(1, 3), decoded(2, 3)])
    assert "lengths" not in found
    assert (found["labels"][0, 1] == IGNORE).all()


def test_a_lane_that_has_no_batch_has_nothing_to_learn() -> None:
    found = side_by_side([None, decoded(2, 3, [3, 2])])
    assert (found["labels"][0] == IGNORE).all()
    assert found["lengths"].tolist() == [[1, 1], [3, 2]]


def test_source_and_target_are_padded_each_to_its_own_longest() -> None:
    one = Batch(words(1, 2), words(1, 2), source=words(1, 5))
    two = Batch(words(1, 4), words(1, 4), source=words(1, 3))
    found = side_by_side([one, two])
    assert (found["inputs"].shape, found["source"].shape) == ((2, 1, 4), (2, 1, 5))
    assert found["lengths"].tolist() == [[2], [4]]
    assert found["source_lengths"].tolist() == [[5], [3]]


def test_one_class_a_sequence_is_padded_by_rows() -> None:
    one = Batch(torch.tensor([1]), source=words(1, 3), segments=torch.ones(1, 3, dtype=torch.long))
    two = Batch(torch.tensor([0, 2]), source=words(2, 2), segments=torch.zeros(2, 2).long())
    found = side_by_side([one, two])
    assert found["labels"].tolist() == [[1, IGNORE], [0, 2]]
    assert found["segments"].tolist() == [[[1, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]
