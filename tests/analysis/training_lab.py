"""Made-up trainings: learning curves, tuning, a ladder and vectors of positions."""

from __future__ import annotations

import math
from typing import Any

from ablations.store.record import Reading

STEPS = (0, 100, 200, 300)
LOSS = {"name": "loss", "split": "valid", "better": "lower", "label": "loss", "unit": "nats/token"}
RATE = "train.optimiser.rate"
GRID = (1e-3, 3e-3, 1e-2)
TRIED = (*GRID, 3e-2)  # the last was added where the best stood at the end
CHOSEN = {"both": 1e-2, "no warm-up": 3e-3, "no decay": 3e-2}
WORTH = {"no positions": 0.2, "one head": 0.03, "no scale": -0.02, "no dropout": 0.01}
POSITIONS = 4


def build_training(folder: Any) -> None:
    """Three questions: one tuned over schedules, a ladder, one of positions."""
    _of_schedules(folder)
    _of_pieces(folder)
    _of_positions(folder)


def loss_at(step: int, seed: int, level: float) -> float:
    """Falls from 4 towards the level; every seed has a luck of its own."""
    return level + 0.01 * (seed % 3) ** 2 + (4 - level) * math.exp(-step / 80)


def learning(seed: int, level: float, steps: tuple[int, ...] = STEPS) -> list[Reading]:
    """On validation data, and lower on what the model is trained on."""
    return [
        Reading("loss", "nats/token", loss_at(step, seed, level) - less, split, {"step": step})
        for split, less in (("train", 0.5), ("valid", 0.0))
        for step in steps
    ]


def tried_loss(label: str, rate: float, seed: int) -> float | None:
    """Lowest at the chosen rate; the fastest rate without warm-up fails with its second seed."""
    if label == "no warm-up" and rate == TRIED[-1] and seed == 1:
        return None
    return 2.0 + abs(math.log10(rate / CHOSEN.get(label, 1e-2))) + 0.02 * seed


def choice(label: str) -> dict[str, Any]:
    """What tuning has found for a variant, as a plan tells it."""
    best = CHOSEN[label]
    tried = [
        {"set": {RATE: rate}, "losses": [tried_loss(label, rate, k) for k in (0, 1)]}
        for rate in TRIED
    ]
    told = {"label": label, "across": {}, "chosen": {RATE: best}, "at_edge": best == TRIED[-1]}
    return {**told, "tried": tried}


def _of_schedules(folder: Any) -> None:
    folder.ablation("schedule [tuned]", list(CHOSEN), name="schedule", arms="tuned", metric=LOSS,
                    grid={RATE: list(GRID)}, tuning=list(map(choice, CHOSEN)))  # fmt: skip
    for label, level in zip(CHOSEN, (1.8, 2.0, 1.9), strict=True):
        for seed in (0, 1, 2):
            if (label, seed) == ("no warm-up", 1):
                early = learning(seed, 3.9, STEPS[:2])
                folder.record(label, seed, status="diverged", readings=early)
            else:
                folder.record(label, seed, readings=learning(seed, level))


def _of_pieces(folder: Any) -> None:
    folder.ablation("ladder", ["whole", *WORTH, "no residual"], seeds=[0, 1, 2, 3])
    for seed in (0, 1, 2, 3):
        folder.record("whole", seed, 0.3 + 0.01 * seed)
        for label, worth in WORTH.items():
            folder.record(label, seed, 0.3 + 0.01 * seed + worth + 0.002 * (seed % 3))
        folder.record("no residual", seed, status="diverged")


def cosine(i: int, j: int, steep: float = 1.0) -> float:
    return round(math.cos(steep * (i - j)), 4)


def positions(steep: float) -> list[Reading]:
    """How alike positions are in each stack; the first one counts."""
    places: list[Any] = list(range(POSITIONS))
    return [
        Reading(
            "position_similarity", "cosine", None, "test", {"step": STEPS[-1], "stack": stack},
            axes={"position": places, "other": places},
            values=[[cosine(i, j, steep + k) for j in places] for i in places],
        )
        for k, stack in enumerate(("encoder", "decoder"))
    ]  # fmt: skip


def _of_positions(folder: Any) -> None:
    folder.ablation("where", ["sines", "table", "nowhere"])
    for seed in (0, 1, 2):
        folder.record("sines", seed, 0.2, readings=positions(0.3))
        folder.record("table", seed, 0.2 + 0.01 * seed, readings=positions(1.0 + seed))
        none = Reading("position_similarity", "cosine", None, "test", {"step": STEPS[-1]},
                       reason="this model has none")  # fmt: skip
        folder.record("nowhere", seed, 0.4, readings=[none])
