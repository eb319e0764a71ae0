"""The contracts: what holds for every model, whatever components it is made of.

Each takes a subject and fails with an AssertionError that says in words what does not hold.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from contract_subjects import TARGET_SIZE, Subject, answers, enlarged, run, sample, single
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from model.init import logical_parameters


def assert_same(actual: Any, expected: Any, sentence: str, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(
        actual, expected, rtol=tolerance, atol=tolerance, msg=lambda detail: f"{sentence}\n{detail}"
    )


def gives_finite_logits(subject: Subject) -> None:
    batch = sample(subject)
    logits = run(subject.fresh(), batch)
    inputs = batch.inputs if subject.decodes else batch.source
    expected = {
        "tokens": (*inputs.shape, TARGET_SIZE),
        "classes": (len(inputs), TARGET_SIZE),
        "bare": (*inputs.shape, subject.written["d_model"]),
    }[subject.head]
    assert tuple(logits.shape) == expected, f"logits of the wrong shape: {tuple(logits.shape)}"
    assert logits.isfinite().all(), "logits are not finite"


def gives_every_parameter_a_gradient(subject: Subject) -> None:
    """Zero will do: what starts closed starts learning later."""
    model = subject.fresh()
    torch.stack(
        [answer.square().sum() for answer in answers(model, sample(subject))]
    ).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"no gradient reaches {name}"
        assert parameter.grad.isfinite().all(), f"the gradient of {name} is not finite"


def never_looks_ahead(subject: Subject) -> None:
    model, batch = subject.moved(), replace(sample(subject), lengths=None)
    before = run(model, batch)
    for cut in range(1, batch.inputs.shape[1]):
        changed = batch.inputs.clone()
        changed[:, cut:] = (changed[:, cut:] + 1) % TARGET_SIZE
        after = run(model, replace(batch, inputs=changed))
        assert_same(after[:, :cut], before[:, :cut], "a later token changed an earlier answer")


def ignores_padding(subject: Subject) -> None:
    model, batch = subject.moved(), sample(subject)
    before = answers(model, batch)
    for extra in (0, 1, 4):
        after = answers(model, enlarged(batch, extra, seed=extra))
        assert_same(after, before, f"padding changed an answer ({extra} columns more)")


def treats_each_sequence_alone(subject: Subject) -> None:
    """Every subject has dropout, which is asleep: two evaluations would differ."""
    model, batch = subject.moved(), sample(subject)
    together = answers(model, batch)
    for row, answer in enumerate(together):
        alone = run(model, single(batch, row))[0]
        assert_same(alone, answer, "a sequence's answer depends on its batch")


def survives_storage(subject: Subject) -> None:
    batch = sample(subject)
    stored, loaded = subject.moved(), subject.built(seed=1).double().eval()
    plain = copy.deepcopy(loaded)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        safetensors.torch.save_model(stored, str(path))
        held = sum(tensor.numel() for tensor in safetensors.torch.load_file(path).values())
        safetensors.torch.load_model(loaded, path)
    plain.load_state_dict(stored.state_dict())
    size = sum(tensor.numel() for tensor in (*stored.parameters(), *stored.buffers()))
    assert held <= size, f"{held} numbers stored, {size} in the model: a shared weight stored twice"
    for model in (loaded, plain):
        assert_same(
            run(model, batch), run(stored, batch), "a stored model answers differently", 0.0
        )


def starts_from_the_seed_alone(subject: Subject) -> None:
    batch, models = sample(subject), [subject.fresh()]
    for elsewhere in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(elsewhere)
            models.append(subject.built(seed=5).eval())
    others, values, again = (_values(model) for model in models)
    assert_same(again, values, "a first value does not come from the seed", 0.0)
    drawn = {name for name, _, role in logical_parameters(models[0]) if not isinstance(role, float)}
    for name in drawn:
        assert not torch.equal(values[name], others[name]), f"{name} ignores the seed"
    same = run(models[1], batch)
    assert_same(run(models[2], batch), same, "one seed gives two models", 0.0)


def shares_its_first_values(subject: Subject) -> None:
    values = _values(subject.fresh())
    for pair in subject.pairs:
        others = _values(subject.fresh(pair))
        shared = [
            name for name in values if name in others and values[name].shape == others[name].shape
        ]
        assert shared, "two variants share no weight at all"
        for name in shared:
            assert_same(others[name], values[name], f"two variants start apart in {name}", 0.0)


def keeps_to_itself(subject: Subject) -> None:
    """Neither instance moves the other: not the one that ran first, not the one that ran last."""
    batch = sample(subject)
    model = subject.moved()
    before = answers(model, batch)
    for index, written in enumerate(subject.others):
        other = subject.moved(written)
        run(other, batch)
        assert_same(answers(model, batch), before, "another instance changed this one")
        # A size that no other test uses: here the other instance is the first to run.
        unusual = enlarged(batch, extra=17 + index, seed=0)
        run(other, unusual)
        assert_same(answers(model, unusual), before, "an earlier instance changed this one")


def steps_as_it_runs(subject: Subject) -> None:
    model, batch = subject.moved(), sample(subject)
    whole = run(model, batch)
    length = batch.inputs.shape[1]
    for chunks in ([1] * length, [2, 1, length - 3], [length]):
        logits = torch.cat(list(_steps(model, batch, chunks)), dim=1)
        assert_same(logits, whole, f"steps of {chunks} give another answer than one pass")


def steps_on_with_chosen_sequences(subject: Subject) -> None:
    model, batch = subject.moved(), sample(subject)
    rows = torch.tensor([2, 0, 2])  # one dropped, one doubled
    decoding = _begin(model, batch)
    _, decoding = model.step(batch.inputs[:, :2], decoding)
    logits, _ = model.step(batch.inputs[rows, 2:], decoding.select(rows))
    whole = run(model, batch)[rows, 2:]
    assert_same(logits, whole, "a chosen sequence goes on from another's state")


def stays_in_double_precision(subject: Subject) -> None:
    model = subject.moved()
    with _OnlyDouble():
        logits = model(sample(subject))
        logits.sum().backward()
    assert logits.dtype == torch.float64


class _OnlyDouble(TorchDispatchMode):
    """Fails at the first number that is kept in less than double precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                assert tensor.dtype == torch.float64, f"{func} leaves double precision"
        return result


def _values(model: nn.Module) -> dict[str, Tensor]:
    logical = list(logical_parameters(model))
    values = {name: view for name, view, _ in logical}
    assert len(values) == len(logical), "two parameters have one logical name"
    return values | dict(model.named_buffers())


def _begin(model: Any, batch: Any) -> Any:
    return model.begin(*batch.inputs.shape, batch.source, batch.source_lengths)


def _steps(model: Any, batch: Any, chunks: Iterable[int]) -> Iterable[Tensor]:
    decoding = _begin(model, batch)
    for tokens in batch.inputs.split(list(chunks), dim=1):
        with torch.no_grad():
            logits, decoding = model.step(tokens, decoding)
        yield logits


Check = Callable[[Subject], None]
OF_ALL: tuple[Check, ...] = (
    gives_finite_logits,
    gives_every_parameter_a_gradient,
    ignores_padding,
    treats_each_sequence_alone,
    survives_storage,
    starts_from_the_seed_alone,
    shares_its_first_values,
    keeps_to_itself,
    stays_in_double_precision,
)
OF_DECODERS: tuple[Check, ...] = (
    never_looks_ahead,
    steps_as_it_runs,
    steps_on_with_chosen_sequences,
)


def checks(subject: Subject) -> tuple[Check, ...]:
    """The contracts that mean something for this subject; what shows the future keeps no state."""
    return OF_ALL + (OF_DECODERS if subject.decodes and subject.hides else ())
