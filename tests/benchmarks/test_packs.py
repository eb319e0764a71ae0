"""What packing seeds gains on this machine: a step of each, as one model over one after another.

On a CPU, which waits for no launches, that is little or nothing; the trend with size shows why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ablations.measure.timing import TimingConfig, time_blocks
from ablations.plan.resolve import resolve_trial
from ablations.plan.source import FOLDER, read_yaml
from ablations.plan.tree import replaced
from ablations.store.identity import freeze
from ablations.tasks.cache import load_task
from ablations.train.loop import Trainer
from ablations.train.pack import Pack
from ablations.train.settings import TrainConfig
from analysis.stats import timing_ratio
from model.build import build

CPU = torch.device("cpu")
SEEDS = range(5)
TIMING = TimingConfig(
    processes=1, blocks=15, slow_blocks=15, warmup=2, sample_seconds=0.0, cap_seconds=120.0
)
SIZES: dict[str, dict[str, Any]] = {
    "recall, small": {"train.batch_tokens": 256, "model.d_model": 16, "model.n_heads": 2},
    "recall": {},
    "copy": {},
}


def steps(name: str, changes: dict[str, Any]) -> dict[str, Callable[[], None]]:
    """One step of every seed, packed and one after another; all read the same batches."""
    tree = read_yaml(FOLDER / f"base/{name.partition(',')[0]}.yaml").values
    for path, value in changes.items():
        tree = replaced(tree, path, value)
    config = resolve_trial(tree)
    task, train = load_task(freeze(config["task"])), TrainConfig(**config["train"])

    def drawn() -> list[torch.nn.Module]:
        sizes = task.source_size, task.target_size
        return [build(config["model"], *sizes, seed) for seed in SEEDS]

    def streams() -> Any:
        return zip(*(task.steps(seed, train.budget) for seed in SEEDS), strict=True)

    pack, together = Pack(drawn(), task, train, SEEDS, CPU), streams()
    each = [Trainer(m, task, train, seed, CPU) for m, seed in zip(drawn(), SEEDS, strict=True)]
    apart = streams()
    pack.step = 1

    def packed() -> None:
        pack.learn(next(together))

    def singly() -> None:
        for trainer, parts in zip(each, next(apart), strict=True):
            trainer.step = 1
            trainer.learn(parts)

    return {"packed": packed, "singly": singly}


@pytest.mark.parametrize("name", SIZES)
def test_packed_seeds_beside_single_ones(
    benchmark: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    calls = steps(name, SIZES[name])
    samples: dict[str, list[float]] = {}
    benchmark.pedantic(
        lambda: samples.update(time_blocks(calls, TIMING, CPU)), rounds=1, iterations=1
    )
    ratio = timing_ratio(samples["packed"], samples["singly"])
    benchmark.extra_info.update(vars(ratio))
    a_step = sum(samples["singly"]) / len(samples["singly"]) / len(SEEDS)
    with capsys.disabled():
        print(f"\n{name}: a step of {len(SEEDS)} seeds packed over one after another, ", end="")
        print(f"{torch.get_num_threads()} threads: {ratio.ratio:.2f} ", end="")
        print(f"({ratio.low:.2f} to {ratio.high:.2f}); {a_step * 1e3:.1f} ms a step alone")
