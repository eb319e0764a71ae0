"""What a trial's training costs beside a bare loop.

Every call trains a few steps, and step i of one is timed in the same block as step i of the other;
only ratios mean anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ablations.benchmarks.session import TimingConfig
from ablations.config import FOLDER, override, read_yaml, resolve_trial
from ablations.profile import read_profile
from ablations.store.identity import canonical_json
from ablations.tasks.task import load_task
from ablations.train.config import OPTIMIZER, TrainConfig
from ablations.train.loop import CURVE_POINTS, Trainer
from model.batch import IGNORE, Batch
from model.build import build

# Other libraries' warnings are their own business here.
pytestmark = pytest.mark.filterwarnings("ignore")

CPU = torch.device("cpu")
# A sample is one call, so that all callers are at the same step in every block.
TIMING = TimingConfig(
    processes=1, blocks=25, slow_blocks=25, warmup=2, sample_seconds=0.0, cap_seconds=150.0
)
STEPS = {"quick": 6, "full": 1}  # of a call
CALLS = TIMING.blocks + TIMING.warmup

Step = tuple[Batch, ...]


def settings(profile: str) -> dict[str, Any]:
    base = read_yaml(FOLDER / "base/g2p.yaml").values
    return resolve_trial(override(base, read_profile(profile).settings.values["g2p"]))


def trial(config: dict[str, Any], steps: int) -> Callable[[], None]:
    """A trial's own loop: batches are made, rates set, losses noted."""
    task, train = load_task(canonical_json(config["task"])), TrainConfig(**config["train"])
    model = build(config["model"], task.source_size, task.target_size, seed=0)
    trainer = Trainer(model, task, train, 0, CPU)
    stream = task.steps(0, train.budget)
    every = math.ceil(train.steps / CURVE_POINTS)
    model.train()

    def call() -> None:
        for parts in islice(stream, steps):
            trainer.step += 1
            norm = trainer.learn(parts)
            if trainer.step % every == 0:
                assert trainer.log(norm, lambda *_: None)

    return call


def bare(
    model: nn.Module, train: TrainConfig, ready: Sequence[Step], steps: int
) -> Callable[[], None]:
    """A training as a script would write it, on batches that are ready-made."""
    model.train()
    optimizer = OPTIMIZER.build(train.optimizer, parameters=model.parameters())
    counted = iter([(parts, sum(batch.tokens for batch in parts)) for parts in ready])

    def call() -> None:
        for parts, labels in islice(counted, steps):
            optimizer.zero_grad()
            for batch in parts:
                loss = F.cross_entropy(
                    model(batch).flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE,
                    reduction="sum", label_smoothing=train.label_smoothing,
                )  # fmt: skip
                (loss / labels).backward()
            if train.clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), train.clip)
            optimizer.step()

    return call


@pytest.mark.parametrize("profile", STEPS)
def test_the_loop_of_a_trial_beside_a_bare_one(
    beside: Any, capsys: pytest.CaptureFixture[str], profile: str
) -> None:
    config, steps = settings(profile), STEPS[profile]
    task, train = load_task(canonical_json(config["task"])), TrainConfig(**config["train"])
    ready = list(islice(task.steps(0, train.budget), CALLS * steps))
    model = build(config["model"], task.source_size, task.target_size, seed=0)
    calls = {"bare": bare(model, train, ready, steps), "trial": trial(config, steps)}
    seconds, ratios = beside(calls, TIMING)
    ratio, low, high = ratios["trial"]
    with capsys.disabled():
        print(f"\n{profile}: a trial's loop over a bare loop, one thread: {ratio:.3f} ", end="")
        print(f"({low:.3f} to {high:.3f}); {seconds['bare'] / steps * 1e3:.1f} ms a bare step")
