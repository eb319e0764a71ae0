"""What a trial's training costs: beside a bare loop, and beside torch's own model and batches.

Every call trains a few steps, and step i of one is timed in the same block as step i of the other;
only ratios mean anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest
import seq2seq
import torch
from peers import block_logs

from ablations.measure.timing import TimingConfig, time_blocks
from ablations.plan.profile import read_profile
from ablations.plan.resolve import resolve_trial
from ablations.plan.source import FOLDER, read_yaml
from ablations.plan.tree import replaced
from ablations.store.identity import freeze
from ablations.tasks.cache import load_task
from ablations.train.loop import CURVE_POINTS, Trainer
from ablations.train.settings import TrainConfig
from analysis.stats import ratio_ends
from model.batch import PAD, Batch
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
    tree = read_yaml(FOLDER / "base/g2p.yaml").values
    for path, value in (read_profile(profile).settings.values["g2p"] or {}).items():
        tree = replaced(tree, path, value)
    return resolve_trial(tree)


def real_tokens(parts: Step) -> int:
    """Letters and phones that are read, padding left out."""
    read = [tokens for batch in parts for tokens in (batch.source, batch.inputs)]
    return sum(int((tokens != PAD).sum()) for tokens in read if tokens is not None)


def trial(config: dict[str, Any], steps: int) -> Callable[[], None]:
    """A trial's own loop: batches are made, rates set, losses noted."""
    task, train = load_task(freeze(config["task"])), TrainConfig(**config["train"])
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
                assert trainer.note(norm, lambda *_: None)

    return call


def bare(
    model: torch.nn.Module, train: TrainConfig, ready: Sequence[Step], steps: int
) -> Callable[[], None]:
    loop = seq2seq.BareLoop(model, train)
    counted = iter([(parts, sum(batch.tokens for batch in parts)) for parts in ready])

    def call() -> None:
        for parts, labels in islice(counted, steps):
            loop.step(parts, labels)

    return call


def report(
    benchmark: Any, capsys: pytest.CaptureFixture[str], title: str, logs: list[float], note: str
) -> None:
    ratio, low, high = ratio_ends(logs)
    benchmark.extra_info.update(ratio=ratio, low=low, high=high)
    assert math.isfinite(ratio)
    with capsys.disabled():
        print(f"\n{title}, {torch.get_num_threads()} threads: ", end="")
        print(f"{ratio:.3f} ({low:.3f} to {high:.3f}); {note}")


@pytest.mark.parametrize("profile", STEPS)
def test_the_loop_of_a_trial_beside_a_bare_one(
    benchmark: Any, capsys: pytest.CaptureFixture[str], profile: str
) -> None:
    config, steps = settings(profile), STEPS[profile]
    task, train = load_task(freeze(config["task"])), TrainConfig(**config["train"])
    ready = list(islice(task.steps(0, train.budget), CALLS * steps))
    model = build(config["model"], task.source_size, task.target_size, seed=0)
    calls = {"trial": trial(config, steps), "bare": bare(model, train, ready, steps)}
    samples: dict[str, list[float]] = {}
    benchmark.pedantic(
        lambda: samples.update(time_blocks(calls, TIMING, CPU)), rounds=1, iterations=1
    )
    logs = block_logs(samples["trial"], samples["bare"])
    each = f"{sum(samples['bare']) / len(samples['bare']) / steps * 1e3:.1f} ms a bare step"
    report(benchmark, capsys, f"{profile}: a trial's loop over a bare loop", logs, each)


@pytest.mark.parametrize("profile", STEPS)
def test_real_tokens_a_second_beside_torch_transformer_on_shuffled_batches(
    benchmark: Any, capsys: pytest.CaptureFixture[str], profile: str
) -> None:
    config, steps = settings(profile), STEPS[profile]
    task, train = load_task(freeze(config["task"])), TrainConfig(**config["train"])
    ours = list(islice(task.steps(0, train.budget), CALLS * steps))
    words = round(sum(len(batch.labels) for parts in ours for batch in parts) / len(ours))
    batches = seq2seq.shuffled(task.pairs("train"), words)
    theirs = [(batch,) for batch in islice(batches, CALLS * steps)]
    model = seq2seq.TorchSeq2Seq(config["model"], task.source_size, task.target_size)
    same = build(config["model"], task.source_size, task.target_size, seed=0)
    counts = [sum(p.numel() for p in each.parameters()) for each in (model, same)]
    assert counts[0] == counts[1]
    calls = {"ours": trial(config, steps), "theirs": bare(model, train, theirs, steps)}
    samples: dict[str, list[float]] = {}
    benchmark.pedantic(
        lambda: samples.update(time_blocks(calls, TIMING, CPU)), rounds=1, iterations=1
    )
    a_token = {}
    for name, data in (("ours", ours), ("theirs", theirs)):
        read = [
            sum(map(real_tokens, data[call * steps : (call + 1) * steps]))
            for call in range(TIMING.warmup, CALLS)
        ]
        taken = samples[name]
        a_token[name] = [time / tokens for time, tokens in zip(taken, read, strict=False)]
    logs = block_logs(a_token["theirs"], a_token["ours"])
    rates = {name: len(times) / sum(times) for name, times in a_token.items()}
    note = f"{rates['ours']:,.0f} and {rates['theirs']:,.0f} tokens/s, {words} words a step"
    title = f"{profile}: real tokens a second over nn.Transformer's"
    report(benchmark, capsys, title, logs, note)
