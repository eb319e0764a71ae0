"""A trained model can be asked a question of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations.commands.answer import LONGEST, answer
from ablations.config import resolve_trial
from ablations.store.identity import canonical_json
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.tasks.task import load_task
from ablations.train.checkpoint import load_weights, save_weights, stamp_for
from ablations.train.config import TrainConfig
from ablations.train.loop import train
from model.attention import attention
from model.batch import EOS, Batch
from model.build import build

Trained = tuple[Results, Record]
Say = Callable[..., tuple[int, str, str]]

WORDS = {"name": "g2p", "words": 200, "valid_words": 20, "test_words": 20}
STRINGS = {"name": "copy", "length": 6, "examples": 20}
LISTS = {"name": "listops", "examples": 200, "test_examples": 50}
SIZES = {"d_model": 16, "depth": 1, "n_heads": 2}
BOTH = {"name": "transformer", "kind": "encoder_decoder", "max_len": 64, **SIZES}
DECODER = {**BOTH, "kind": "decoder"}
ENCODER = {**BOTH, "kind": "encoder", "depth": 2, "head": {"name": "classes", "pool": "mean"}}
VERSES = {"valid_characters": 500, "test_characters": 500}
TRIALS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "g2p": (WORDS, BOTH, "HELLO"),
    "recurrent": (WORDS, {"name": "recurrent", "d_model": 16}, "hello"),
    "copy": (STRINGS, {**BOTH, "position": "learned", "max_len": 12}, "3 1 4 1 5"),
    "recall": ({"name": "recall", "examples": 50}, DECODER, "3=1 5=0 2=7 .4 .0 5"),
    "pair": ({"name": "pair", "examples": 50}, DECODER, "3=1 0=5 2=1 1=7 2,1?"),
    "listops": (LISTS, ENCODER, "[MAX 2 9 [MIN 4 7 ] 0 ]"),
    "text": ({"name": "text", "characters": 4000, "length": 24, **VERSES}, DECODER, "And a=b"),
    "translation": (
        {"name": "translation", "sentences": 60, "valid_sentences": 9, "test_sentences": 9},
        BOTH,
        "And God said, Go.",
    ),
}
READ_OFF = ("recall", "pair", "listops")


def trained(folder: Path, task: dict[str, Any], model: dict[str, Any], **options: Any) -> Trained:
    """A results folder with one trial of a few steps, and its checkpoint."""
    sizes = {"steps": 40, "batch_tokens": 128, "evaluations": 1, "schedule": "constant"}
    config = {**resolve_trial({"task": task, "model": model, "train": sizes | options}), "seed": 0}
    asked = load_task(canonical_json(config["task"]))
    built = build(config["model"], asked.source_size, asked.target_size, seed=0)
    settings, cpu = TrainConfig(**config["train"]), torch.device("cpu")
    training = train(built, asked, settings, 0, cpu, lambda fraction, note: None)
    results = Results(folder)
    record = Record("a" * 12, training.status, config, training.reason, data=asked.card())
    results.write(record)
    save_weights(built, results.weights(record.id), stamp_for(record))
    return results, record


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    """Each of TRIALS, trained once."""
    made: dict[str, Trained] = {}

    def get(name: str) -> Trained:
        if name not in made:
            made[name] = trained(tmp_path_factory.mktemp(name), *TRIALS[name][:2])
        return made[name]

    return get


@pytest.fixture
def refusal(say: Say) -> Callable[[Results, str], str]:
    """The one line with which `try` refuses."""

    def ask(results: Results, text: str) -> str:
        code, out, err = say("try", "aaaa", text, "--results", str(results.root))
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err

    return ask


def model_of(record: Record, results: Results) -> torch.nn.Module:
    """A trial's model, whose attention shows its weights."""
    task = load_task(canonical_json(record.config["task"]))
    written = record.config["model"]
    written = {**written, "path": {"name": "explicit"}} if "path" in written else written
    model = build(written, task.source_size, task.target_size, seed=None).eval()
    load_weights(model, results.weights(record.id), stamp_for(record))
    return model


def changed(trial: Trained, folder: Path, change: Callable[[Any], None]) -> Results:
    """A copy of a trial whose weights were changed."""
    results, record = trial
    model, copy = model_of(record, results), Results(folder)
    with torch.no_grad():
        change(model)
    copy.write(record)
    save_weights(model, copy.weights(record.id), stamp_for(record))
    return copy


@pytest.mark.parametrize("name", TRIALS)
def test_every_task_is_answered_with_a_probability_and_what_was_attended_to(
    name: str, trial: Callable[[str], Trained], say: Say
) -> None:
    (results, record), text = trial(name), TRIALS[name][2]
    reply = answer(record, results, text)
    assert 0 < reply.probability <= 1
    assert reply.weights is not None
    assert len(reply.weights) == len(reply.written) == len(reply.looked_at())
    _, out, _ = say("try", "aaaa", text, "--results", str(results.root))
    whole = reply.text.replace("\n", "⏎")
    assert out.startswith(f"{text} → {whole}    probability {reply.probability:.2g}")
    for (token, symbol, weight), row in zip(reply.looked_at(), reply.weights, strict=True):
        assert len(row) == len(reply.read)
        assert 0 < sum(row) < 1 + 1e-4  # what was written is attended to as well
        assert weight == max(row)
        assert symbol in reply.read
        assert f"{token} ← {symbol} ({weight:.2g})" in out


@pytest.mark.parametrize("name", READ_OFF)
def test_an_answer_of_one_label_has_the_probability_that_its_position_gives_it(
    name: str, trial: Callable[[str], Trained]
) -> None:
    results, record = trial(name)
    task = load_task(canonical_json(record.config["task"]))
    question, reply = task.ask(TRIALS[name][2]), answer(record, results, TRIALS[name][2])
    model = model_of(record, results)
    with torch.inference_mode():  # and not where the trial may still have to be trained
        if name == "listops":
            batch = Batch(torch.zeros(1), source=question.source)
            logits = model(batch)[0]
        else:
            batch = Batch(question.prompt, inputs=question.prompt)
            logits = model(batch)[0, -1]
    by_label = {task.to_text([label]): float(p) for label, p in enumerate(logits.softmax(dim=-1))}
    first, second = sorted(by_label, key=lambda label: -by_label[label])[:2]
    assert reply.written == [reply.text] == [first]
    assert reply.probability == pytest.approx(by_label[first], rel=1e-3)
    assert reply.runner_up == (second, pytest.approx(by_label[second], rel=1e-3))


def test_a_class_shows_the_attention_that_its_head_reads(
    trial: Callable[[str], Trained],
) -> None:
    (results, record), text = trial("listops"), TRIALS["listops"][2]
    source = load_task(canonical_json(record.config["task"])).ask(text).source
    seen = attention(model_of(record, results), Batch(torch.zeros(1), source=source))
    mean_S = seen["encoder.blocks.1.mixer"][0].mean(dim=(0, 1))
    assert answer(record, results, text).weights == [pytest.approx(mean_S.tolist(), rel=1e-3)]


def test_an_answer_ends_where_the_model_ends_it_or_where_no_room_is_left(
    trial: Callable[[str], Trained], tmp_path: Path
) -> None:
    """A string past the training length has room for its own length and one more."""
    for bias, length in ((-100.0, 9), (100.0, 0)):

        def prefer(model: Any, bias: float = bias) -> None:
            model.head.project.bias[EOS] = bias

        results = changed(trial("copy"), tmp_path / str(length), prefer)
        reply = answer(trial("copy")[1], results, "3 1 4 1 5 9 2 6")
        assert len(reply.text.split()) == length
        assert reply.written == (reply.text.split() or ["end"])


def test_a_model_without_attention_looks_at_nothing(tmp_path: Path, say: Say) -> None:
    blind = {"name": "recurrent", "d_model": 16, "score": "none"}
    results, _ = trained(tmp_path, STRINGS, blind)
    code, out, _ = say("try", "aaaa", "3 1", "--results", str(results.root))
    assert (code, "←" in out) == (0, False)


REFUSED = [
    ("g2p", "naïve", "write it with a–z"),
    ("g2p", "", "is empty"),
    ("g2p", "a" * LONGEST, f"write {LONGEST} at most"),
    ("copy", "", "the input is empty: write it like "),
    ("copy", " 3" * 13, "too long for this model: learned positions end at max_len=12"),
    ("recall", " ", "the input is empty: write it like "),
    ("pair", "3", "'3' is not in the vocabulary: write it like "),
    ("listops", "[SUM 1 2 ]", "'[SUM' is not in the vocabulary: write it like [M"),
    ("text", "a" * 24, "write from 1 to 23"),
    ("translation", "", "write from 1 to "),
]


def test_what_cannot_be_asked_is_one_line(
    trial: Callable[[str], Trained], refusal: Callable[..., str]
) -> None:
    """Fault 31, for a word with letters never seen."""
    for name, text, why in REFUSED:
        assert why in refusal(trial(name)[0], text), (name, text[:20])


def test_a_model_of_no_numbers_says_why_it_answers_nothing(
    trial: Callable[[str], Trained], tmp_path: Path, refusal: Callable[..., str]
) -> None:
    def spoil(model: Any) -> None:
        model.head.project.weight.fill_(math.nan)

    results, record = changed(trial("copy"), tmp_path, spoil), trial("copy")[1]
    for status, reason, says in (
        ("stuck", "validation loss nan", "is stuck (validation loss nan): it answers only NaN"),
        ("diverged", "loss inf", "diverged (loss inf): it answers nothing"),
    ):
        results.write(replace(record, status=status, reason=reason))
        assert says in refusal(results, "3 1")


def test_data_that_has_changed_since_is_refused(
    tmp_path: Path, refusal: Callable[..., str]
) -> None:
    """Its symbols may stand for others now, though the weights still fit."""
    file = tmp_path / "own.txt"
    file.write_text("abab\n" * 40, encoding="utf-8")
    results, record = trained(tmp_path, {"name": "text", "file": str(file), "length": 8}, DECODER)
    assert answer(record, results, "ab").read == ["a", "b"]
    file.write_text("xyxy\n" * 40, encoding="utf-8")
    load_task.cache_clear()
    assert "the data has changed since trial aaaaaaaaaaaa" in refusal(results, "xy")
