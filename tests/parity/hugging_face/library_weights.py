"""Equal weights in two libraries, by a table of names: ours on the left, theirs on the right.

A name stands for its weight and its bias, `*` for the number of a layer, and several names of
theirs for one of ours that holds them one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from model.batch import Batch
from model.build import build
from model.presets import load

Table = Mapping[str, str | tuple[str, ...]]
Weights = Mapping[str, Tensor]

SIZE = 40  # tokens of the small models
TOLERANCE = 1e-9


class StaysDouble(TorchFunctionMode):
    """Where the library goes through single precision on its way, it is kept in double."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        function = Tensor.double if function is Tensor.float else function
        arguments = [torch.float64 if value is torch.float32 else value for value in arguments]
        options = {
            key: torch.float64 if value is torch.float32 else value
            for key, value in (options or {}).items()
        }
        return function(*arguments, **options)


def trained(module: nn.Module) -> dict[str, Tensor]:
    """Each trained parameter once, by its first name."""
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


def shapes(weights: Weights) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in sorted(weights.items())}


def library(model: str, config: str, **options: Any) -> Callable[..., Any]:
    """Builds a model of theirs, by the names of its class and of its config's."""

    def build(**sizes: Any) -> Any:
        import transformers

        plain = {"use_cache": False, "attn_implementation": "eager"}
        chosen = getattr(transformers, config)(**sizes, **options, **plain)
        return getattr(transformers, model)(chosen)

    return build


@dataclass(frozen=True)
class Twin:
    """A preset of ours and the library's model that it must equal."""

    preset: str
    library: Callable[..., Any]
    """Their model, of the sizes given."""
    table: Table
    arranged: Callable[[Weights], Weights] = dict
    """Their weights, rows and columns in our order."""

    def build(self, sizes: tuple[int | None, int], changes: Mapping[str, Any]) -> nn.Module:
        """The preset with some values changed; `place.option` changes one option of a component."""
        written = dict(load(self.preset).model)
        for path, value in changes.items():
            place, _, option = path.partition(".")
            written[place] = {**written[place], option: value} if option else value
        return build(written, *sizes, seed=None)

    def pair(self, changes: Mapping[str, Any], **their_sizes: Any) -> tuple[Any, nn.Module]:
        """Theirs and ours, small, with the same weights: all random, no gain is one."""
        with StaysDouble():
            theirs = self.library(**their_sizes).double().eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in trained(theirs).values():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        has_source = load(self.preset).source_size is not None
        model = self.build((SIZE if has_source else None, SIZE), changes).double().eval()
        self.fill(model, self.translated(trained(theirs)))
        return theirs, model

    def fill(self, model: nn.Module, weights: Weights) -> None:
        assert shapes(weights) == shapes(trained(model))
        with torch.no_grad():
            for name, parameter in trained(model).items():
                parameter.copy_(weights[name])

    def translated(self, theirs: Weights) -> dict[str, Tensor]:
        """Their values under our names; each of them must find its place."""
        theirs = self.arranged(theirs)
        renamed: dict[str, Tensor] = {}
        used: set[str] = set()
        for mine, others in self._rows(theirs):
            for kind in ("weight", "bias"):
                names = [f"{other}.{kind}" for other in others]
                if names[0] in theirs:
                    renamed[f"{mine}.{kind}"] = torch.cat([theirs[name] for name in names])
                    used.update(names)
        assert used == set(theirs), f"not in the table: {sorted(set(theirs) - used)}"
        return renamed

    def _rows(self, theirs: Weights) -> Iterator[tuple[str, list[str]]]:
        for mine, written in self.table.items():
            others = [written] if isinstance(written, str) else list(written)
            for layer in count() if "*" in mine else [0]:
                names = [other.replace("*", str(layer)) for other in others]
                if not any(name.startswith(f"{names[0]}.") for name in theirs):
                    break
                yield mine.replace("*", str(layer)), names


def padded(lengths: list[int], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random tokens, padding too, with their lengths and a mask of the real ones."""
    generator = torch.Generator().manual_seed(seed)
    tokens_BT = torch.randint(0, SIZE, (len(lengths), max(lengths)), generator=generator)
    lengths_B = torch.tensor(lengths)
    return tokens_BT, lengths_B, torch.arange(max(lengths)) < lengths_B[:, None]


def assert_same_decoder(theirs: Any, model: nn.Module, lengths: list[int]) -> None:
    """The logits of a language model, padding left out."""
    tokens, lengths_B, real = padded(lengths, seed=1)
    with StaysDouble():
        expected = theirs(input_ids=tokens, attention_mask=real.long()).logits
    assert_same(model(Batch(tokens, tokens, lengths_B))[real], expected[real])


def assert_same_encoder_decoder(
    theirs: Any, model: nn.Module, source_lengths: list[int], lengths: list[int]
) -> tuple[Tensor, Tensor]:
    """The logits of the target, padding of both sides left out; ours and theirs."""
    source, source_lengths_B, source_real = padded(source_lengths, seed=1)
    inputs, lengths_B, real = padded(lengths, seed=2)
    with StaysDouble():
        expected = theirs(
            input_ids=source,
            attention_mask=source_real.long(),
            decoder_input_ids=inputs,
            decoder_attention_mask=real.long(),
        ).logits
    ours = model(Batch(inputs, inputs, lengths_B, source, source_lengths_B))
    assert_same(ours[real], expected[real])
    return ours[real], expected[real]


def assert_same_gradients(twin: Twin, theirs: nn.Module, model: nn.Module) -> None:
    """Of every weight, each number against the largest of its tensor."""
    gradients = {name: weight.grad for name, weight in trained(theirs).items()}
    for name, gradient in twin.translated(gradients).items():
        largest = gradient.abs().max()
        assert largest > 0, name
        assert_same(model.get_parameter(name).grad / largest, gradient / largest)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)
