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
        assert "loss" in trivial, subject.owes("trivial", "has no loss")
        unknown = trivial.keys() - {"loss"} - subject.task.metrics.keys()
        assert not unknown, subject.owes("trivial", f"names {unknown}, which `metrics` has not")
        assert all(map(math.isfinite, trivial.values())), subject.owes("trivial", "is not finite")
        assert trivial["loss"] > 0, subject.owes("trivial", "leaves nothing to learn")


def declares_its_metrics(subject: TaskSubject) -> None:
    metrics = subject.task.metrics
    assert metrics, subject.owes("metrics", "is empty")
    for name, metric in metrics.items():
        assert metric.unit, subject.owes("metrics", f"gives {name} no unit")
        assert metric.label, subject.owes("metrics", f"gives {name} no label for a table")
        assert metric.better in ("lower", "higher"), subject.owes(
            "metrics", f"says that {metric.better} is better of {name}: write lower or higher"
        )
        assert metric.matters is None or metric.matters > 0, subject.owes(
            "metrics", f"says that {metric.matters} of {name} matters"
        )


def scores_what_it_declares(subject: TaskSubject) -> None:
    task, model = subject.task, subject.model(subject.task)
    scores, shown = task.scores(model, "valid", CPU)
    named = {score.metric for score in scores}
    assert named == set(task.metrics), subject.owes(
        "scores", f"and `metrics` differ in {named ^ set(task.metrics)}"
    )
    for score in scores:
        assert (score.value is None) == bool(score.reason), subject.owes(
            "scores", f"gives {score.metric} neither a value nor a reason, or both"
        )
        assert score.value is None or math.isfinite(score.value), subject.owes(
            "scores", f"gives {score.metric} as {score.value}: null with a reason"
        )
    assert shown, subject.owes("scores", "shows no examples")
    assert all(set(each) == {"input", "target", "output"} for each in shown), subject.owes(
        "scores", "shows examples without input, target or output"
    )
    again = task.scores(model, "valid", CPU)
    assert again == (scores, shown), subject.owes("scores", "differ the second time")


def leaves_the_mode_of_a_model(subject: TaskSubject) -> None:
    for training in (True, False):
        model = Knows(subject.task).train(training)
        subject.task.scores(model, "test", CPU)
        assert model.modes == {False}, subject.owes("scores", "asks with dropout awake")
        assert model.inner.training is training, subject.owes("scores", "leaves another mode")


def gives_a_perfect_answer_the_best_score(subject: TaskSubject) -> None:
    task = subject.task
    perfect, _ = task.scores(Knows(task), "test", CPU)
    worse, _ = task.scores(silent(task), "test", CPU)
    for score in perfect:
        if score.at or score.value is None:  # lengths that the splits have no examples of
            continue
        metric = task.metrics[score.metric]
        assert math.isclose(score.value, best(metric), abs_tol=0.01), subject.owes(
            "scores",
            f"gives a perfect answer {score.metric} {score.value}, not {best(metric)}",
        )
        assert _value(worse, score.metric) != score.value, subject.owes(
            "scores", f"gives silence the same {score.metric} as a perfect answer"
        )


def best(metric: Metric) -> float:
    if metric.better == "lower":
        return 0.0
    return 100.0 if metric.unit == "points" else 1.0


def _value(scores: list[Score], metric: str) -> float | None:
    return next(score.value for score in scores if score.metric == metric and not score.at)


def has_a_card(subject: TaskSubject) -> None:
    card = subject.task.card()
    missing = {"task", "source", "licence", "size", "split", "sha256"} - card.keys()
    assert not missing, subject.owes("card", f"does not say {', '.join(sorted(missing))}")
    empty = [key for key, value in card.items() if value in ("", {})]
    assert not empty, subject.owes("card", f"says nothing at {empty}")
    assert card["size"].keys() == {"train", "valid", "test"}, subject.owes(
        "card", f"gives the sizes of {list(card['size'])}"
    )
    assert card["sha256"] == subject.task.digest(), subject.owes("card", "has another digest")
    assert json.loads(json.dumps(card)) == card, subject.owes("card", "is not plain JSON")


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
        assert len(symbols) == asked.shape[1], subject.owes(
            "symbols", f"gives {len(symbols)} symbols of {asked.shape[1]} tokens"
        )
        if is_stream:
            tokens = asked[0].tolist()
            assert task.tell(tokens) == example["input"], subject.owes(
                "tell", "is not what was asked"
            )
        else:
            row = tuple(asked[0].tolist())
            assert row in answers, subject.owes(
                "ask", f"reads {example['input']!r} as something else"
            )
            tokens = [token for token in answers[row] if token != EOS or not task.writes]
            told = task.tell(tokens)
            assert told == example["target"] == example["output"], subject.owes(
                "tell", f"says {told!r} where {example['target']!r} is the answer"
            )
        assert len(task.show(tokens)) == len(tokens), subject.owes("show", "leaves a token out")


def refuses_nonsense(subject: TaskSubject) -> None:
    for text in ("", "☃\n" * 5000):
        try:
            subject.task.ask(text)
        except ValueError as error:
            told = str(error)
        else:
            told = ""
        assert told, subject.owes("ask", f"takes {text[:9]!r} for a question")
        assert "\n" not in told, subject.owes("ask", "refuses in more than one line")


OF_ANSWERS: tuple[Callable[[TaskSubject], None], ...] = (
    has_a_trivial_answer,
    declares_its_metrics,
    scores_what_it_declares,
    leaves_the_mode_of_a_model,
    gives_a_perfect_answer_the_best_score,
    has_a_card,
    can_be_asked_in_its_own_words,
    refuses_nonsense,
)
