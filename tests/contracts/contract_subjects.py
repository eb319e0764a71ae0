"""What the contracts are held against: a tiny model around each component."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

import torch
from torch import Tensor, nn

from model.batch import PAD, Batch
from model.build import REGISTRIES, build, resolve
from model.config import MODEL, ConfigError, NoOptions, Registry
from model.init import INIT
from model.positions import POSITION

SOURCE_SIZE, TARGET_SIZE = 11, 9
TINY = {
    "d_model": 8, "n_heads": 2, "depth": 2, "max_len": 64,
    "dropout": 0.5, "attention_dropout": 0.5, "feedforward_dropout": 0.5,
}  # fmt: skip
OTHER_SIZES = {"d_model": 12, "n_heads": 3, "depth": 1, "max_len": 48}
KINDS = {  # whether a model of this kind reads a source, and whether it writes step by step
    "encoder_decoder": (True, True),
    "decoder": (False, True),
    "encoder": (True, False),
}


@dataclass(frozen=True)
class Recipe:
    """What it takes to try a component, where the tiny encoder-decoder does not serve."""

    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the model around it
    options: Mapping[str, Any] = field(default_factory=dict)  # of the component itself
    kind: str = "encoder_decoder"
    hides: bool = True  # whether what must not be seen is hidden; else it is there for a claim


RECIPES = {
    ("mixer", "window"): Recipe(options={"reach": 2}),
    ("mask", "zero"): Recipe(model={"path": "explicit"}, hides=False),
    ("head", "bare"): Recipe(kind="encoder"),
    ("head", "classes"): Recipe(kind="encoder"),
}


def recipe(registry: Registry, name: str) -> Recipe:
    return RECIPES.get((registry.word, name), Recipe())


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to be examined, and the models it is compared with."""

    name: str
    written: dict[str, Any]
    kind: str
    hides: bool
    others: tuple[dict[str, Any], ...]  # other options, other sizes
    pairs: tuple[dict[str, Any], ...]  # differ from it in one component

    @property
    def reads_source(self) -> bool:
        return KINDS[self.kind][0]

    @property
    def decodes(self) -> bool:
        return KINDS[self.kind][1]

    @property
    def head(self) -> str:
        """What its answers are."""
        return self.written.get("head", {"name": "tokens"})["name"]

    def __str__(self) -> str:
        return self.name

    def built(self, seed: int | None) -> nn.Module:
        """The model, built anew."""
        return build(self.written, *self.sizes, seed)

    def fresh(self, written: dict[str, Any] | None = None) -> nn.Module:
        """The model with its first values; building is slow, so all tests share it."""
        return _fresh(json.dumps(written or self.written), self.sizes)

    def moved(self, written: dict[str, Any] | None = None, seed: int = 0) -> nn.Module:
        """In double precision, every parameter moved: what starts at zero shows its work."""
        return _moved(json.dumps(written or self.written), self.sizes, seed)

    @property
    def sizes(self) -> tuple[int | None, int]:
        if not self.reads_source:
            return None, TARGET_SIZE
        return (TARGET_SIZE if self.written.get("tied") == "all" else SOURCE_SIZE), TARGET_SIZE


@functools.cache
def _fresh(written: str, sizes: tuple[int | None, int], seed: int = 0) -> nn.Module:
    return build(json.loads(written), *sizes, seed).eval()


@functools.cache
def _moved(written: str, sizes: tuple[int | None, int], seed: int) -> nn.Module:
    model = copy.deepcopy(_fresh(written, sizes, seed)).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(noise, alpha=0.3)
    return model


def around(registry: Registry, name: str, kind: str | None = None, **changes: Any) -> Subject:
    """The subject that has this component in its place and is tiny otherwise."""
    needs = recipe(registry, name)
    choice = {"name": name, **needs.options}
    words = [f"{key}:{_short(value)}" for key, value in changes.items()]
    title = "-".join(word for word in (registry.word, name, kind, *words) if word)
    kind = kind or needs.kind

    def tiny(choice: Mapping[str, Any], **sizes: Any) -> dict[str, Any]:
        placed = _placed(registry, choice)
        known = {f.name for f in fields(MODEL.component(placed["name"]).Config)}
        sizes = {**TINY, "kind": kind, **needs.model, **changes, **sizes}
        return {key: value for key, value in sizes.items() if key in known} | placed

    written = tiny(choice)
    resolve(written)  # a ConfigError: say in RECIPES what it needs
    places = fields(MODEL.component(written["name"]).Config)
    has_positions = any(place.metadata.get("registry") is POSITION for place in places)
    is_free = has_positions and registry is not POSITION
    pairs = []
    if registry not in (MODEL, INIT):
        pairs.append(tiny(_default(registry)))
    if registry is not INIT:  # only a rule of initialisation may look at the depth
        pairs.append(tiny(choice, depth=1))
    if is_free:
        pairs.append({**written, "position": "learned"})
    return Subject(
        name=title,
        written=written,
        kind=kind,
        hides=needs.hides,
        others=(tiny(choice, **OTHER_SIZES), tiny(_altered(registry, choice))),
        pairs=tuple(pairs),
    )


def _short(value: Any) -> str:
    return ".".join(str(word) for word in (value.values() if isinstance(value, dict) else [value]))


def _placed(registry: Registry, choice: Mapping[str, Any]) -> dict[str, Any]:
    """The model's choice that holds this one: in the first place that a Config has for it."""
    if registry is MODEL:
        return dict(choice)
    host, name, place = _home(registry)
    return _placed(host, {"name": name, place: dict(choice)})


def _default(registry: Registry) -> dict[str, Any]:
    """What stands there if nobody chooses."""
    host, name, place = _home(registry)
    return getattr(host.component(name).Config(), place)


def _home(registry: Registry) -> tuple[Registry, str, str]:
    for host in REGISTRIES:
        for name, component in host.components.items():
            for place in fields(getattr(component, "Config", NoOptions)):
                if place.metadata.get("registry") is registry:
                    return host, name, place.name
    raise LookupError(f"no Config has a place for a {registry.word}: a field with choice(…)")


def _altered(registry: Registry, choice: Mapping[str, Any]) -> dict[str, Any]:
    """The choice with each number doubled and each switch turned, as far as it allows that."""
    changed = {"name": choice["name"]} if registry is MODEL else registry.resolve(choice)
    for option, value in list(changed.items()):
        if isinstance(value, bool | int | float):
            other = not value if isinstance(value, bool) else value * 2
            with contextlib.suppress(ConfigError):
                changed = registry.resolve({**changed, option: other})
    return changed


def every_subject() -> list[Subject]:
    """One for each component; a model comes in each of its kinds."""
    subjects = []
    for registry in REGISTRIES:
        for name, component in sorted(registry.components.items()):
            kinds = (
                get_args(get_type_hints(component.Config).get("kind")) if registry is MODEL else ()
            )
            subjects += [around(registry, name, kind) for kind in kinds or [None]]
    return [*subjects, *variants()]


def combined(row: Mapping[str, str]) -> Subject:
    """A transformer of this kind with these components."""
    chosen = [(registry, row[registry.word]) for registry in REGISTRIES if registry.word in row]
    choices = {each.word: {"name": name, **recipe(each, name).options} for each, name in chosen}
    return around(MODEL, "transformer", row["kind"], **choices)


def variants() -> Iterator[Subject]:
    """Whole models that no single component shows: tied tables, and every way to pool."""
    yield around(MODEL, "transformer", tied="output")
    yield around(MODEL, "transformer", tied="all")
    yield around(MODEL, "recurrent", tied=True)
    for pool in ("last", "mean"):
        yield around(MODEL, "transformer", "encoder", head={"name": "classes", "pool": pool})


# What subjects read, and how their answers are taken.

LENGTHS = (6, 3, 5)
SOURCE_LENGTHS = (5, 7, 4)


def draw(size: int, lengths: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random words of these lengths, padded to the longest."""
    tokens = torch.randint(3, size, (len(lengths), max(lengths)), generator=generator)
    real = torch.tensor(lengths)
    return tokens.masked_fill(torch.arange(max(lengths)) >= real[:, None], PAD), real


def sample(
    subject: Subject,
    lengths: tuple[int, ...] = LENGTHS,
    source_lengths: tuple[int, ...] = SOURCE_LENGTHS,
    seed: int = 0,
) -> Batch:
    """A batch with padding on every side that the subject reads."""
    generator = torch.Generator().manual_seed(seed)
    source, source_real = draw(subject.sizes[0] or SOURCE_SIZE, source_lengths, generator)
    inputs, real = draw(TARGET_SIZE, lengths, generator)
    batch = Batch(labels=inputs)
    if subject.decodes:
        batch = replace(batch, inputs=inputs, lengths=real)
    if subject.reads_source:
        batch = replace(batch, source=source, source_lengths=source_real)
    return batch


def enlarged(batch: Batch, extra: int, seed: int) -> Batch:
    """The same sequences with `extra` columns of padding more, all padding filled with noise."""
    generator = torch.Generator().manual_seed(seed)

    def fill(tokens: Tensor | None, lengths: Tensor | None) -> Tensor | None:
        if tokens is None or lengths is None:
            return tokens
        shape = (len(tokens), tokens.shape[1] + extra)
        noise = torch.randint(0, TARGET_SIZE, shape, generator=generator)
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        noise[:, : tokens.shape[1]][real] = tokens[real]
        return noise

    return replace(
        batch,
        inputs=fill(batch.inputs, batch.lengths),
        source=fill(batch.source, batch.source_lengths),
    )


def single(batch: Batch, row: int) -> Batch:
    """One sequence by itself, without padding."""

    def cut(tokens: Tensor | None, lengths: Tensor | None) -> Tensor | None:
        if tokens is None:
            return None
        return tokens[row : row + 1, : None if lengths is None else int(lengths[row])]

    return Batch(
        labels=batch.labels[row : row + 1],
        inputs=cut(batch.inputs, batch.lengths),
        source=cut(batch.source, batch.source_lengths),
    )


def run(model: nn.Module, batch: Batch) -> Tensor:
    """The logits as they come."""
    with torch.no_grad():
        return model(batch)


def answers(model: nn.Module, batch: Batch) -> list[Tensor]:
    """The logits of each sequence where it is real."""
    logits = model(batch)
    lengths = batch.source_lengths if batch.inputs is None else batch.lengths
    if logits.dim() == 2 or lengths is None:
        return list(logits)
    return [row[:length] for row, length in zip(logits, lengths.tolist(), strict=True)]
