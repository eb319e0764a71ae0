"""From a written choice to a model: the only place that turns names into objects."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from torch import nn

import model.mixer
import model.position
import model.recurrent
from model.attention import PATH
from model.block import Block, Stack
from model.embedding import Embedding
from model.feedforward import FEEDFORWARD
from model.initialise import INITIAL, NoDraws, initialise
from model.kind import MODEL
from model.mixer import MIXER
from model.norm import NORM
from model.position import POSITION
from model.recurrent import CELL, SCORE
from model.residual import RESIDUAL
from model.scale import SCALE
from model.transformer import Transformer

for folder in (model.mixer, model.position, model.recurrent):  # a part is there once its file is
    for module in pkgutil.iter_modules(folder.__path__, folder.__name__ + "."):
        importlib.import_module(module.name)

from model.recurrent.seq2seq import BidirectionalEncoder, Recurrent  # noqa: E402

FAMILIES = (
    MODEL, POSITION, NORM, RESIDUAL, MIXER, PATH, SCALE, FEEDFORWARD, INITIAL, CELL, SCORE,
)  # fmt: skip


def resolve(written: Any) -> dict[str, Any]:
    """The model's choice with every default written out."""
    return MODEL.resolve(written, "model")


def build(written: Any, source_size: int | None, target_size: int, seed: int | None) -> nn.Module:
    """The model for these vocabularies; a seed of None leaves the values undefined."""
    resolved = resolve(written)
    part = MODEL.parts[resolved.pop("name")]
    config = part.Config(**resolved)
    assemble = _ASSEMBLE.get(part) or part.assemble
    with NoDraws():
        built = assemble(config, source_size, target_size)
    if seed is not None:
        initialise(built, INITIAL.build(config.initial), seed)
    return built


def _transformer(
    config: Transformer.Config, source_size: int | None, target_size: int
) -> Transformer:
    has_encoder = config.kind == "encoder_decoder"
    if has_encoder and source_size is None:
        raise ValueError("model.kind=encoder_decoder needs a task with a source")
    given = {
        name: getattr(config, name)
        for name in ("d_model", "n_heads", "d_head", "depth", "dropout", "max_len")
    }
    crossing = config.mixer if MIXER.part(config.mixer["name"]).crosses else "attention"

    def mixer(written: Any, position: Any, cross: bool) -> Any:
        scale = SCALE.build(config.scale, **given)
        path = PATH.build(config.path, **given)
        return MIXER.build(written, **given, position=position, scale=scale, path=path, cross=cross)

    def stack(size: int, reads_memory: bool) -> Stack:
        position = POSITION.build(config.position, **given)
        nowhere = POSITION.build("none", **given)
        blocks = []
        for _ in range(config.depth):
            cross = mixer(crossing, nowhere, cross=True) if reads_memory else None
            norms = [NORM.build(config.norm, **given) for _ in range(3 if reads_memory else 2)]
            residual = RESIDUAL.build(config.residual, norms=norms, **given)
            feedforward = FEEDFORWARD.build(config.feedforward, **given)
            blocks.append(Block(mixer(config.mixer, position, False), cross, feedforward, residual))
        ends_in_norm = RESIDUAL.part(config.residual["name"]).ends_in_norm
        last = NORM.build(config.norm, **given) if ends_in_norm else nn.Identity()
        scale = config.d_model**0.5 if config.embedding_scale else 1.0
        embedding = Embedding(size, config.d_model, position, scale, config.dropout)
        return Stack(embedding, blocks, last)

    encoder = stack(source_size, reads_memory=False) if has_encoder and source_size else None
    decoder = stack(target_size, reads_memory=has_encoder)
    head = nn.Linear(config.d_model, target_size, bias=not config.tied)
    if config.tied:
        head.weight = decoder.embedding.tokens.weight
    return Transformer(encoder, decoder, head)


def _recurrent(config: Recurrent.Config, source_size: int | None, target_size: int) -> Recurrent:
    if source_size is None:
        raise ValueError("model.name=recurrent needs a task with a source")
    width = config.d_model

    def cell(d_hidden: int) -> Any:
        return CELL.build(config.cell, d_in=width, d_hidden=d_hidden)

    encoder = BidirectionalEncoder(
        nn.Embedding(source_size, width),
        [(cell(width // 2), cell(width // 2)) for _ in range(config.depth)],
        config.dropout,
    )
    return Recurrent(
        encoder,
        nn.Embedding(target_size, width),
        [cell(width) for _ in range(config.depth)],
        SCORE.build(config.score, d_hidden=width),
        nn.Linear(2 * width, width),
        nn.Linear(width, target_size),
        config.dropout,
    )


# A model from elsewhere brings a class method `assemble` of the same form.
_ASSEMBLE: dict[Any, Callable[[Any, int | None, int], nn.Module]] = {
    Transformer: _transformer,
    Recurrent: _recurrent,
}
