"""run: whatever the results folder lacks."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from ablations.commands.arguments import count, duration, plan_of, results_of, trials


def arguments(parser: ArgumentParser) -> None:
    trials(parser)
    parser.add_argument("--jobs", type=count, help="trials at once; default: one per core")
    parser.add_argument("--device", help="default: the accelerator if there is one, else cpu")
    parser.add_argument(
        "--limit", type=duration, metavar="SECONDS", help="a job that takes longer is ended"
    )


def act(options: Namespace) -> int:
    plan, results = plan_of(options), results_of(options)
    from ablations.device import pick_device
    from ablations.estimate import days_ahead
    from ablations.expand import announce
    from ablations.launch.local import LocalLauncher
    from ablations.progress import roughly
    from ablations.runner import FAILED, run

    device = str(pick_device(options.device))
    jobs = options.jobs or (1 if device != "cpu" else os.cpu_count() or 1)
    if device == "cpu" and (seconds := days_ahead(plan, results, jobs)):
        cores = f"{jobs} core{'s' * (jobs > 1)}"
        print(f"This takes {roughly(seconds)} on {cores}; it may be stopped.", file=sys.stderr)
    announce(want.config["task"] for want in plan.wanted.values())
    with LocalLauncher(jobs, preload=["torch", "ablations.warm"]) as launcher:
        counts = run(
            plan, results, launcher, device, options.imports, options.rerun, limit=options.limit
        )
    ended = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    print(f"{len(plan.wanted)} trials in {results.root}; {ended or 'nothing was left to run'}")
    return 1 if any(counts[status] for status in FAILED) else 0
