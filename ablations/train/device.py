"""Where a trial is computed: the accelerator when there is one, the CPU otherwise."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import torch

from model.config import ConfigError


def pick_device(word: str | None) -> torch.device:
    """The named device, or the accelerator when there is one, or the CPU."""
    if word is None:
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        device = torch.device(word)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError([f"--device {word}: not usable here ({reason})"]) from None
    return device


def check_devices(count: int, device: torch.device) -> None:
    """Refuse to train on more than there are; the CPU has room for any number of processes."""
    if count == 1:
        return
    if device.index is not None:
        raise ConfigError([f"--devices {count}: say --device {device.type}, without a number"])
    if device.type != "cpu" and count > (held := torch.accelerator.device_count()):
        raise ConfigError([f"--devices {count}: this machine has {held} ({device.type})"])


def device_name(device: torch.device) -> str:
    """What ran it, in words: the accelerator's type or the processor's."""
    if device.type == "cpu":
        return f"cpu ({_processor()})"
    return f"{device.type} ({torch.get_device_module(device).get_device_name(device)})"


def numerics(device: torch.device) -> str:
    """What the last digits of a sum depend on besides the code, in words."""
    if device.type != "cpu":
        return f"torch {torch.__version__}, {device_name(device)}"
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
