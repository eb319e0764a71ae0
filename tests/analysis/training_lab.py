"""Made-up trainings: learning curves, rates, tuning, heads, ladders and vectors of positions."""

from __future__ import annotations

import math
from typing import Any

from ablations.store.record import Reading

STEPS = (0, 100, 200, 300)
LOSS = {"name": "loss", "split": "valid", "better": "lower", "label": "loss", "unit": "nats/token"}
RATE = "train.optimiser.rate"
GRID = (1e-3, 3e-3, 1e-2)
TRIED = (*GRID, 3e-2)  # the last was added where the best stood at the end
SCHEDULES = {
    "both": ("linear", 100),
    "no warm-up": ("linear", 0),
    "no decay": ("constant", 100),
}
CHOSEN = {"both": 1e-2, "no warm-up": 3e-3, "no decay": 3e-2}
WORTH = {"no positions": 0.2, "one head": 0.03, "no scale": -0.02, "no dropout": 0.01}
HEADS = (4, 1, 16)
POSITIONS = 4


def build_training(folder: Any) -> None:
    """Four questions: one tuned over schedules, a ladder, one of heads, one of positions."""
    _of_schedules(folder)
    _of_pieces(folder)
    _of_heads(folder)
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


def share(name: str, warmup: int, step: int) -> float:
    """Of the peak rate: up in a line, then down in one, or on."""
    last = STEPS[-1]
    if step <= warmup:
        return step / warmup
    return 1.0 if name == "constant" else (last + 1 - step) / (last + 1 - warmup)


def rates(rate: float, name: str, warmup: int) -> list[Reading]:
    steps = range(1, STEPS[-1] + 1, 7)
    return [
        Reading("rate", "1", rate * share(name, warmup, s), "train", {"step": s}) for s in steps
    ]


def config(
    n_heads: int = 4, rate: float = 1e-2, name: str = "linear", warmup: int = 100, **model: Any
) -> dict[str, Any]:
    """What decides a trial's numbers, in part."""
    return {
        "model": {"d_model": 64, "n_heads": n_heads, "d_head": 64 // n_heads, **model},
        "train": {
            "steps": STEPS[-1],
            "optimiser": {"name": "adam", "rate": rate},
            "schedule": {"name": name, "warmup": warmup},
        },
    }


def tried_loss(label: str, rate: float, seed: int) -> float | None:
    """Lowest at the chosen rate; the fastest rate without warm-up fails with its second seed."""
    if label == "no warm-up" and rate == TRIED[-1] and seed == 1:
        return None
    return 2.0 + abs(math.log10(rate / CHOSEN.get(label, 1e-2))) + 0.02 * seed


def choice(label: str) -> dict[str, Any]:
    """What tuning has found for an arm, as a plan tells it."""
    best = CHOSEN.get(label, 1e-2)
    return {
        "label": label,
        "across": {},
        "profile": "smoke",
        "regime": "0" * 12,
        "chosen": {RATE: best},
        "runner_up": {RATE: 1e-3} if label == "no warm-up" else None,
        "at_edge": best == TRIED[-1],
        "error": 0.01,
        "tried": [
            {"set": {RATE: rate}, "losses": [tried_loss(label, rate, k) for k in (0, 1)]}
            for rate in TRIED
        ],
    }


def _of_schedules(folder: Any) -> None:
    for label, (name, warmup) in SCHEDULES.items():
        folder.configs[label] = config(rate=CHOSEN[label], name=name, warmup=warmup)
    folder.ablation(
        "schedule [tuned]", list(SCHEDULES), name="schedule", arms="tuned", metric=LOSS,
        question="Does the rate need to rise at first?", grid={RATE: list(GRID)},
        tuning=[choice(label) for label in SCHEDULES],
    )  # fmt: skip
    for label, level in zip(SCHEDULES, (1.8, 2.0, 1.9), strict=True):
        for seed in (0, 1, 2):
            readings = rates(CHOSEN[label], *SCHEDULES[label])
            if (label, seed) == ("no warm-up", 1):
                early = [*learning(seed, 3.9, STEPS[:2]), *readings[:15]]
                folder.record(label, seed, status="diverged", readings=early)
            else:
                readings = [*learning(seed, level), *readings]
                folder.record(label, seed, readings=readings)


def _of_pieces(folder: Any) -> None:
    folder.ablation("ladder", ["whole", *WORTH, "no residual"], seeds=[0, 1, 2, 3])
    for seed in (0, 1, 2, 3):
        folder.record("whole", seed, 0.3 + 0.01 * seed)
        for label, worth in WORTH.items():
            folder.record(label, seed, 0.3 + 0.01 * seed + worth + 0.002 * (seed % 3))
        folder.record("no residual", seed, status="diverged")


def _of_heads(folder: Any) -> None:
    labels = [f"{count} of width {64 // count}" for count in HEADS]
    for label, count in zip(labels, HEADS, strict=True):
        folder.configs[label] = config(count)
    folder.ablation("many heads", labels, question="How many heads?")
    folder.ablation("time of heads", labels, seeds=[0], question="How long do heads take?")
    for label, ratio in zip(labels, (1.0, 0.7, 1.9), strict=True):
        for seed in (0, 1, 2):
            timed = [
                *folder.timing(ratio, length=16, batch=16),
                *folder.timing(ratio**2, length=64, batch=16),
            ]
            readings = timed if seed == 0 else []
            if (label, seed) == (labels[1], 2):
                folder.record(label, seed, 0.9, status="stuck")
            else:
                folder.record(label, seed, 0.25 + 0.02 * ratio + 0.005 * seed, readings=readings)


def cosine(i: int, j: int, steep: float = 1.0) -> float:
    return round(math.cos(steep * (i - j)), 4)


def positions(
    steep: float = 1.0, stacks: tuple[str, ...] = ("encoder", "decoder")
) -> list[Reading]:
    """How alike positions are in each stack; the first one counts."""
    places: list[Any] = list(range(POSITIONS))
    return [
        Reading(
            "position_similarity", "cosine", None, "test", {"step": STEPS[-1], "stack": stack},
            axes={"position": places, "other": places},
            values=[[cosine(i, j, steep + k) for j in places] for i in places],
        )
        for k, stack in enumerate(stacks)
    ]  # fmt: skip


def _of_positions(folder: Any) -> None:
    scheme = {"name": "sinusoidal", "join": "add", "width": None, "base": 100.0}
    folder.configs["sines"] = config(position=scheme)
    folder.configs["table"] = config(position={"name": "learned", "join": "add", "width": None})
    folder.ablation("where", ["sines", "table", "nowhere"], question="Where is a token?")
    for seed in (0, 1, 2):
        folder.record("sines", seed, 0.2, readings=positions(0.3))
        folder.record("table", seed, 0.2 + 0.01 * seed, readings=positions(1.0 + seed))
        none = Reading("position_similarity", "cosine", None, "test", {"step": STEPS[-1]},
                       reason="this model has none")  # fmt: skip
        folder.record("nowhere", seed, 0.4, readings=[none])
