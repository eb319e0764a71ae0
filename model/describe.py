"""A model on one page: its tree, its parameters, its operations and its memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from textwrap import fill
from typing import Any

from torch import nn

from model.attention import PATH, Path
from model.build import FAMILIES, resolve
from model.count import Cost
from model.extrapolate import Sketch, sketch
from model.layers import Joint
from model.meter import signature
from model.recurrent.cell import Layer

WIDTH = 80
DEFAULT_LENGTH = 512  # for a model that has no max_len
WORDS = {"projections": "mixing projections", "feedforward": "feed-forward"}
EXPECTED = ("projections", "mixing", "feedforward", "embedding", "head")  # shown even at zero
NOTES = """\
FLOPs are matrix products and attention, a multiply and an add each; causal
attention counts as full attention. Projections are the linear layers of a
mixer, mixing is all else in it. What is kept is counted up to the logits."""

Line = tuple[str, str, str]  # a label, what it is, a number


@dataclass(frozen=True)
class Description:
    """A model in float32, and its costs for one sequence of `length` tokens on each side."""

    config: dict[str, Any]
    sketch: Sketch
    source_size: int | None
    target_size: int
    length: int

    @property
    def model(self) -> nn.Module:
        return self.sketch.model

    @property
    def cost(self) -> Cost:
        return self.sketch.cost

    @property
    def parameters(self) -> int:
        return sum(self.cost.parameters.values())

    @property
    def weight_bytes(self) -> int:
        return 4 * self.parameters

    @property
    def flops_by_kind(self) -> dict[str, float]:
        """For each token."""
        return {kind: flops / self.cost.tokens for kind, flops in self.cost.flops.items()}

    @property
    def path(self) -> str | None:
        """The ways of mixing on which it depends what is kept."""
        names = {part: name for name, part in PATH.parts.items()}
        parts = list(self.model.modules())
        found = {names.get(type(part), "own") for part in parts if isinstance(part, Path)}
        found |= {"steps" for part in parts if isinstance(part, Layer)}
        return ", ".join(sorted(found)) or None

    @property
    def differs_by_device(self) -> bool:
        return self.cost.kept_bytes != self.cost.accelerator_bytes


def describe(
    written: Any, source_size: int, target_size: int, length: int | None = None
) -> Description:
    """On the meta device: no weight is ever there. Left out, the length is max_len."""
    config = resolve(written)
    length = length or config.get("max_len", DEFAULT_LENGTH)
    made = sketch(config, source_size, target_size, length)
    reads_source = getattr(made.model, "encoder", None) is not None
    return Description(config, made, source_size if reads_source else None, target_size, length)


def as_json(description: Description) -> dict[str, Any]:
    return {
        "config": description.config,
        "source_size": description.source_size,
        "target_size": description.target_size,
        "length": description.length,
        "parameters": description.parameters,
        "by_part": description.cost.parameters,
        "weight_bytes": description.weight_bytes,
        "flops_per_token": description.cost.flops_per_token,
        "flops_by_kind": description.flops_by_kind,
        "activation_bytes": description.cost.kept_bytes,
        "accelerator_activation_bytes": description.cost.accelerator_bytes,
        "path": description.path,
        "scores_kept_by": list(description.cost.keepers),
    }


def as_text(description: Description, title: str) -> str:
    """At most 80 columns."""
    cost, length = description.cost, f"length {description.length:,}"
    token = "token of source and target" if cost.tokens > description.length else "token"
    parts = {kind: size for kind, size in cost.parameters.items() if size}
    flops = {kind: n for kind, n in description.flops_by_kind.items() if n or kind in EXPECTED}
    differs = description.differs_by_device
    memory = [
        ("weights", "float32", _bytes(description.weight_bytes)),
        ("kept for the backward pass", "on a CPU" * differs, _bytes(cost.kept_bytes)),
    ]
    if differs:
        memory.append(("", "on an accelerator", _bytes(cost.accelerator_bytes)))
    tables = [
        _table(title[:66], "parameters", list(_tree(description))),
        _table("Parameters", "", _shares(parts)),
        _table(f"Forward FLOPs for each {token} at {length}", "", _shares(flops)),
        _table(f"Memory at batch 1 and {length}", "", memory) + _path(description),
        NOTES,
    ]
    return "\n\n".join(tables)


def _path(description: Description) -> str:
    """A line below the memory it explains."""
    keepers = description.cost.keepers
    text = f"  path {description.path}"
    if keepers:
        text += "; on a CPU " if description.differs_by_device else "; "
        text += f"{' and '.join(keepers)} keep{'s' * (len(keepers) == 1)} the scores"
    return "\n" + fill(text, WIDTH, subsequent_indent="    ") if description.path else ""


def _shares(numbers: dict[str, int] | dict[str, float]) -> list[Line]:
    total = sum(numbers.values())
    rows = [
        (WORDS.get(kind, kind), f"{number / total:6.1%}" if total else "", f"{number:,.0f}")
        for kind, number in numbers.items()
    ]
    return [*rows, ("total", "", f"{total:,.0f}")]


def _bytes(number: int) -> str:
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:,.1f} {units[0]}"


def _table(title: str, over_numbers: str, rows: list[Line]) -> str:
    """Labels and what they are on the left, numbers on the right, the middle cut where need be."""
    left = max(len(label) for label, _, _ in rows) + 4
    right = max(len(number) for _, _, number in rows)
    lines = [f"{title:<{WIDTH - len(over_numbers)}}{over_numbers}".rstrip()]
    for label, what, number in rows:
        room = WIDTH - left - right - 2
        what = what if len(what) <= room else f"{what[: room - 1]}…"
        lines.append(f"  {label:<{left - 2}}{what:<{room + 2}}{number:>{right}}".rstrip())
    return "\n".join(lines)


def _tree(description: Description) -> Iterator[Line]:
    """Each part once, with the weights that stand there first; like neighbours are folded."""
    owned = {name: weight.numel() for name, weight in description.model.named_parameters()}
    lasts, more = description.sketch.lasts, description.sketch.more
    names = {part: name for family in FAMILIES for name, part in family.parts.items()}
    shown: set[nn.Module] = set()

    def size(path: str) -> int:
        own = sum(count for name, count in owned.items() if name.startswith(f"{path}."))
        return own + more * sum(size(last) for last in lasts if last.startswith(f"{path}."))

    def walk(module: nn.Module, path: str, indent: int) -> Iterator[Line]:
        for name, below in module.named_children():
            place = f"{path}.{name}".lstrip(".")
            if isinstance(below, nn.ModuleList):
                for _, alike in groupby(below.named_children(), lambda item: signature(item[1])):
                    group = list(alike)
                    yield from line(group, place, name.removesuffix("s"), indent)
            else:
                yield from line([(name, below)], path, name, indent)

    def line(
        group: list[tuple[str, nn.Module]], path: str, word: str, indent: int
    ) -> Iterator[Line]:
        """The last stands for all of them: the first may share what the others have themselves."""
        module = group[-1][1]
        places = [f"{path}.{name}".lstrip(".") for name, _ in group]
        lacking = more if places[-1] in lasts else 0
        weights = sum(map(size, places)) + lacking * size(places[-1])
        if module in shown or not (type(module) in names or list(module.parameters())):
            return
        shown.update(member for _, member in group)
        what = _what(module, names)
        if isinstance(module, nn.Linear | nn.Embedding) and f"{places[-1]}.weight" not in owned:
            what += ", tied"
        if len(group) + lacking > 1:
            word = f"{len(group) + lacking:,} × {word}"
            what = what or f"{size(places[-1]):,} each"
        yield "  " * indent + word, what, f"{weights:,}" if weights else ""
        yield from walk(module, places[-1], indent + 1)

    config = description.config
    yield config["name"], config.get("kind", ""), f"{description.parameters:,}"
    yield from walk(description.model, "", 1)


def _what(module: nn.Module, names: dict[Any, str]) -> str:
    """The part's name, or the sizes of a matrix."""
    if isinstance(module, Joint):
        rows = ", ".join(name for name, _ in module.splits["weight"])
        return f"{module.in_features:,} → {module.out_features:,}: {rows}"
    if isinstance(module, nn.Linear):
        return f"{module.in_features:,} → {module.out_features:,}"
    if isinstance(module, nn.Embedding):
        return f"{module.num_embeddings:,} × {module.embedding_dim:,}"
    if isinstance(module, Layer):
        return f"{names[type(module)]} {module.input_size:,} → {module.hidden_size:,}"
    return names.get(type(module), "")
