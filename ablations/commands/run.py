"""run: whatever the results folder lacks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ablations.commands.arguments import duration, machine, machine_of, plan_of, results_of, trials
from model.arguments import complain


def arguments(parser: ArgumentParser) -> None:
    trials(parser)
    machine(parser)
    parser.add_argument(
        "--limit", type=duration, metavar="SECONDS", help="a job that takes longer is ended"
    )


def act(options: Namespace) -> int:
    plan, results = plan_of(options), results_of(options)
    from ablations.plan.estimate import days_ahead
    from ablations.store.schema import FAILED
    from ablations.sweep.calibrate import clock
    from ablations.sweep.launch.local import LocalLauncher
    from ablations.sweep.progress import roughly
    from ablations.sweep.runner import EARLIER, run
    from ablations.tasks.cache import announce

    on = machine_of(options)
    with (
        announce(want.config["task"] for want in plan.wanted.values()),
        LocalLauncher(on.jobs, preload=["torch", "ablations.sweep.preload"]) as launcher,
    ):
        steps = clock(launcher, str(on.device), options.imports)
        if seconds := days_ahead(plan, results, options.rerun, on.device, on.at_once, steps):
            complain(f"This takes {roughly(seconds)} on {on}; it may be stopped.")
        counts = run(
            plan,
            results,
            launcher,
            str(on.device),
            options.imports,
            options.rerun,
            limit=options.limit,
        )
    earlier = counts.pop(EARLIER, 0)
    ended = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    told = [f"{len(plan.wanted)} trials in {results.root}", ended or "nothing was left to run"]
    told += [f"{earlier} failed earlier: --rerun failed tries them again"] if earlier else []
    print("; ".join(told))
    return 1 if earlier or any(counts[status] for status in FAILED) else 0
