"""What a task owes where it hands out data: what is taught, what is asked, and its digest.

Each check takes a subject and fails in words that say what is owed and where.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from task_samples import ASKED, examples, generators, plain, said, steps
from task_subjects import HERE, OWN_FILES, REPEATED, WITH_OWN_FILES, TaskSubject

from ablations.tasks import TASK, Task
from ablations.tasks.task import Budget
from ablations.train.loop import train
from model.batch import IGNORE, Batch
from model.config import ConfigError

LARGE = Budget(20_000, parts=2)  # an epoch of any smoke task is a few such steps


def is_cheap_to_build(subject: TaskSubject) -> None:
    with mock.patch.object(Batch, "__post_init__", autospec=True) as made:
        subject.built()
    assert not made.called, subject.owes("__init__", "makes batches, which a plan never looks at")


def is_told_by_its_digest(subject: TaskSubject) -> None:
    """Stable, and another one for every option that changes what is asked."""
    again = subject.built().digest()
    assert subject.task.digest() == again, subject.owes(
        "digest", "differs from one build to another"
    )
    assert len(again) == 64, subject.owes("digest", f"is no sha256: {again}")
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
            sentence = f"does not tell {option}={value} from {value // 2 + 1}"
            assert other.digest() != again, subject.owes("digest", sentence)
    assert told, subject.owes("digest", "could not be tried: no number among the options counts")


def follows_the_files_it_is_given(subject: TaskSubject) -> None:
    """Not where they lie, but all that is in them."""
    files = TASK.part(subject.config["task"]["name"]).files
    written = OWN_FILES.get(subject.name, {})
    assert set(files) == set(written), (
        f"write small files for {set(files) ^ set(written)} in {HERE}"
    )

    def digest(**changed: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            paths = {option: str(Path(folder, option)) for option in files}
            for option, path in paths.items():
                Path(path).write_text(changed.get(option, written[option]), encoding="utf-8")
            return subject.built(**WITH_OWN_FILES.get(subject.name, {}), **paths).digest()

    assert digest() == digest(), subject.owes("digest", "changes with the folder of a file")
    for option, text in written.items():
        changed = digest(**{option: text.replace("e", "t", 1)})
        assert changed != digest(), subject.owes("digest", f"is blind to what is in {option}")


def goes_on_where_it_was(subject: TaskSubject) -> None:
    for budget, start in ((subject.settings.budget, 1), (LARGE, 12)):
        whole = steps(subject.task, 5, budget, start + 2)
        later = steps(subject.built(), 5, budget, 2, start)
        sentence = f"with start={start} does not go on as the whole stream does"
        assert later == whole[start:], subject.owes("steps", sentence)


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
    assert generators() == states, subject.owes("steps", "draws from the generators of others")
    assert taught == expected, subject.owes("steps", "gives two models of one seed other batches")
    other = steps(task, 4, budget, 3)
    assert other != expected, subject.owes("steps", "gives another seed the same batches")
    assert expected[0] != expected[1], subject.owes("steps", "gives the same batch at every step")


def asks_every_example_once(subject: TaskSubject) -> None:
    card, task = subject.task.card(), subject.built()
    for split in ASKED:
        batches = subject.task.evaluation_batches(split)
        labels = sum(batch.tokens for batch in batches)
        rows = sum(len(batch.labels) for batch in batches)
        size = card.get("tokens", card["size"])[split]  # of a stream, every token is an example
        assert size in (rows, labels), subject.owes(
            "evaluation_batches", f"asks {rows} examples of {split}, of {size} on its card"
        )
        again = [plain(batch) for batch in task.evaluation_batches(split)]
        assert again == [plain(batch) for batch in batches], subject.owes(
            "evaluation_batches", f"asks {split} in other batches the second time"
        )


def asks_nothing_that_was_taught(subject: TaskSubject) -> None:
    parts = [part for seed in (0, 1) for step in _some(subject, seed) for part in step]
    taught = set(examples([*parts, *subject.task.evaluation_batches("train")]))
    valid, test = (set(examples(subject.task.evaluation_batches(split))) for split in ASKED)
    for found, other in ((valid, taught), (test, taught), (valid, test)):
        share = len(found & other) / len(found)
        assert share <= REPEATED.get(subject.name, 0.0), subject.owes(
            "evaluation_batches",
            f"has {share:.1%} of its examples in another split too: leave them out, or say why "
            f"not in REPEATED of {HERE}",
        )


def names_its_splits(subject: TaskSubject) -> None:
    try:
        subject.task.evaluation_batches("dev")
    except ValueError as error:
        told = str(error)
    else:
        told = "nothing"
    assert "train, valid, test" in told, subject.owes(
        "evaluation_batches", f"answers an unknown split with {told!r}, not with the known ones"
    )


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
        assert given == wanted[task.kind], subject.owes(
            "kind", f"is {task.kind}, batches have {given}"
        )
        for name, size in (("source", task.source_size), ("inputs", task.target_size)):
            tokens = sides[name]
            if tokens is None:
                continue
            assert tokens.shape[1] <= task.longest, subject.owes(
                "longest",
                f"is {task.longest}, yet a batch has a {name} of {tokens.shape[1]} tokens",
            )
            assert size is not None, subject.owes(
                "source_size", "is None, yet batches have a source"
            )
            assert int(tokens.max()) < size, subject.owes(
                f"{'source' if name == 'source' else 'target'}_size", f"is {size}, too small"
            )
        assert (batch.labels.dim() == 1) == (task.per == "sequence"), subject.owes(
            "per", f"is {task.per}, yet labels have {batch.labels.dim()} dimensions"
        )
        labels = batch.labels[batch.labels != IGNORE]
        assert 0 <= int(labels.min()) <= int(labels.max()) < task.target_size, subject.owes(
            "target_size", f"is {task.target_size}, yet there is a label {int(labels.max())}"
        )


def can_be_learned(subject: TaskSubject) -> None:
    """A few steps of its control bring the loss on what is asked down."""
    config = {**subject.config["train"], "steps": 12, "evaluations": 1}
    config |= {"schedule": {"name": "constant"}}
    settings = type(subject.settings)(**config)
    task, cpu = subject.task, torch.device("cpu")
    training = train(subject.model(task), task, settings, 0, cpu, lambda *_: None)
    before, after = (reading.value for reading in training.losses("valid"))
    assert before is not None
    assert after is not None
    assert after < before, subject.owes(
        "steps", f"teaches nothing that is asked: a loss of {before:.2f} became {after:.2f}"
    )


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
    names_its_splits,
    fits_what_it_declares,
    can_be_learned,
)
OF_FILES: tuple[Check, ...] = (follows_the_files_it_is_given,)
