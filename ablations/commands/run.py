"""run: runs what a results folder lacks, here or on a cluster."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ablations.commands.arguments import Machine, machine_of, plan_of, results_of
from ablations.commands.pages import print_answers, print_state, write_page
from ablations.commands.terminal import complain
from ablations.store.words import first_line
from model.config import ConfigError

if TYPE_CHECKING:
    import torch

    from ablations.launch import Launcher
    from ablations.plan import Plan
    from ablations.runner import AfterPass
    from ablations.store.results import Results

CLUSTER_OPTIONS = {"address": "ray", "trust_cluster": "ray", "cluster": "slurm"}
"""Options that only one launcher understands."""


def act(options: Namespace) -> int:
    plan, results = plan_of(options), results_of(options)
    from ablations.runner import EARLIER
    from ablations.store.schema import FAILED

    def after_pass(number: int, of: int) -> None:
        with harmless():
            print_state(plan, results, number, of)
            write_page(results)
        print()

    counts = run_plan(plan, results, options, after_pass)
    earlier = counts.pop(EARLIER, 0)
    words = [f"{number} {status}" for status, number in sorted(counts.items())]
    ended = ", ".join(words) or "nothing was left to run"
    again = f"; {earlier} failed earlier: --rerun failed tries them again" if earlier else ""
    print(f"{len(plan.trials)} trials in {results.root}; {ended}{again}")
    if results.plan_file.exists():
        with harmless():
            print_answers(plan, results, options.claim)
            page = results.root / "report" / "index.html"
            is_old = not page.exists() or page.stat().st_mtime < results.plan_file.stat().st_mtime
            if counts or is_old:
                write_page(results)
            else:
                print(f"\nThe page: {page}")
    return 1 if earlier or any(counts[status] for status in FAILED) else 0


def run_plan(
    plan: Plan, results: Results, options: Namespace, after_pass: AfterPass = lambda *_: None
) -> Counter[str]:
    """Run what the folder lacks where the options say; count how trials ended."""
    from ablations.jobs import RunConfig
    from ablations.runner import run
    from ablations.tasks.task import announce

    with announce(trial.config["task"] for trial in plan.trials.values()):
        launcher, on = launcher_of(options, results)
        config = RunConfig(
            plan,
            results,
            str(on.device),
            options.imports,
            options.rerun,
            options.limit,
            accelerators=0.0 if on.device.type == "cpu" else 1.0,
            workers=max(1, on.jobs // on.accelerators),
            devices=on.devices,
            pack=options.pack,
        )
        with launcher:
            return run(config, launcher, after_pass)


@contextlib.contextmanager
def harmless() -> Iterator[None]:
    """A report that fails does not fail the run: say what went wrong and go on."""
    try:
        yield
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        complain(f"not shown ({why}); the records are kept")


def launcher_of(options: Namespace, results: Results) -> tuple[Launcher, Machine]:
    """The launcher of the jobs, and the machine or cluster that it uses."""
    if options.devices > 1 and options.pack > 1:
        raise ConfigError(["--pack and --devices do not go together: leave one out"])
    for name, on in CLUSTER_OPTIONS.items():
        if getattr(options, name) and options.on != on:
            raise ConfigError([f"--{name.replace('_', '-')} is for --on {on}: leave it out"])
    if options.on == "local":
        from ablations.launch.local import LocalLauncher

        here = machine_of(options)
        settle = "ablations.train.device:settle" if here.accelerators > 1 else None
        preload = ["torch", "ablations.preload"]
        return LocalLauncher(here.jobs, preload, devices=here.accelerators, settle=settle), here
    import torch

    device = None if options.device is None else remote_device(options.device, options.devices)
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
        device = device or remote_device(str(profile.device), options.devices)
        launcher = slurm = SlurmLauncher(results.root / "slurm", profile, options.jobs)
        held = slurm.capacity
    return launcher, Machine(device, launcher.capacity, held, options.devices)


def remote_device(word: str, devices: int) -> torch.device:
    """A device of another machine: only its name can be checked here."""
    import torch

    try:
        device = torch.device(word)
    except RuntimeError as error:
        problem = f"--device {word[:100]}: no such device ({first_line(error)})"
        raise ConfigError([problem]) from None
    if devices > 1 and device.index is not None:
        raise ConfigError([f"--devices {devices}: say --device {device.type}, without a number"])
    return device
