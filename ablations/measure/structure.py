"""How large the parts of published models are, counted in the model as it is built."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model import preset
from model.block import Stack
from model.build import build
from model.positions import Learned


@MEASURE.register("structure")
class Structure(Probe):
    """Of each preset's first stack, on the meta device: word vectors and position vectors, their
    width, blocks, and how wide a block's feed-forward is inside.

    There are position vectors where they are trained; other schemes compute what they add.
    """

    quantities: ClassVar = {"structure": Quantity("1", "lower", "size", repeats="nothing")}

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        readings = []
        for name in preset.names():
            chosen = preset.load(name)
            with torch.device("meta"):
                model = build(chosen.model, chosen.source_size, chosen.target_size, None)
            stack = next(part for part in model.modules() if isinstance(part, Stack))
            for of, size in sizes(stack).items():
                at: dict[str, float | str] = {"preset": name, "of": of}
                reason = "its positions have no vectors of their own" if size is None else None
                readings.append(Reading("structure", "1", size, at=at, reason=reason))
        return Taken(readings)


def sizes(stack: Stack) -> dict[str, int | None]:
    """Of a stack whose feed-forwards have an inside."""
    words, position = stack.embedding.tokens, stack.embedding.position
    down: Any = getattr(stack.blocks[0].feedforward, "down", None)
    assert down is not None, "a published model has a feed-forward"
    return {
        "words": words.num_embeddings,
        "positions": position.table.num_embeddings if isinstance(position, Learned) else None,
        "width": words.embedding_dim + position.width,
        "blocks": len(stack.blocks),
        "inner": down.in_features,
    }
