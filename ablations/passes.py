"""The order of training: pass by pass, each with one seed or one pack of seeds."""

from __future__ import annotations

from collections.abc import Iterable

from ablations.expand import Trial
from ablations.facts import model_facts
from ablations.jobs import RunConfig, TrainingJob
from ablations.plan import Plan


class Passes:
    """Assigns each seed of trained trials to a pass, from 1; a pass has `pack` seeds."""

    def __init__(self, plan: Plan, pack: int) -> None:
        trained = [trial for trial in plan.trials.values() if trial.trained]
        seeds = list(dict.fromkeys(trial.config["seed"] for trial in trained))
        self.pack, self.count = pack, -(-len(seeds) // pack)
        self._number = {
            seed: 1 + rank * self.count // len(seeds) for rank, seed in enumerate(seeds)
        }

    def of(
        self, trials: Iterable[Trial], tried: set[str], config: RunConfig
    ) -> dict[int, list[TrainingJob]]:
        """Pass → its jobs, in the order of the plan; pass 0 needs no training.

        The seeds of a variant that are to be trained (`tried`) are packed into one job; a trial
        with a checkpoint resumes alone.
        """
        groups: dict[tuple[int, str], list[Trial]] = {}
        for trial in trials:
            number = self._number[trial.config["seed"]] if trial.trained else 0
            is_begun = config.results.unfinished(trial.id).exists()
            is_packed = self.pack > 1 and trial.id in tried and not is_begun
            is_packed = is_packed and can_pack(trial)
            group = str(trial.sections) if is_packed else trial.id
            groups.setdefault((number, group), []).append(trial)
        found: dict[int, list[TrainingJob]] = {}
        for (number, _), some in groups.items():
            found.setdefault(number, []).append(TrainingJob(some, config))
        return found


def can_pack(trial: Trial) -> bool:
    """Whether a trial can be trained as one model with its other seeds."""
    from ablations.train.config import OPTIMIZER

    model, train = trial.config["model"], trial.config["train"]
    if any(share for option, share in model.items() if option.endswith("dropout")):
        return False  # dropout would draw other random numbers
    modules = model_facts(trial.sections["model"], trial.sections["task"]).modules
    packages = {name.split(".")[0] for name in modules}
    packages |= {OPTIMIZER.component(train["optimizer"]["name"]).__module__.split(".")[0]}
    is_ours = packages <= {"torch", "model", "ablations"}  # others may mix replicas
    return trial.trained and not train["compile"] and is_ours
