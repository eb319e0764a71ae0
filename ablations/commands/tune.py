"""tune: try each experiment's grid for every variant, and keep the best settings for later runs."""

from __future__ import annotations

from argparse import Namespace

from ablations.commands.arguments import planning, results_of
from ablations.commands.run import run_plan
from model.config import ConfigError


def act(options: Namespace) -> int:
    results = results_of(options)
    with planning(options) as (asked, notes):
        from ablations.expand import as_written, size
        from ablations.plan import Plan, check_size, read_experiments, without_problems
        from ablations.profile import read_profile
        from ablations.spec import experiments
        from ablations.store.identity import TUNING
        from ablations.tuning import (
            choose,
            committed,
            in_words,
            keep_choices,
            losses_of,
            settings_in,
            tuning_trials,
        )

        plan = Plan(read_profile(options.profile), options.overrides, options.factors, notes=notes)
        tuned = [each for each in read_experiments(asked, plan) if each.tune]
        if not tuned:
            raise ConfigError(["none of these experiments names what to tune"])
        if typed := [path for each in tuned for path in each.tune if path in options.overrides]:
            raise ConfigError([f"{typed[0]} is set on the command line: leave it out to tune it"])
        if not options.large:
            settings = {each.name: len(settings_in(each.tune)) for each in tuned}
            check_size({each.name: settings[each.name] * size(each, TUNING) for each in tuned})
        layers = plan.profile, plan.overrides, plan.factors
        variants = without_problems(tuned, lambda each: as_written(each, *layers))
        grids = without_problems(
            tuned,
            lambda each: [tuning_trials(variant, each) for variant in variants[tuned.index(each)]],
        )
        for tried in (trials for grid in grids for trials in grid):
            plan.add(tried)
    run_plan(plan, results, options)
    for experiment, own, grid in zip(tuned, variants, grids, strict=True):
        made = [
            choose(variant, experiment, losses_of(tried, results))
            for variant, tried in zip(own, grid, strict=True)
        ]
        path = keep_choices(results, experiment.name, made)
        for choice in made:
            print(f"{experiment.name}: {in_words(choice)}")
        print(f"{experiment.name}: kept in {path}")
        if experiment.name in experiments() and not (options.overrides or options.factors):
            there = committed(experiment.name, options.profile)
            print(f"To go by them in other folders: cp {path} {there}")
    return 0
