"""tune: try each experiment's grid for every variant, and keep the best settings for later runs."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from ablations.commands.arguments import planning, results_of
from ablations.commands.run import run_plan
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.expand import Trial
    from ablations.spec import Experiment


def act(options: Namespace) -> int:
    results = results_of(options)
    with planning(options) as (asked, notes):
        import ablations.tuning as tuning
        from ablations.expand import as_written, size
        from ablations.plan import Plan, check_size, read_experiments, without_problems
        from ablations.profile import read_profile
        from ablations.spec import experiments
        from ablations.store.identity import TUNING

        plan = Plan(read_profile(options.profile), options.overrides, options.factors, notes=notes)
        tuned = [each for each in read_experiments(asked, plan) if each.tune]
        if not tuned:
            raise ConfigError(["none of these experiments has a `tune:` grid"])
        if typed := [path for each in tuned for path in each.tune if path in options.overrides]:
            raise ConfigError([f"{typed[0]} is set on the command line: leave it out to tune it"])
        if not options.large:
            settings = {each.name: len(tuning.settings_in(each.tune)) for each in tuned}
            check_size({each.name: settings[each.name] * size(each, TUNING) for each in tuned})

        def tried(experiment: Experiment) -> list[tuple[Trial, list[Trial]]]:
            variants = as_written(experiment, plan.profile, plan.overrides, plan.factors)
            return [(each, tuning.tuning_trials(each, experiment)) for each in variants]

        grids = without_problems(tuned, tried)
        for _, trials in (each for grid in grids for each in grid):
            plan.add(trials)
    run_plan(plan, results, options)
    for experiment, grid in zip(tuned, grids, strict=True):
        choices = [
            tuning.choose(variant, experiment, tuning.losses_of(trials, results))
            for variant, trials in grid
        ]
        path = tuning.keep_choices(results, experiment.name, choices)
        for choice in choices:
            print(f"{experiment.name}: {tuning.in_words(choice)}")
        print(f"{experiment.name}: kept in {path}")
        if experiment.name in experiments() and not (options.overrides or options.factors):
            there = tuning.committed(experiment.name, options.profile)
            print(f"To use them in other folders: cp {path} {there}")
    return 0
