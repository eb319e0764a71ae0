"""A stand-in accelerator for tests: torch finds it by its entry point when this folder is on the
path and STANDIN_DEVICES says how many devices there are. `standin.cpp` is the device."""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

NAME = "standin"
SOURCE = Path(__file__).with_name("standin.cpp")


def build() -> Path:
    """The compiled device: built once for this source and this torch."""
    digest = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    library = Path.home() / ".cache/ablations" / f"standin-{digest}.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    root, new = Path(torch.__file__).parent, library.with_suffix(f".{os.getpid()}")
    folders = [root / "include", root / "include/torch/csrc/api/include"]
    command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-std=c++20", *(f"-I{f}" for f in folders)]
    command += [str(SOURCE), "-o", str(new), f"-L{root / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(command, check=True)
    new.rename(library)
    return library


def autoload() -> None:
    """Make the device known to this process; called by `import torch`."""
    if not int(os.environ.get("STANDIN_DEVICES") or 0):
        return
    torch.ops.load_library(build())
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend()
    dist.Backend.register_backend("standin_gloo", ViaCPU, devices=[NAME])
    nn.Module.to = keeping_ties(nn.Module.to)
    atexit.register(time.sleep, 0.02)  # a thread of backward may still want the interpreter


def keeping_ties(move: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """As CUDA does: torch gives a module on a device of this kind new parameters, tied to none."""

    def moved(module: nn.Module, *where: Any, **how: Any) -> nn.Module:
        before = list(module.named_parameters(remove_duplicate=False))
        move(module, *where, **how)
        after: dict[int, nn.Parameter] = {}
        for path, old in before:
            owner, _, name = path.rpartition(".")
            holder = module.get_submodule(owner)
            setattr(holder, name, after.setdefault(id(old), getattr(holder, name)))
        return module

    return moved


# What torch asks of a device's module.


def is_available() -> bool:
    return device_count() > 0


def device_count() -> int:
    return int(os.environ["STANDIN_DEVICES"])


def current_device() -> int:
    return torch.accelerator.current_device_index()


def set_device(device: int) -> None:
    torch.accelerator.set_device_index(device)


def device(device: object) -> Any:
    return torch.accelerator.device_index(_index(device))


def synchronize(device: object = None) -> None:
    torch.accelerator.synchronize(device)


def get_device_name(device: object = None) -> str:
    return "stand-in"


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def _lazy_init() -> None:
    torch.ops.standin.open()


def _is_in_bad_fork() -> bool:
    return torch.ops.standin.is_bad_fork()


def manual_seed_all(seed: int) -> None:
    torch.ops.standin.seed(seed)


def get_rng_state(device: object = NAME) -> torch.Tensor:
    return torch.ops.standin.rng_state(_index(device))


def set_rng_state(state: torch.Tensor, device: object = NAME) -> None:
    torch.ops.standin.set_rng_state(state, _index(device))


def _index(device: object) -> int:
    index = device if isinstance(device, int) else torch.device(device).index
    return current_device() if index is None else index


class Done(dist._Work):
    def __init__(self, tensors: Any, devices: list[torch.device]) -> None:
        super().__init__()
        self._future = torch.futures.Future(devices=devices)
        self._future.set_result(tensors)

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def get_future(self) -> torch.futures.Future:
        return self._future


class ViaCPU(dist.ProcessGroup):
    """Gloo, by way of the CPU for tensors of the device."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def _run(self, name: str, tensors: list[torch.Tensor], *rest: Any) -> Done:
        hosts = [each.cpu() for each in tensors]
        getattr(self._gloo, name)(hosts, *rest).wait()
        for tensor, host in zip(tensors, hosts, strict=True):
            tensor.copy_(host)
        return Done(tensors, [each.device for each in tensors if each.device.type == NAME])

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> Done:
        return self._run("allreduce", tensors, options)

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> Done:
        return self._run("broadcast", tensors, options)

    def allgather(self, outputs: Any, tensors: list[torch.Tensor], options: Any) -> Done:
        hosts = [[each.cpu() for each in row] for row in outputs]
        self._gloo.allgather(hosts, [each.cpu() for each in tensors], options).wait()
        for row, host in zip(outputs, hosts, strict=True):
            for tensor, value in zip(row, host, strict=True):
                tensor.copy_(value)
        return Done(outputs, [each.device for each in tensors if each.device.type == NAME])

    def getBackendName(self) -> str:
        return "standin_gloo"
