"""Builds a model from a config: the only place that turns names into objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from torch import nn

from model import relative_positions  # noqa: F401  (it registers positions)
from model.attention import MASK, PATH, SCALE, SIMILARITY
from model.cells import CELL
from model.config import MODEL, ConfigError
from model.embedding import Embedding
from model.feedforward import FEEDFORWARD, NoFeedForward
from model.heads import HEAD, Head
from model.init import INIT, NoDraws, initialise
from model.layers import Joint
from model.mixers import MIXER, NoMixer, convolution, recurrences, window  # noqa: F401  (they register mixers)
from model.mixers.attention import Attention, Scoring
from model.positions import POSITION, Position
from model.residual import NORM, RESIDUAL
from model.rnn import SCORE, BidirectionalEncoder, Layers, Recurrent, Seq2Seq
from model.transformer import Block, Stack, Transformer

REGISTRIES = (
    MODEL, POSITION, NORM, RESIDUAL, MIXER, PATH, MASK, SIMILARITY, SCALE, FEEDFORWARD, HEAD,
    INIT, CELL, SCORE,
)  # fmt: skip


def resolve(written: Any) -> dict[str, Any]:
    """The model's choice with every default written out."""
    return MODEL.resolve(written, "model")


def build(written: Any, source_size: int | None, target_size: int, seed: int | None) -> nn.Module:
    """The model for these vocabularies; a seed of None leaves the values undefined."""
    resolved = resolve(written)
    component = MODEL.components[resolved.pop("name")]
    config = component.Config(**resolved)
    assemble = _ASSEMBLE.get(component) or component.assemble
    with NoDraws():
        built = assemble(config, source_size, target_size)
    if seed is not None:
        initialise(built, INIT.build(config.init), seed)
    return built


def _transformer(
    config: Transformer.Config, source_size: int | None, target_size: int
) -> Transformer:
    has_encoder, has_decoder = "encoder" in config.kind, "decoder" in config.kind
    if has_encoder and source_size is None:
        raise ValueError(f"model.kind={config.kind} needs a task with a source")
    names = (
        "d_model", "n_heads", "d_head", "depth", "dropout", "max_len", "feedforward_dropout"
    )  # fmt: skip
    given: dict[str, Any] = {name: getattr(config, name) for name in names}
    given["target_size"] = target_size
    given["mask"] = MASK.build(config.mask, **given)
    crossing = _crossing(config.mixer)

    def make_norm() -> nn.Module:
        return NORM.build(config.norm, **given)

    def mixer(written: Any, position: Position, layer: int, causal: bool, cross: bool) -> Any:
        scoring = Scoring(
            position,
            SCALE.build(config.scale, **given),
            SIMILARITY.build(config.similarity, **given),
            PATH.build(config.path, **given),
            config.attention_dropout,
        )
        where = {"layer": layer, "causal": causal, "cross": cross}
        return MIXER.build(written, scoring=scoring, **where, **given)

    def block(position: Position, layer: int, causal: bool, reads_memory: bool) -> Block:
        own = mixer(config.mixer, position, layer, causal, False)
        if isinstance(own, NoMixer):
            own = None
        nowhere = POSITION.build("none", **given)
        cross = mixer(crossing, nowhere, layer, False, True) if reads_memory else None
        feedforward = FEEDFORWARD.build(config.feedforward, **given)
        if isinstance(feedforward, NoFeedForward):
            feedforward = None
        sublayers = sum(each is not None for each in (own, cross, feedforward))
        residual = RESIDUAL.build(
            config.residual, make_norm=make_norm, sublayers=sublayers, **given
        )
        return Block(own, cross, feedforward, residual)

    def stack(size: int, segments: int, causal: bool, reads_memory: bool) -> Stack:
        made = [
            POSITION.build(config.position, causal=causal, **given) for _ in range(config.depth)
        ]
        first = made[0]
        positions = [first] * config.depth if first.shared else made
        assert config.embedding_dropout is not None
        embedding = Embedding(
            size,
            config.d_model,
            first,
            make_norm() if config.embedding_norm else None,
            config.d_model**0.5 if config.embedding_scale else 1.0,
            config.embedding_dropout,
            segments,
        )
        blocks = [
            block(position, layer, causal, reads_memory) for layer, position in enumerate(positions)
        ]
        return Stack(embedding, blocks, make_norm() if config.final_norm else nn.Identity())

    encoder = decoder = None
    if has_encoder and source_size is not None:
        encoder = stack(source_size, config.segments, config.causal_encoder, reads_memory=False)
    if has_decoder:
        decoder = stack(target_size, 0, config.causal_decoder, reads_memory=has_encoder)
    head = HEAD.build(config.head, norm=make_norm(), **given)
    _tie(config.tied, encoder, decoder, head)
    return Transformer(encoder, decoder, head, config.causal_encoder, config.causal_decoder)


def _crossing(mixer: dict[str, Any]) -> dict[str, Any]:
    """The mixer that reads the memory: the same one if it can, else attention with the options that
    both have."""
    if MIXER.component(mixer["name"]).crosses:
        return mixer
    known = {field.name for field in fields(Attention.Config)}
    options = {name: value for name, value in mixer.items() if name in known}
    return {"name": "attention", **options}


def _tie(tied: str, encoder: Stack | None, decoder: Stack | None, head: Head) -> None:
    """Share one table between embeddings; ConfigError if their shapes differ."""
    if tied == "free":
        return
    source = encoder.embedding.tokens if encoder else None
    target = decoder.embedding.tokens if decoder else source
    assert target is not None
    if tied == "all" and source is not None:
        if source.weight.shape != target.weight.shape:
            raise ConfigError(
                [f"tied=all: source and target have {len(source.weight)} and {len(target.weight)} "
                 "tokens; they must share one vocabulary"]
            )  # fmt: skip
        source.weight = target.weight
    project = getattr(head, "project", None)
    if project is None or project.weight.shape != target.weight.shape:
        raise ConfigError(
            [f"tied={tied}: needs a head over the same tokens, and positions not concatenated"]
        )
    project.weight = target.weight


def _recurrent(config: Recurrent.Config, source_size: int | None, target_size: int) -> Recurrent:
    width, layers = config.d_model, range(config.depth)

    def embedding(size: int) -> Embedding:
        return Embedding(size, width, POSITION.build("none"), None, 1.0, config.dropout)

    def cell(d_hidden: int) -> Any:
        return CELL.build(config.cell, d_in=width, d_hidden=d_hidden)

    decoder = Layers(embedding(target_size), [cell(width) for _ in layers], config.dropout)
    head = HEAD.build("tokens", d_model=width, target_size=target_size, norm=nn.Identity())
    if config.tied:
        head.project.weight = decoder.embedding.tokens.weight
    if config.kind == "decoder":
        return Recurrent(decoder, head)
    if source_size is None:
        raise ValueError(f"model.kind={config.kind} needs a task with a source")
    both_ways = [(cell(width // 2), cell(width // 2)) for _ in layers]
    score = SCORE.build(config.score, d_hidden=width)
    states = {f"state{number}": width for number in range(len(decoder.start(0)[0]))}
    return Seq2Seq(
        BidirectionalEncoder(embedding(source_size), both_ways, config.dropout),
        [Joint(width, states, bias=True) for _ in layers],
        decoder,
        score,
        nn.Linear(2 * width if score.reads else width, width),
        head,
        config.dropout,
    )


# A user's model has a class method `assemble` with the same arguments.
_ASSEMBLE: dict[Any, Callable[[Any, int | None, int], nn.Module]] = {
    Transformer: _transformer,
    Recurrent: _recurrent,
}
