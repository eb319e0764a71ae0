"""Made-up readings of what is looked up in models: along a coordinate, in maps, on a surface."""

from __future__ import annotations

import math
from typing import Any

from ablations.store.record import Reading

STEP = 300
DEPTHS, REMOVED, PASTS = (2, 4, 8, 16), (0.2, 0.6, 1.0), (1.5, 4.0)
LAYERS = ("encoder.blocks.0.mixer", "decoder.blocks.0.mixer", "decoder.blocks.0.cross")
LETTERS, PHONES = ("c", "a", "t", "<eos>"), ("<bos>", "K", "AE", "T", "S")
PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)
TOO_FAR = "positions reach 128"


def _told(unit: str, label: str) -> dict[str, str]:
    return {"unit": unit, "better": "lower", "label": label, "repeats": "seeds"}


METRICS = {
    "last_gradient": _told("nats/label", "gradient norm in the last block"),
    "pruned_ratio": _told("1", "perplexity without heads, over that with all"),
    "perplexity_ratio": _told("1", "perplexity past the trained length, over that at its end"),
    "curvature": _told("nats/token", "curvature of the loss"),
}


def probed(seed: int, steep: float = 1.0, token: str | None = None) -> list[Reading]:
    """All that is looked up in one model; the steeper one fails far out with its second seed."""
    return [*along(seed, steep), *maps(seed, token), *surface(seed, steep)]


def along(seed: int, steep: float) -> list[Reading]:
    luck = 1 + 0.02 * (seed % 3) ** 2
    found = []
    for depth in DEPTHS:
        value = 0.5 * luck * depth ** (-0.5 * steep)
        found.append(Reading("last_gradient", "nats/label", value, at={"depth": depth}))
        blocks: dict[str, list[Any]] = {"layer": list(range(depth))}
        array = {"axes": blocks, "values": [value] * depth}
        found.append(Reading("layer_gradient", "nats/label", at={"depth": depth}, **array))
    for share in REMOVED:
        for by, power in (("importance", 1.0), ("random", 2.0)):
            at = {"step": STEP + seed, "removed": share, "by": by}
            value = math.exp(3 * steep * power * share**2) * luck
            found.append(Reading("pruned_ratio", "1", value, "test", at))
    for past in PASTS:
        at = {"step": STEP, "past": past}
        lost = steep > 1 and seed == 1 and past == PASTS[-1]
        told = {"reason": TOO_FAR} if lost else {"value": 1 + 0.1 * steep * past * luck}
        found.append(Reading("perplexity_ratio", "1", split="test", at=at, **told))
    return found


def weight(layer: str, example: int, seed: int, head: int, i: int, keys: int) -> list[float]:
    """Of one query: the more to the right, the later it stands; other in every head and seed."""
    raw = [
        1 + ((i + j * (head + 1) + seed + example + len(layer)) % keys) ** 2 for j in range(keys)
    ]
    return [round(each / sum(raw), 4) for each in raw]


def maps(seed: int, token: str | None = None, heads: int = 2) -> list[Reading]:
    """Two examples, of which the first is shown; the token stands where the letter `a` does."""
    found = []
    letters = [token if token is not None and each == "a" else each for each in LETTERS]
    for example in (7, 9):
        for layer in LAYERS:
            queries = letters if layer.startswith("encoder") else list(PHONES)
            keys = list(PHONES) if layer == LAYERS[1] else letters
            values = [
                [weight(layer, example, seed, head, i, len(keys)) for i in range(len(queries))]
                for head in range(heads)
            ]
            axes: dict[str, list[Any]] = {"head": list(range(heads)), "query": queries, "key": keys}
            at = {"step": STEP, "layer": layer, "example": example}
            found.append(Reading("attention", "probability", None, "test", at, axes=axes,
                                 values=values))  # fmt: skip
    return found


def loss(x: float, y: float, seed: int, steep: float) -> float | None:
    """A bowl that is longer in y; the steeper one has no number in one corner."""
    if steep > 1 and x == y == 1.0:
        return None
    return 2.0 + 0.1 * seed + steep**3 * (4 * x * x + y * y)


def surface(seed: int, steep: float) -> list[Reading]:
    plane = [[loss(x, y, seed, steep) for y in PLACES] for x in PLACES]
    axes: dict[str, list[Any]] = {"x": list(PLACES), "y": list(PLACES)}
    at, unit = {"step": STEP}, "nats/token"
    return [
        Reading("curvature", unit, 5.0 * steep + seed, "valid", at),
        Reading("surface", unit, None, "valid", at, axes=axes, values=plane),
    ]
