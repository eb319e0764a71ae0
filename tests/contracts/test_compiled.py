"""A compiled model is the model: the same logits and the same gradients, part by part.

The backend is `aot_eager`: graphs are captured, made functional and split into forward and backward
as for any backend, then run by the library's own kernels, so that a case takes half a second.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from contract_subjects import Subject, around, sample
from torch import Tensor, nn
from torch._dynamo.utils import counters

from model.attention import PATH, Path
from model.config import MODEL
from model.mixers import MIXER
from model.positions import POSITION

# The library's own, where a graph breaks: it looks at gradients of what is no leaf.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

SUBJECTS = {
    "transformer": around(MODEL, "transformer", "encoder_decoder", depth=2),
    "window": around(MIXER, "window", "decoder", depth=1),
}
SOAK = {
    **{f"{name}, both ways": around(MIXER, name, "encoder", depth=1)
       for name in ("window", "convolution", "gru", "mingru")},
    **{name: around(POSITION, name, "decoder", depth=1) for name in ("rotary", "shaw", "t5")},
    **{path: around(PATH, path, "decoder", depth=1) for path in ("explicit", "row", "loop")},
    "recurrent": around(MODEL, "recurrent", "encoder_decoder", depth=1),
}  # fmt: skip
# The compiler does not look into the library's recurrent layers; everywhere else a graph is whole.
BREAKS = ("gru, both ways", "recurrent")


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


@pytest.mark.parametrize(
    "name", [*SUBJECTS, *(pytest.param(name, marks=pytest.mark.soak) for name in SOAK)]
)
def test_compiled_logits_and_gradients_are_the_eager_ones(name: str) -> None:
    subject = (SUBJECTS | SOAK)[name]
    breaks = agree(copy.deepcopy(subject.moved()), subject, fullgraph=name not in BREAKS)
    assert (breaks > 0) == (name in BREAKS)


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
