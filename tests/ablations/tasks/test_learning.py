"""Every task is learned by its control at the quick profile, clearly better than the trivial."""

from __future__ import annotations

import pytest
import torch

from ablations.config import FOLDER, read_yaml, resolve_trial
from ablations.evaluations.quality import Quality
from ablations.store.identity import canonical_json
from ablations.tasks.task import load_task
from ablations.train.config import TrainConfig
from ablations.train.loop import train
from model.build import build

CPU = torch.device("cpu")
# The metric that tells, and the least share of the way from trivial to perfect that is clear.
CLEARLY = {
    "g2p": ("per", 0.7),
    "text": ("bits_per_character", 0.35),
    "translation": ("chrf", 0.2),
    "copy": ("sequence_accuracy", 0.9),
    "reverse": ("sequence_accuracy", 0.9),
    "sort": ("sequence_accuracy", 0.9),
    "recall": ("accuracy", 0.9),
    "pair": ("accuracy", 0.9),
    "listops": ("accuracy", 0.2),
}
PERFECT = {"chrf": 100.0, "per": 0.0, "bits_per_character": 0.0}


def test_every_task_is_here() -> None:
    assert set(CLEARLY) == {path.stem for path in (FOLDER / "base").glob("*.yaml")}


@pytest.mark.soak
@pytest.mark.parametrize("name", CLEARLY)
def test_a_task_is_learned(name: str) -> None:
    torch.set_num_threads(1)
    config = resolve_trial(read_yaml(FOLDER / "base" / f"{name}.yaml").values)
    task = load_task(canonical_json(config["task"]))
    model = build(config["model"], task.source_size, task.target_size, seed=0)
    training = train(model, task, TrainConfig(**config["train"]), 0, CPU, lambda *_: None)
    taken = Quality().measure(model, task, CPU, config["train"]["steps"])
    metric, share = CLEARLY[name]
    found = {
        r.metric: r.value
        for r in taken.measurements
        if r.split == "test" and set(r.coordinates) <= {"step"}
    }
    reached, trivial = found[metric], found[f"trivial_{metric}"]
    assert (training.status, training.reason) == ("ok", None)
    assert (reached - trivial) / (PERFECT.get(metric, 1.0) - trivial) > share
    assert taken.examples
