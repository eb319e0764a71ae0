"""A compiled model is the model: the same logits and the same gradients, part by part.

The backend is `aot_eager`: graphs are captured, made functional and split into forward and backward
as for any backend, then run by the library's own kernels, so that a case takes half a second.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from contract_samples import sample
from contract_subjects import Subject, around, recipe
from torch import Tensor, nn
from torch._dynamo.utils import counters

from model.attention import Path
from model.build import FAMILIES, resolve
from model.family import MODEL
from model.initialise import INITIAL
from model.mixer import MIXER
from model.recurrent import CELL, SCORE

# The library's own, where a graph breaks: it looks at gradients of what is no leaf.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

# Where a graph breaks, and how often; everywhere else it is whole. The compiler does not look into
# the library's recurrent layers, whatever their form.
BREAKS = {
    **{f"mixer-{name}-decoder": 3 for name in ("rnn", "gru", "lstm")},
    **{f"mixer-{name}-encoder": 4 for name in ("rnn", "gru", "lstm")},
    **{f"cell-{name}": 4 for name in CELL.parts},
    **{f"score-{name}": 4 for name in SCORE.parts},
    "model-recurrent-decoder": 5,
    "model-recurrent-encoder_decoder": 4,
}
QUICK = ("model-transformer-encoder_decoder", "mixer-window-decoder")
TWO_WAYS = ("window", "convolution", "rnn", "gru", "lstm")  # do other work where nothing is hidden


def subjects() -> Iterator[Subject]:
    """One block around each part."""
    for family in FAMILIES:
        for name in sorted(family.parts):
            if family in (CELL, SCORE):
                yield around(family, name, depth=1)
            elif family not in (INITIAL, MODEL):  # first values are not compiled
                kind = recipe(family, name).kind
                yield around(family, name, "encoder" if kind == "encoder" else "decoder", depth=1)
    for name in TWO_WAYS:
        yield around(MIXER, name, "encoder", depth=1)
    for name, kind in (("recurrent", "decoder"), ("recurrent", "encoder_decoder")):
        yield around(MODEL, name, kind, depth=1)
    yield around(MODEL, "transformer", "encoder_decoder", depth=2)


# Parts that stand there if nobody chooses make one model between them.
SUBJECTS = list({repr(resolve(subject.written)): subject for subject in subjects()}.values())


def title(subject: Subject) -> str:
    return subject.name.partition("-depth")[0]


def learned(model: nn.Module, run: Any, subject: Subject) -> tuple[Tensor, dict[str, Any]]:
    """Logits, and the gradient of every parameter."""
    model.zero_grad(set_to_none=True)
    logits = run(sample(subject))
    logits.square().sum().backward()
    return logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}


def agree(model: nn.Module, subject: Subject, **how: Any) -> int:
    """Compiled as in eager mode; how often the graph broke."""
    torch._dynamo.reset()
    counters.clear()
    eager = learned(model, model, subject)
    compiled = learned(model, torch.compile(model, backend="aot_eager", **how), subject)
    torch.testing.assert_close(compiled, eager)
    return sum(counters["graph_break"].values())


def tried(subject: Subject) -> Any:
    """Two at every commit, the rest in the soak tests."""
    is_quick = title(subject) in QUICK
    return pytest.param(subject, marks=[] if is_quick else pytest.mark.soak, id=title(subject))


@pytest.mark.parametrize("subject", [*map(tried, SUBJECTS)])
def test_compiled_logits_and_gradients_are_the_eager_ones(subject: Subject) -> None:
    breaks = BREAKS.get(title(subject), 0)
    model = copy.deepcopy(subject.moved())
    assert agree(model, subject, fullgraph=breaks == 0) == breaks, (
        f"{title(subject)}: say in BREAKS how often its graph breaks, or mend it"
    )


def test_gradients_are_right_across_a_break_too() -> None:
    """A break in the graph before the path of attention: why a window copies its keys."""
    subject = around(MIXER, "window", "decoder", depth=1)
    model = copy.deepcopy(subject.moved())
    for module in model.modules():
        if isinstance(module, Path):
            module.register_forward_pre_hook(lambda *_: torch._dynamo.graph_break())
    assert agree(model, subject) > 0


def test_a_compiled_model_refuses_a_token_that_is_not_there() -> None:
    subject = around(MODEL, "transformer", "decoder", depth=1)
    batch = sample(subject)
    torch._dynamo.reset()
    compiled = torch.compile(copy.deepcopy(subject.moved()), backend="aot_eager")
    assert batch.inputs is not None
    with pytest.raises(IndexError):
        compiled(replace(batch, inputs=batch.inputs + 1000))
