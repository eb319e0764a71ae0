"""Which of several accelerators a process computes on."""

from __future__ import annotations

import torch


def how_many(device: torch.device) -> int:
    """Of the accelerators that this device stands for: all of its kind, or one by its number."""
    return max(1, torch.accelerator.device_count()) if device.index is None else 1


def own_device(word: str) -> str:
    """The device that a word without a number means in this process, by its number."""
    device = torch.device(word)
    if device.type == "cpu" or device.index is not None:
        return word
    return f"{device.type}:{torch.accelerator.current_device_index()}"


def settle(slot: int) -> None:
    """Let a device without a number mean, in this process, the accelerator of a worker's slot."""
    torch.accelerator.set_device_index(slot % torch.accelerator.device_count())
