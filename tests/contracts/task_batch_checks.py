"""What a task owes where it hands out data: what is taught, what is asked, and its digest.

Each check takes a subject and fails in words that say what is owed and where.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from unittest import mock

import numpy as np
import torch
from task_samples import ASKED, examples, generators, plain, said, steps
from task_subjects import REPEATED, TaskSubject

from ablations.tasks import Task
from ablations.tasks.task import Budget
from ablations.train.loop import train
from model.batch import IGNORE, Batch
from model.config import ConfigError

LARGE = Budget(20_000, micro_batches=2)  # an epoch of any smoke task is a few such steps


def is_cheap_to_build(subject: TaskSubject) -> None:
    with mock.patch.object(Batch, "__post_init__", autospec=True) as made:
        subject.built()
    assert not made.called, "`__init__` makes batches, which a plan never looks at"


def is_told_by_its_digest(subject: TaskSubject) -> None:
    """Stable, and another one for every option that changes what is asked."""
    again = subject.built().digest()
    assert subject.task.digest() == again, "`digest` differs from one build to another"
    assert len(again) == 64, f"`digest` is no sha256: {again}"
    assert _words(subject.task), "nothing is asked"
    told = 0
    for option, value in subject.config["task"].items():
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        try:
            other = subject.built(**{option: value // 2 + 1})
        except ConfigError:
            continue
        if _words(other) != _words(subject.task):
            told += 1
            assert other.digest() != again, f"does not tell {option}={value} from {value // 2 + 1}"
    assert told, "`digest` could not be tried: no number among the options counts"


def goes_on_where_it_was(subject: TaskSubject) -> None:
    for budget, start in ((subject.settings.budget, 1), (LARGE, 12)):
        whole = steps(subject.task, 5, budget, start + 2)
        later = steps(subject.built(), 5, budget, 2, start)
        assert later == whole[start:], f"with start={start} it does not go on as the whole does"


def teaches_by_the_seed_alone(subject: TaskSubject) -> None:
    """One seed, one stream, whatever else was asked of task and generators before."""
    budget, task = subject.settings.budget, subject.built()
    expected = steps(subject.task, 3, budget, 3)
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    states = generators()
    task.evaluation_batches("valid")
    task.digest()
    taught = steps(task, 3, budget, 3)
    assert generators() == states, "`steps` draws from the generators of others"
    assert taught == expected, "`steps` gives two models of one seed other batches"
    other = steps(task, 4, budget, 3)
    assert other != expected, "`steps` gives another seed the same batches"
    assert expected[0] != expected[1], "`steps` gives the same batch at every step"


def asks_every_example_once(subject: TaskSubject) -> None:
    card, task = subject.task.card(), subject.built()
    for split in ASKED:
        batches = subject.task.evaluation_batches(split)
        labels = sum(batch.tokens for batch in batches)
        rows = sum(len(batch.labels) for batch in batches)
        size = card.get("tokens", card["size"])[split]  # of a stream, every token is an example
        assert size in (rows, labels)
        again = [plain(batch) for batch in task.evaluation_batches(split)]
        assert again == [plain(batch) for batch in batches]


def asks_nothing_that_was_taught(subject: TaskSubject) -> None:
    parts = [part for seed in (0, 1) for step in _some(subject, seed) for part in step]
    taught = set(examples([*parts, *subject.task.evaluation_batches("train")]))
    valid, test = (set(examples(subject.task.evaluation_batches(split))) for split in ASKED)
    for found, other in ((valid, taught), (test, taught), (valid, test)):
        share = len(found & other) / len(found)
        assert share <= REPEATED.get(subject.name, 0.0), "drop them, or say why in REPEATED"


def fits_what_it_declares(subject: TaskSubject) -> None:
    """Kind, sizes and `longest` hold for every batch."""
    task = subject.task
    parts = [part for step in _some(subject, 0) for part in step]
    for batch in [*parts, *task.evaluation_batches("valid"), *task.evaluation_batches("test")]:
        sides = {"source": batch.source, "inputs": batch.inputs}
        given = {name for name, tokens in sides.items() if tokens is not None}
        wanted = {
            "encoder_decoder": {"source", "inputs"},
            "decoder": {"inputs"},
            "encoder": {"source"},
        }
        assert given == wanted[task.kind], f"`kind` is {task.kind}, batches have {given}"
        for name, size in (("source", task.source_size), ("inputs", task.target_size)):
            tokens = sides[name]
            if tokens is None:
                continue
            assert tokens.shape[1] <= task.longest
            assert size is not None, "`source_size` is None, yet batches have a source"
            assert int(tokens.max()) < size
        assert (batch.labels.dim() == 1) == (task.per == "sequence")
        labels = batch.labels[batch.labels != IGNORE]
        assert 0 <= int(labels.min()) <= int(labels.max()) < task.target_size


def can_be_learned(subject: TaskSubject) -> None:
    """A few steps of its control bring the loss on what is asked down."""
    config = {**subject.config["train"], "steps": 12, "evaluations": 1}
    config |= {"schedule": {"name": "constant"}}
    settings = type(subject.settings)(**config)
    task, cpu = subject.task, torch.device("cpu")
    training = train(subject.model(task), task, settings, 0, cpu, lambda *_: None)
    before, after = (measurement.value for measurement in training.losses("valid"))
    assert before is not None
    assert after is not None
    assert after < before


def _some(subject: TaskSubject, seed: int) -> list[tuple[Batch, ...]]:
    stream = subject.task.steps(seed, LARGE)
    return [next(stream) for _ in range(3)]


def _words(task: Task) -> Counter[int]:
    """How often each label is asked for."""
    batches = [batch for split in ASKED for batch in task.evaluation_batches(split)]
    return Counter(label for batch in batches for row in said(batch) for label in row)


Check = Callable[[TaskSubject], None]
OF_DATA: tuple[Check, ...] = (
    is_cheap_to_build,
    is_told_by_its_digest,
    goes_on_where_it_was,
    teaches_by_the_seed_alone,
    asks_every_example_once,
    asks_nothing_that_was_taught,
    fits_what_it_declares,
    can_be_learned,
)
