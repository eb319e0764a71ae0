"""Every component of every registry keeps every contract, alone, combined, compiled and packed."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import cycle, product
from random import Random
from typing import Any

import pytest
import torch
from contract_checks import (
    OF_DECODERS,
    Check,
    checks,
    gives_finite_logits,
    ignores_padding,
    never_looks_ahead,
    steps_as_it_runs,
    survives_storage,
    treats_each_sequence_alone,
)
from contract_subjects import KINDS, TINY, Subject, answers, around, combined, every_subject, sample
from task_subjects import failures
from torch import Tensor, nn
from torch._dynamo.utils import counters

from ablations.train.config import TrainConfig
from ablations.train.loop import update
from ablations.train.pack import Pack
from model.attention import MASK, PATH, SCALE, SIMILARITY, Path
from model.batch import IGNORE, Batch
from model.build import build
from model.config import MODEL, ConfigError
from model.feedforward import FEEDFORWARD
from model.mixers import MIXER
from model.mixers.attention import Heads
from model.positions import POSITION
from model.residual import NORM, RESIDUAL


@pytest.mark.parametrize("subject", every_subject(), ids=str)
def test_every_component_keeps_every_contract(subject: Subject) -> None:
    assert not failures(checks(subject), subject)


def test_multiplying_a_score_by_zero_does_not_hide_it() -> None:
    """e⁰ = 1: the future keeps a weight, and every contract about it shows that."""
    assert [s.name for s in every_subject() if not s.hides] == ["mask-zero"]
    subject = around(MASK, "zero")
    assert not set(OF_DECODERS) & set(checks(subject))
    words = "changed an|give another answer|goes on from another"
    for check in OF_DECODERS:
        with pytest.raises(AssertionError, match=words):
            check(subject)


Row = dict[str, str]
OTHERS = {
    "kind": sorted(KINDS),
    **{f.word: sorted(f.components) for f in (NORM, RESIDUAL, FEEDFORWARD, SCALE, SIMILARITY)},
}


def rows() -> list[Row]:
    """Those of a third of the pairs, which hold every component three times or more, come first."""
    decks = {axis: cycle(Random(axis).sample(names, len(names))) for axis, names in OTHERS.items()}
    pairs = list(
        product(enumerate(sorted(POSITION.components)), enumerate(sorted(MIXER.components)))
    )
    pairs.sort(key=lambda pair: (pair[0][0] - pair[1][0]) % 3)
    return [
        {"position": position, "mixer": mixer, **{axis: next(deck) for axis, deck in decks.items()}}
        for (_, position), (_, mixer) in pairs
    ]


ROWS = rows()
EMPTY = {"mixer": "none", "feedforward": "none", "residual": "parallel"}
CORNERS: list[Row] = [  # more than two components that leave a parameter idle between them
    {**ROWS[0], "norm": "layer", "kind": kind, **chosen}
    for kind in sorted(KINDS)
    for chosen in (EMPTY, {"position": "t5", "mixer": "none"}, {"position": "shaw", "mixer": "gru"})
]
COMBINED: tuple[Check, ...] = (
    gives_finite_logits,
    ignores_padding,
    treats_each_sequence_alone,
    survives_storage,
)
FIRST = len(ROWS) // 3  # tried at every commit; the others in the soak tests
TRIED = [
    *ROWS[:FIRST],
    *CORNERS,
    *(pytest.param(row, marks=pytest.mark.soak) for row in ROWS[FIRST:]),
]
COMBINED_DECODERS: tuple[Check, ...] = (never_looks_ahead, steps_as_it_runs)


def idle(row: Row, parameter: str) -> bool:
    """The parameters that nothing can reach, by rule: there are no others."""
    if "position.table" in parameter and row["position"] in ("t5", "shaw"):
        return not issubclass(
            MIXER.component(row["mixer"]), Heads
        )  # a bias for scores, and a mixer without them
    if "residual.norms" in parameter and row["residual"] == "parallel":
        nothing_own = row["mixer"] == row["feedforward"] == "none"
        return nothing_own and not ("decoder." in parameter and row["kind"] == "encoder_decoder")
    return False


# No combination of these is refused: a ConfigError here is a failure.
@pytest.mark.parametrize("row", TRIED, ids=lambda row: "-".join(row.values()))
def test_components_keep_the_contracts_in_combination(row: Row) -> None:
    subject = combined(row)
    assert not failures(COMBINED + (COMBINED_DECODERS if subject.decodes else ()), subject)
    model = subject.fresh()
    squares = [answer.square().sum() for answer in answers(model, sample(subject))]
    torch.stack(squares).sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == idle(row, name), (
            f"whether a gradient reaches {name}: if the components beside it leave it no work, say "
            "so in idle() of tests/contracts/test_every_component.py"
        )
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


def test_only_a_mask_that_hides_nothing_is_refused_and_only_where_it_cannot_be() -> None:
    refused = set()
    for path, mask, mixer in product(PATH.components, MASK.components, MIXER.components):
        written = {"name": "transformer", **TINY, "path": path, "mask": mask, "mixer": mixer}
        try:
            build(written, None, 9, seed=None)
        except ConfigError:
            refused.add((path, mask, mixer))
    fused = {("fused", "zero", mixer) for mixer in MIXER.components}
    assert refused == fused | {(path, "zero", "window") for path in PATH.components}


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


CPU = torch.device("cpu")
STILL = {"name": "sgd", "lr": 1e-30}  # so that gradients can be compared after a step
SHAPES = [((6, 3, 5), (5, 7, 4)), ((4, 4), (6, 6)), ((2,), (3,))]


def labelled(subject: Subject, model: nn.Module, seed: int) -> Batch:
    """A batch whose labels stand where the model's answers do."""
    lengths, source_lengths = SHAPES[seed]
    batch = sample(subject, lengths, source_lengths, seed)
    with torch.no_grad():
        shape = model(batch).shape
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, shape[-1], shape[:-1], generator=generator)
    real = batch.source_lengths if batch.inputs is None else batch.lengths
    if len(shape) == 3 and real is not None:
        labels = labels.masked_fill(torch.arange(shape[1]) >= real[:, None], IGNORE)
    return replace(batch, labels=labels)


QUICK = {  # the rest in the soak tests
    "model-transformer-encoder_decoder", "model-recurrent-encoder_decoder",
    "model-recurrent-decoder", "mixer-convolution", "mixer-mingru", "mixer-window", "mixer-lstm",
    "position-rotary", "position-shaw", "position-t5", "feedforward-swiglu", "head-classes",
}  # fmt: skip


SUBJECTS_PACKED = [
    pytest.param(subject, marks=[] if subject.name in QUICK else pytest.mark.soak, id=subject.name)
    for subject in every_subject()
]


@pytest.mark.parametrize("subject", SUBJECTS_PACKED)
def test_a_component_learns_the_same_in_a_pack_as_alone(subject: Subject) -> None:
    config = TrainConfig(optimizer=STILL, clip=None)
    written = {name: 0.0 if name.endswith("dropout") else value
               for name, value in subject.written.items()}  # fmt: skip
    models = [copy.deepcopy(subject.moved(written, seed)) for seed in range(len(SHAPES))]
    batches = [labelled(subject, model, seed) for seed, model in enumerate(models)]
    pack = Pack(models, None, config, range(len(SHAPES)), CPU)  # type: ignore[arg-type]
    pack.step = 1
    norm_P = pack.learn([[batch] for batch in batches])
    stacked = {name: p.grad for name, p in pack.model.named_parameters()}
    for index, (model, batch) in enumerate(zip(models, batches, strict=True)):
        still = torch.optim.SGD(model.parameters(), lr=0.0)
        loss, norm = update(model, [batch], batch.tokens, still, config)
        torch.testing.assert_close(pack.replicas[index].recent[0], loss)
        torch.testing.assert_close(norm_P[index], norm)
        for name, parameter in model.named_parameters():
            together, alone = stacked[name], parameter.grad
            assert (together is None) == (alone is None), name
            if together is not None:
                torch.testing.assert_close(together[index], alone, rtol=1e-9, atol=1e-9, msg=name)
