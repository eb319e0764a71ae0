"""How fast the one configurable decoder is beside decoders that do one thing.

Times are taken side by side in randomised blocks of one run; only their ratios mean anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import peers
import pytest
import torch

from ablations.benchmarks.timing import TimingConfig, time_blocks
from analysis.stats import ratio_ends
from model.flops import flops_per_token

# Other libraries' warnings are their own business here.
pytestmark = pytest.mark.filterwarnings("ignore")

CPU = torch.device("cpu")
TIMING = TimingConfig(
    processes=1, blocks=15, slow_blocks=15, warmup=3, sample_seconds=0.1, cap_seconds=120.0
)
GEMM = 1024
# How many times as long a peer should take, beyond as long; and the share of the peak.
AIMS = {("training step", peers.SIZES[1], "nn.TransformerEncoder"): 1.15}
PEAK_AIMS = {("training step", peers.SIZES[2]): 0.6}
GENERATION_AIM = {1: 1.5, 16: 1.0}


def over_blocks(samples: Sequence[float], reference: Sequence[float]) -> dict[str, float]:
    """A ratio of times and its interval over the blocks of this process."""
    ends = ratio_ends(np.log(np.divide(samples, reference)).tolist())
    return dict(zip(("ratio", "low", "high"), ends, strict=True))


def verdict(low: float, high: float, aim: float) -> str:
    """Whether an aim is met, as far as the interval tells."""
    word = "met" if low >= aim else "missed" if high < aim else "not resolved"
    return f"aim {aim:.2f}: {word}"


def tokens(size: peers.Size) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    shape = (size.batch, size.length + 1)
    return torch.randint(3, peers.VOCABULARY, shape, generator=generator)


def matrix_product() -> Callable[[], None]:
    a, b = torch.randn(GEMM, GEMM), torch.randn(GEMM, GEMM)
    out = torch.empty(GEMM, GEMM)

    def multiply() -> None:
        torch.mm(a, b, out=out)

    return multiply


def table(title: str, rows: list[tuple[str, ...]]) -> None:
    print(f"\n{title}")
    for row in rows:
        print(
            "  " + "".join(f"{cell:<24}" if i != 2 else f"{cell:<22}" for i, cell in enumerate(row))
        )


@pytest.mark.parametrize("size", peers.SIZES, ids=str)
@pytest.mark.parametrize("what", ["training step", "forward"])
def test_the_decoder_beside_its_peers(
    benchmark: Any, capsys: pytest.CaptureFixture[str], size: peers.Size, what: str
) -> None:
    built = {name: make(size) for name, make in peers.PEERS.items()}
    prepare = peers.training_step if what == "training step" else peers.forward_pass
    calls = {name: prepare(peer, tokens(size)) for name, peer in built.items()}
    calls["matrix product"] = matrix_product()
    samples: dict[str, list[float]] = {}
    benchmark.pedantic(
        lambda: samples.update(time_blocks(calls, TIMING, CPU)), rounds=1, iterations=1
    )
    with torch.device("meta"):
        work = flops_per_token(peers.ours(size).model, None, size.length)
    work *= size.length * size.batch * (3 if what == "training step" else 1)
    peak = 2 * GEMM**3 / min(samples["matrix product"])
    share = work / (sum(samples["ours"]) / len(samples["ours"])) / peak
    rows = []
    for name, peer in built.items():
        ends = over_blocks(samples[name], samples["ours"])
        ratio, low, high = ends.values()
        faster, aim = f"{ratio:.2f}", ""
        if name != "ours":
            faster += f" ({low:.2f} to {high:.2f})"
        if not name.startswith("our"):  # our LSTM is there to be seen, not to be beaten
            aim = verdict(low, high, AIMS.get((what, size, name), 1.0))
            # x-transformers' attention has no biases: 0.7 % fewer.
            assert peer.parameters == pytest.approx(built["ours"].parameters, rel=0.01)
        rows.append((name, faster, f"{peer.parameters:,} parameters", aim, peer.settings))
        benchmark.extra_info[name] = {**ends, "parameters": peer.parameters}
        assert math.isfinite(ratio)
    benchmark.extra_info["share of matrix-product peak"] = share
    with capsys.disabled():
        table(f"{what}, {size}, one core: time over ours, 95 % interval", rows)
        aimed = PEAK_AIMS.get((what, size))
        aim = f" (aim {aimed:.0%})" if aimed else ""
        print(f"  ours reaches {share:.0%} of this machine's matrix-product peak{aim}")


@pytest.mark.parametrize("batch", [1, 16])
def test_cached_greedy_generation_beside_hugging_face(
    benchmark: Any, capsys: pytest.CaptureFixture[str], batch: int
) -> None:
    from model.generate import Question, generate

    size = peers.Size(128, 4, 4, 160, batch)
    mine, theirs = peers.ours(size), peers.hugging_face(size)
    prompt, new = tokens(size)[:, :32].contiguous(), 96

    def ask_ours() -> None:  # EOS is never chosen, so both write every token
        generate(
            mine.model, Question(prompt=prompt), new, lambda logits: logits[:, 3:].argmax(-1) + 3
        )

    def ask_theirs() -> None:
        theirs.model.eval()
        theirs.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, min_new_tokens=new,
            do_sample=False, use_cache=True, pad_token_id=0,
        )  # fmt: skip

    samples: dict[str, list[float]] = {}
    calls = {"ours": ask_ours, "Hugging Face": ask_theirs}
    benchmark.pedantic(
        lambda: samples.update(time_blocks(calls, TIMING, CPU)), rounds=1, iterations=1
    )
    ends = over_blocks(samples["Hugging Face"], samples["ours"])
    ratio, low, high = ends.values()
    benchmark.extra_info.update(ends)
    assert math.isfinite(ratio)
    with capsys.disabled():
        text = f"{ratio:.2f} ({low:.2f} to {high:.2f})"
        aim = verdict(low, high, GENERATION_AIM[batch])
        title = f"{new} tokens after 32, {size}: time over ours"
        settings = "greedy, key-value cache in both"
        table(title, [("Hugging Face generate", text, "", aim, settings)])
