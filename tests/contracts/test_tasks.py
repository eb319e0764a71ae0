"""Every task keeps every contract: one item a task, whose failures are listed together."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from task_subjects import (
    ASKED,
    OWN_FILES,
    REPEATED,
    WITH_OWN_FILES,
    Knows,
    TaskSubject,
    examples,
    failures,
    generators,
    labels_of,
    plain,
    silent,
    steps,
    task_subject,
)

from ablations.facts import identity_of
from ablations.tasks import TASK
from ablations.tasks.task import Budget, Task
from ablations.train.loop import train
from model.batch import EOS, IGNORE, Batch
from model.config import ConfigError

CPU = torch.device("cpu")
LARGE = Budget(20_000, micro_batches=2)  # an epoch of any smoke task is a few such steps
SIDES = {"encoder_decoder": {"source", "inputs"}, "decoder": {"inputs"}, "encoder": {"source"}}


def is_cheap_to_build(subject: TaskSubject) -> None:
    with mock.patch.object(Batch, "__post_init__", autospec=True) as made:
        subject.built()
    assert not made.called, "`__init__` makes batches, which a plan never looks at"


def has_another_digest_for_every_option_that_changes_what_is_asked(subject: TaskSubject) -> None:
    again = subject.built().digest()
    assert subject.task.digest() == again, "`digest` differs from one build to another"
    assert len(again) == 64, f"`digest` is no sha256: {again}"
    tried = 0
    for option, value in subject.config["task"].items():
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        try:
            other = subject.built(**{option: value // 2 + 1})
        except ConfigError:
            continue
        if asked(other) != asked(subject.task):
            tried += 1
            assert other.digest() != again, f"the same with another {option}"
    assert tried, "`digest` could not be tried: no number among the options counts"


def asked(task: Task) -> Counter[int]:
    """How often each label is asked for."""
    batches = [batch for split in ASKED for batch in task.evaluation_batches(split)]
    return Counter(label for batch in batches for row in labels_of(batch) for label in row)


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
    assert steps(task, 4, budget, 3) != expected, "`steps` gives another seed the same batches"
    assert expected[0] != expected[1], "`steps` gives the same batch at every step"


def asks_every_example_once(subject: TaskSubject) -> None:
    card, task = subject.task.card(), subject.built()
    for split in ASKED:
        batches = subject.task.evaluation_batches(split)
        sizes = sum(len(b.labels) for b in batches), sum(b.tokens for b in batches)
        # Of a stream, every token is an example.
        assert card.get("tokens", card["size"])[split] in sizes
        again = [plain(batch) for batch in task.evaluation_batches(split)]
        assert again == [plain(batch) for batch in batches]


def asks_nothing_that_was_taught(subject: TaskSubject) -> None:
    parts = [part for seed in (0, 1) for step in taught(subject, seed) for part in step]
    known = set(examples([*parts, *subject.task.evaluation_batches("train")]))
    valid, test = (set(examples(subject.task.evaluation_batches(split))) for split in ASKED)
    for found, other in ((valid, known), (test, known), (valid, test)):
        share = len(found & other) / len(found)
        assert share <= REPEATED.get(subject.name, 0.0), "drop them, or say why in REPEATED"


def taught(subject: TaskSubject, seed: int) -> list[tuple[Batch, ...]]:
    stream = subject.task.steps(seed, LARGE)
    return [next(stream) for _ in range(3)]


def fits_what_it_declares(subject: TaskSubject) -> None:
    """Kind, sizes and `longest` hold for every batch."""
    task = subject.task
    parts = [part for step in taught(subject, 0) for part in step]
    for batch in [*parts, *task.evaluation_batches("valid"), *task.evaluation_batches("test")]:
        sides = {"source": batch.source, "inputs": batch.inputs}
        given = {name for name, tokens in sides.items() if tokens is not None}
        assert given == SIDES[task.kind], f"`kind` is {task.kind}, batches have {given}"
        for name, size in (("source", task.source_size), ("inputs", task.target_size)):
            tokens = sides[name]
            if tokens is not None:
                assert tokens.shape[1] <= task.longest
                assert size is not None, "`source_size` is None, yet batches have a source"
                assert int(tokens.max()) < size
        assert (batch.labels.dim() == 1) == (task.per == "sequence")
        labels = batch.labels[batch.labels != IGNORE]
        assert 0 <= int(labels.min()) <= int(labels.max()) < task.target_size


def can_be_learned(subject: TaskSubject) -> None:
    """A few steps of its baseline bring the loss on what is asked down."""
    config = {**subject.config["train"], "steps": 12, "evaluations": 1}
    settings = type(subject.settings)(**{**config, "schedule": {"name": "constant"}})
    model = subject.model(subject.task)
    training = train(model, subject.task, settings, 0, CPU, lambda *_: None)
    before, after = (measurement.value for measurement in training.losses("valid"))
    assert after < before


def describes_itself(subject: TaskSubject) -> None:
    """A card, a trivial answer, and metrics with their unit and label."""
    task, card = subject.task, subject.task.card()
    missing = {"task", "source", "licence", "size", "split", "sha256"} - card.keys()
    assert not missing, f"`card` does not say {', '.join(sorted(missing))}"
    assert not [key for key, value in card.items() if value in ("", {})], "an empty entry"
    assert card["size"].keys() == {"train", "valid", "test"}
    assert card["sha256"] == task.digest(), "`card` has another digest"
    assert json.loads(json.dumps(card)) == card, "`card` is not plain JSON"
    assert task.metrics, "`metrics` is empty"
    for name, metric in task.metrics.items():
        assert metric.unit, f"`metrics` gives {name} no unit"
        assert metric.title, f"`metrics` gives {name} no label for a table"
        assert metric.better in ("lower", "higher")
        assert metric.matters is None or metric.matters > 0
    for split in ASKED:
        trivial = task.trivial(split)
        assert "loss" in trivial, "`trivial` has no loss"
        unknown = trivial.keys() - {"loss"} - task.metrics.keys()
        assert not unknown, f"`trivial` names {unknown}, which `metrics` has not"
        assert all(map(math.isfinite, trivial.values())), "`trivial` is not finite"
        assert trivial["loss"] > 0, "`trivial` leaves nothing to learn"


def scores_what_it_declares(subject: TaskSubject) -> None:
    task, model = subject.task, subject.model(subject.task)
    scores, shown = task.scores(model, "valid", CPU)
    assert {score.metric for score in scores} == set(task.metrics)
    for score in scores:
        assert (score.value is None) == bool(score.reason)
        assert score.value is None or math.isfinite(score.value)
    assert shown, "`scores` shows no examples"
    assert all(set(each) == {"input", "target", "output"} for each in shown)
    assert task.scores(model, "valid", CPU) == (scores, shown), "they differ the second time"


def gives_a_perfect_answer_the_best_score(subject: TaskSubject) -> None:
    task = subject.task
    perfect, _ = task.scores(Knows(task), "test", CPU)
    worse = {
        s.metric: s.value for s in task.scores(silent(task), "test", CPU)[0] if not s.coordinates
    }
    for score in perfect:
        if not score.coordinates and score.value is not None:
            metric = task.metrics[score.metric]
            highest = 100.0 if metric.unit == "points" else 1.0
            best = 0.0 if metric.better == "lower" else highest
            assert math.isclose(score.value, best, abs_tol=0.01)
            assert worse[score.metric] != score.value


def can_be_asked_in_its_own_words(subject: TaskSubject) -> None:
    """What a record shows can be asked again, and is read and shown as it was."""
    task = subject.task
    _, shown = task.scores(Knows(task), "test", CPU)
    answers = dict(examples(task.evaluation_batches("test")))
    is_stream = task.writes and task.source_size is None  # whose windows nobody would ask for
    for example in shown:
        question = task.ask(example["input"])
        ids = question.prompt if question.source is None else question.source
        assert len(task.symbols(example["input"])) == ids.shape[1]
        tokens = ids[0].tolist()
        if is_stream:
            assert task.to_text(tokens) == example["input"], "`tell` is not what was asked"
        else:
            assert tuple(tokens) in answers, f"`ask` reads {example['input']!r} as something else"
            answer = answers[tuple(tokens)]
            tokens = [token for token in answer if token != EOS or not task.writes]
            assert task.to_text(tokens) == example["target"] == example["output"]
        assert len(task.show(tokens)) == len(tokens), "`show` leaves a token out"


def refuses_nonsense(subject: TaskSubject) -> None:
    for text in ("", "☃\n" * 5000):
        with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
            subject.task.ask(text)


CHECKS: tuple[Callable[[TaskSubject], None], ...] = (
    is_cheap_to_build,
    has_another_digest_for_every_option_that_changes_what_is_asked,
    goes_on_where_it_was,
    teaches_by_the_seed_alone,
    asks_every_example_once,
    asks_nothing_that_was_taught,
    fits_what_it_declares,
    can_be_learned,
    describes_itself,
    scores_what_it_declares,
    gives_a_perfect_answer_the_best_score,
    can_be_asked_in_its_own_words,
    refuses_nonsense,
)


@pytest.mark.parametrize("name", TASK.components)
def test_every_task_keeps_every_contract(name: str) -> None:
    assert not failures(CHECKS, task_subject(name))


def test_what_matters_is_registered_for_the_scores_that_decide() -> None:
    deciding = {"g2p": "per", "text": "bits_per_character", "copy": "sequence_accuracy",
                "recall": "accuracy", "translation": "bleu"}  # fmt: skip
    found = {
        name: TASK.component(name).metrics[metric].matters for name, metric in deciding.items()
    }
    assert found == {"g2p": 0.02, "text": 0.03, "copy": 0.05, "recall": 0.05, "translation": None}


# The data of a task decides the trial: another digest orphans every record on it. Where data really
# has changed, name in the commit whose numbers move, and write the new one here.
DIGESTS = {
    "copy": "9e6e846364a0",
    "g2p": "24acdaad93b5",
    "listops": "bff5697ea52d",
    "pair": "0d813ad7e8a2",
    "recall": "befcd5a0b564",
    "reverse": "8c236bbf2042",
    "sort": "3b12132cf44c",
    "text": "e9ae40400c7c",
    "translation": "d877c2247eff",
}


def test_the_data_of_every_task_is_what_it_was() -> None:
    assert {name: task_subject(name).task.digest()[:12] for name in TASK.components} == DIGESTS


def trial_of(name: str, folder: Path, **changed: str) -> str:
    """The id of a task's trial on a user's own files, written into this folder."""
    folder.mkdir()
    paths = {option: str(folder / option) for option in OWN_FILES[name]}
    for option, text in OWN_FILES[name].items():
        (folder / option).write_text(changed.get(option, text), encoding="utf-8")
    subject = task_subject(name)
    task = {**subject.config["task"], **WITH_OWN_FILES.get(name, {}), **paths}
    return identity_of({**subject.config, "task": task, "seed": 0})


@pytest.mark.parametrize("name", OWN_FILES)
def test_other_words_in_the_same_file_are_another_trial(name: str, tmp_path: Path) -> None:
    ours = trial_of(name, tmp_path / "here")
    assert trial_of(name, tmp_path / "elsewhere") == ours
    for option, text in OWN_FILES[name].items():
        other = trial_of(name, tmp_path / option, **{option: text.replace("e", "t", 1)})
        assert other != ours, f"the id does not see what is in {option}"
