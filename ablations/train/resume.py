"""All of a training that is in memory, as tensors and plain facts, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ablations.store.record import Reading
from ablations.train.weights import named, restore

if TYPE_CHECKING:
    from ablations.train.loop import Trainer

Remembered = tuple[dict[str, Tensor], dict[str, Any]]


def remember(trainer: Trainer) -> Remembered:
    """Weights, moments, running means, curves and every generator's state."""
    slots = {
        f"{parameter}/{slot}": value
        for parameter, slots in trainer.optimiser.state_dict()["state"].items()
        for slot, value in slots.items()
    }
    groups = {
        "model": named(trainer.model),
        "optimiser": {key: value for key, value in slots.items() if isinstance(value, Tensor)},
        "best": trainer.best or {},
        "average": {} if trainer.average is None else trainer.average.weights,
        "recent": {"losses": torch.stack(trainer.recent)} if trainer.recent else {},
        "random": _random_states(trainer.device),
    }
    facts = {
        "step": trainer.step,
        "readings": [vars(reading) for reading in trainer.training.readings],
        "best_loss": None if trainer.best is None else trainer.best_loss,
        "optimiser": {key: value for key, value in slots.items() if key not in groups["optimiser"]},
    }
    return {
        f"{group}:{name}": t for group, all_ in groups.items() for name, t in all_.items()
    }, facts


def resume(trainer: Trainer, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Put a fresh trainer where the remembered one was."""
    groups: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        group, _, name = key.partition(":")
        groups.setdefault(group, {})[name] = tensor
    restore(trainer.model, groups["model"])
    optimiser = trainer.optimiser.state_dict()
    for key, value in {**groups.get("optimiser", {}), **facts["optimiser"]}.items():
        parameter, _, slot = key.partition("/")
        optimiser["state"].setdefault(int(parameter), {})[slot] = value
    trainer.optimiser.load_state_dict(optimiser)
    if "best" in groups:
        trainer.best, trainer.best_loss = groups["best"], facts["best_loss"]
    if trainer.average is not None:
        restore(trainer.average.weights, groups["average"])
    if "recent" in groups:
        trainer.recent = list(groups["recent"]["losses"].to(trainer.device).unbind())
    trainer.step = facts["step"]
    trainer.training.readings = [Reading(**reading) for reading in facts["readings"]]
    torch.set_rng_state(groups["random"]["cpu"])
    if trainer.device.type != "cpu":
        with torch.accelerator.device_index(trainer.device.index):
            module = torch.get_device_module(trainer.device)
            module.set_rng_state(groups["random"]["device"])


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        with torch.accelerator.device_index(device.index):
            states["device"] = torch.get_device_module(device).get_rng_state()
    return states
