"""What a task owes where it judges answers and speaks to a reader."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import torch
from task_samples import ASKED, Knows, examples, silent
from task_subjects import TaskSubject

from ablations.tasks.task import Metric, Score
from model.batch import EOS

CPU = torch.device("cpu")


def has_a_trivial_answer(subject: TaskSubject) -> None:
    for split in ASKED:
        trivial = subject.task.trivial(split)
        assert "loss" in trivial, "`trivial` has no loss"
        unknown = trivial.keys() - {"loss"} - subject.task.metrics.keys()
        assert not unknown, f"`trivial` names {unknown}, which `metrics` has not"
        assert all(map(math.isfinite, trivial.values())), "`trivial` is not finite"
        assert trivial["loss"] > 0, "`trivial` leaves nothing to learn"


def declares_its_metrics(subject: TaskSubject) -> None:
    metrics = subject.task.metrics
    assert metrics, "`metrics` is empty"
    for name, metric in metrics.items():
        assert metric.unit, f"`metrics` gives {name} no unit"
        assert metric.title, f"`metrics` gives {name} no title for a table"
        assert metric.better in ("lower", "higher")
        assert metric.matters is None or metric.matters > 0


def scores_what_it_declares(subject: TaskSubject) -> None:
    task, model = subject.task, subject.model(subject.task)
    scores, shown = task.scores(model, "valid", CPU)
    named = {score.metric for score in scores}
    assert named == set(task.metrics)
    for score in scores:
        assert (score.value is None) == bool(score.reason)
        assert score.value is None or math.isfinite(score.value)
    assert shown, "`scores` shows no examples"
    assert all(set(each) == {"input", "target", "output"} for each in shown)
    again = task.scores(model, "valid", CPU)
    assert again == (scores, shown), "`scores` differ the second time"


def gives_a_perfect_answer_the_best_score(subject: TaskSubject) -> None:
    task = subject.task
    perfect, _ = task.scores(Knows(task), "test", CPU)
    worse, _ = task.scores(silent(task), "test", CPU)
    for score in perfect:
        if score.coordinates or score.value is None:  # lengths that the splits have no examples of
            continue
        metric = task.metrics[score.metric]
        assert math.isclose(score.value, best(metric), abs_tol=0.01)
        assert _value(worse, score.metric) != score.value


def best(metric: Metric) -> float:
    if metric.better == "lower":
        return 0.0
    return 100.0 if metric.unit == "points" else 1.0


def _value(scores: list[Score], metric: str) -> float | None:
    return next(score.value for score in scores if score.metric == metric and not score.coordinates)


def has_a_card(subject: TaskSubject) -> None:
    card = subject.task.card()
    missing = {"task", "source", "licence", "size", "split", "sha256"} - card.keys()
    assert not missing, f"`card` does not say {', '.join(sorted(missing))}"
    empty = [key for key, value in card.items() if value in ("", {})]
    assert not empty, f"`card` says nothing at {empty}"
    assert card["size"].keys() == {"train", "valid", "test"}
    assert card["sha256"] == subject.task.digest(), "`card` has another digest"
    assert json.loads(json.dumps(card)) == card, "`card` is not plain JSON"


def can_be_asked_in_its_own_words(subject: TaskSubject) -> None:
    """What a record shows can be asked again, and is told and shown as it was."""
    task = subject.task
    _, shown = task.scores(Knows(task), "test", CPU)
    answers = dict(examples(task.evaluation_batches("test")))
    is_stream = task.writes and task.source_size is None  # whose windows nobody would ask for
    for example in shown:
        question = task.ask(example["input"])
        asked = question.prompt if question.source is None else question.source
        assert asked is not None
        symbols = task.symbols(example["input"])
        assert len(symbols) == asked.shape[1]
        if is_stream:
            tokens = asked[0].tolist()
            assert task.tell(tokens) == example["input"], "`tell` is not what was asked"
        else:
            row = tuple(asked[0].tolist())
            assert row in answers, f"`ask` reads {example['input']!r} as something else"
            tokens = [token for token in answers[row] if token != EOS or not task.writes]
            told = task.tell(tokens)
            assert told == example["target"] == example["output"]
        assert len(task.show(tokens)) == len(tokens), "`show` leaves a token out"


def refuses_nonsense(subject: TaskSubject) -> None:
    for text in ("", "☃\n" * 5000):
        try:
            subject.task.ask(text)
        except ValueError as error:
            told = str(error)
        else:
            told = ""
        assert told, f"`ask` takes {text[:9]!r} for a question"
        assert "\n" not in told, "`ask` refuses in more than one line"


OF_ANSWERS: tuple[Callable[[TaskSubject], None], ...] = (
    has_a_trivial_answer,
    declares_its_metrics,
    scores_what_it_declares,
    gives_a_perfect_answer_the_best_score,
    has_a_card,
    can_be_asked_in_its_own_words,
    refuses_nonsense,
)
