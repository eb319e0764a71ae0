"""The device of a trial: the accelerator if there is one, else the CPU."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import torch

from ablations.store.words import first_line
from model.config import ConfigError

# cuDNN would use TF32 in recurrent layers where the products of attention keep float32.
torch.backends.fp32_precision = "ieee"  # type: ignore[attr-defined]


def pick_device(word: str | None) -> torch.device:
    """The named device, or the accelerator when there is one, or the CPU.

    No device is opened: one in exclusive mode would refuse the processes of the jobs.
    """
    here = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = here if word is None else torch.device(word)
    except RuntimeError as error:
        raise ConfigError([f"--device {word}: not usable here ({first_line(error)})"]) from None
    held = {"cpu": 1, here.type: 1 if here.type == "cpu" else torch.accelerator.device_count()}
    if (device.index or 0) >= held.get(device.type, 0):
        found = "cpu" if here.type == "cpu" else f"cpu and {held[here.type]} × {here.type}"
        raise ConfigError([f"--device {word}: not usable here (this machine has {found})"])
    return device


def check_devices(count: int, device: torch.device) -> None:
    """Refuse to split a trial over more devices than there are; the CPU has one a core."""
    if count == 1:
        return
    if device.index is not None:
        raise ConfigError([f"--devices {count}: say --device {device.type}, without a number"])
    is_cpu = device.type == "cpu"
    held = (os.cpu_count() or 1) if is_cpu else torch.accelerator.device_count()
    if count > held:
        kind = "cores" if is_cpu else device.type
        raise ConfigError([f"--devices {count}: this machine has {held} ({kind})"])


def how_many(device: torch.device) -> int:
    """How many accelerators this device names: all of its kind, or one by its number."""
    return max(1, torch.accelerator.device_count()) if device.index is None else 1


def own_device(word: str) -> str:
    """The device with its number, if the name has none."""
    device = torch.device(word)
    if device.type == "cpu" or device.index is not None:
        return word
    return f"{device.type}:{torch.accelerator.current_device_index()}"


def settle(slot: int) -> None:
    """Make the accelerator of a worker's slot the default of this process."""
    torch.accelerator.set_device_index(slot % torch.accelerator.device_count())


def device_name(device: torch.device) -> str:
    """The name of the accelerator or processor."""
    if device.type == "cpu":
        return f"cpu ({_processor()})"
    name_of = getattr(torch.get_device_module(device), "get_device_name", None)  # MPS has none
    return device.type if name_of is None else f"{device.type} ({name_of(device)})"


def numerics(device: torch.device) -> str:
    """The libraries and the hardware that decide the last digits of a sum."""
    if device.type != "cpu":
        precision = f"float32 as {torch.backends.fp32_precision}"  # type: ignore[attr-defined]
        return f"torch {torch.__version__}, {device_name(device)}, {precision}"
    blas = re.search(r"\bBLAS_INFO=(\w+)", torch.__config__.show())
    capability = torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__}, {capability}, BLAS {blas[1] if blas else 'unknown'}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
