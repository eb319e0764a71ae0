"""What shows the future, or reads both ways, answers as its own forward pass does.

There a token that is added changes what was said of those before it: nothing can be kept.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from given_weights import randomised

from model.attention import MASK
from model.batch import BOS, EOS, Batch
from model.build import build
from model.generate import Answer, Question, beam, greedy, sample
from model.mixer import MIXER
from model.positions import POSITION

SOURCE_SIZE, TARGET_SIZE, MAX_NEW = 8, 9, 5
PROMPT = Question(
    prompt=torch.tensor([[3, 7, 4, 5], [6, 3, 0, 0], [5, 4, 3, 0]]),
    prompt_lengths=torch.tensor([4, 2, 3]),
)
SOURCE = Question(torch.tensor([[3, 7, 4, 5], [6, 3, 0, 0], [5, 4, 3, 0]]), torch.tensor([4, 2, 3]))
BOTH = Question(SOURCE.source, SOURCE.source_lengths, PROMPT.prompt, PROMPT.prompt_lengths)
MASKS = {
    f"mask {name}, causal {causal}": {"path": "explicit", "mask": name, "causal_decoder": causal}
    for name in MASK.parts
    for causal in (True, False)
}
OPEN = {
    f"open {mixer} with {position}": {
        "mixer": mixer, "position": position, "causal_decoder": False,
    }
    for mixer, position in zip(sorted(MIXER.parts), sorted(POSITION.parts), strict=True)
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {**MASKS, **OPEN}


def made(kind: str, changes: dict[str, Any]) -> Any:
    """Random weights under which every token is about as likely, so that answers end anywhere."""
    written = {"name": "transformer", "kind": kind, "d_model": 8, "n_heads": 2, "max_len": 32}
    model: Any = randomised(build({**written, **changes}, SOURCE_SIZE, TARGET_SIZE, None), std=0.8)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(1, TARGET_SIZE, (50, 7), generator=generator)
    source = torch.randint(3, SOURCE_SIZE, (50, 4), generator=generator)
    with torch.no_grad():
        model.head.project.bias -= model(Batch(inputs, inputs, source=source)).mean(dim=(0, 1))
    return model


def alone(question: Question, row: int) -> tuple[list[int], list[int] | None]:
    """One prompt and one source, without padding."""
    prompt, lengths = question.prompts()
    source = None
    if question.source is not None and question.source_lengths is not None:
        source = question.source[row, : question.source_lengths[row]].tolist()
    return prompt[row, : lengths[row]].tolist(), source


@torch.no_grad()
def next_log_probabilities(model: Any, tokens: list[int], source: list[int] | None) -> Any:
    """What the whole model says after these tokens, run as it is trained."""
    inputs = torch.tensor([tokens])
    read = None if source is None else torch.tensor([source])
    return model(Batch(inputs, inputs, source=read))[0, -1].log_softmax(-1)


def slow_greedy(model: Any, prompt: list[int], source: list[int] | None) -> Answer:
    answer = Answer([])
    while len(answer.tokens) < MAX_NEW:
        log_p = next_log_probabilities(model, [*prompt, *answer.tokens], source)
        token = int(log_p.argmax())
        answer.log_probability += float(log_p[token])
        if token == EOS:
            break
        answer.tokens.append(token)
    return answer


def worth(model: Any, prompt: list[int], source: list[int] | None, answer: Answer) -> float:
    said = [*answer.tokens, EOS][:MAX_NEW]
    return sum(
        float(next_log_probabilities(model, [*prompt, *said[:at]], source)[token])
        for at, token in enumerate(said)
    )


ASKED = [("decoder", PROMPT), ("encoder_decoder", SOURCE), ("encoder_decoder", BOTH)]


@pytest.mark.parametrize("name", CASES)
def test_greedy_says_what_the_forward_pass_over_the_growing_prefix_says(name: str) -> None:
    for kind, question in ASKED:
        model = made(kind, CASES[name])
        for row, answer in enumerate(greedy(model, question, MAX_NEW)):
            by_hand = slow_greedy(model, *alone(question, row))
            assert answer.tokens == by_hand.tokens
            assert answer.log_probability == pytest.approx(by_hand.log_probability)


@pytest.mark.parametrize("name", CASES)
def test_samples_and_beams_are_as_probable_as_the_forward_pass_says(name: str) -> None:
    for kind, question in ASKED:
        model = made(kind, CASES[name])
        drawn = sample(model, question, MAX_NEW, seed=1)
        found = beam(model, question, MAX_NEW, width=2)
        for row, (one, others) in enumerate(zip(drawn, found, strict=True)):
            for answer in (one, *others):
                truth = worth(model, *alone(question, row), answer)
                assert answer.log_probability == pytest.approx(truth)


def test_a_model_that_hides_the_future_keeps_its_states_and_no_other_does() -> None:
    kept = {name: made("decoder", changes).goes_on for name, changes in CASES.items()}
    assert [name for name, goes_on in kept.items() if goes_on] == ["mask infinity, causal True"]


def test_the_cases_are_ones_in_which_a_causal_cache_would_err() -> None:
    """Else the tests above would prove nothing."""
    for name in ("mask zero, causal True", "open attention with alibi"):
        model = made("decoder", CASES[name])
        inputs = torch.tensor([[BOS, 3, 4, 5, 6]])
        whole, part = model(Batch(inputs, inputs)), model(Batch(inputs[:, :4], inputs[:, :4]))
        assert (whole[:, :4] - part).abs().max() > 1e-3
