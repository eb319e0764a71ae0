"""run --on: where the jobs go."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from ablations.commands.arguments import Machine, machine, machine_of, packing_of
from model.config import ConfigError

if TYPE_CHECKING:
    import torch

    from ablations.launch import Launcher
    from ablations.store.results import Results

OPTIONS = {"address": "ray", "trust_cluster": "ray", "cluster": "slurm"}
"""What only one launcher understands."""


def launching(parser: ArgumentParser) -> None:
    machine(parser)
    parser.add_argument(
        "--on",
        choices=("local", "ray", "slurm"),
        default="local",
        help="this machine, a Ray cluster or Slurm; --jobs is then how many run there at once",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="of a Ray cluster; default: RAY_ADDRESS, or one is started here",
    )
    parser.add_argument(
        "--trust-cluster",
        action="store_true",
        help="also a Ray cluster that other machines can reach without a token",
    )
    parser.add_argument(
        "--cluster", metavar="FILE.yaml", help="partition, time limit and so on, for Slurm"
    )


def launcher_of(options: Namespace, results: Results) -> tuple[Launcher, Machine]:
    """Where the jobs go, and what there is."""
    for name, place in OPTIONS.items():
        if getattr(options, name) and options.on != place:
            raise ConfigError([f"--{name.replace('_', '-')} is for --on {place}: leave it out"])
    if options.on == "local":
        from ablations.launch.local import LocalLauncher

        on = machine_of(options)
        settle = "ablations.train.device:settle" if on.accelerators > 1 else None
        preload = ["torch", "ablations.preload"]
        return LocalLauncher(on.jobs, preload, devices=on.accelerators, settle=settle), on
    import torch

    pack = packing_of(options)
    device = None if options.device is None else device_of(options.device, options.devices)
    launcher: Launcher
    if options.on == "ray":
        from ablations.launch.ray import RayLauncher

        launcher = ray = RayLauncher(
            options.jobs, options.address, options.imports, options.trust_cluster, options.device
        )
        device, held = torch.device(ray.device), max(1, ray.accelerators)
    else:
        from ablations.launch.slurm import SlurmLauncher, read_slurm_profile

        profile = read_slurm_profile(options.cluster)
        if device is None and profile.device is None:
            fix = "--device cpu or cuda, or `device:` in the file of --cluster"
            raise ConfigError([f"--on slurm: say what jobs compute on: {fix}"])
        device = device or device_of(str(profile.device), options.devices)
        launcher = slurm = SlurmLauncher(results.root / "slurm", profile, options.jobs)
        held = slurm.capacity
    return launcher, Machine(device, launcher.capacity, held, pack, options.devices)


def device_of(word: str, devices: int) -> torch.device:
    """A device of other machines, which cannot be tried here."""
    import torch

    try:
        device = torch.device(word)
    except RuntimeError as error:
        why = str(error).splitlines()[0]
        raise ConfigError([f"--device {word[:100]}: no such device ({why})"]) from None
    if devices > 1 and device.index is not None:
        raise ConfigError([f"--devices {devices}: say --device {device.type}, without a number"])
    return device
