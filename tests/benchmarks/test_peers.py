"""How fast the one configurable decoder is beside decoders that do one thing.

Times are taken side by side in randomised blocks of one run; only their ratios mean anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import peers
import pytest
import torch

from ablations.benchmarks.session import TimingConfig
from model.flops import count
from model.generate import Question, greedy

# Other libraries' warnings are their own business here.
pytestmark = pytest.mark.filterwarnings("ignore")

TIMING = TimingConfig(
    processes=1, blocks=15, slow_blocks=15, warmup=3, sample_seconds=0.1, cap_seconds=120.0
)
GEMM = 1024
# How many times as long a peer should take, beyond as long.
AIMS = {("training step", peers.SIZES[1], "nn.TransformerEncoder"): 1.15}
GENERATION_AIM = {1: 1.5, 16: 1.0}


def against(aim: float, ends: tuple[float, ...]) -> str:
    """A ratio with its interval, and whether it reaches an aim, as far as the interval tells."""
    ratio, low, high = ends
    word = "met" if low >= aim else "missed" if high < aim else "not resolved"
    return f"{ratio:.2f} ({low:.2f} to {high:.2f}), aim {aim:.2f}: {word}"


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


@pytest.mark.parametrize("size", peers.SIZES, ids=str)
@pytest.mark.parametrize("what", ["training step", "forward"])
def test_the_decoder_beside_its_peers(
    beside: Any, capsys: pytest.CaptureFixture[str], size: peers.Size, what: str
) -> None:
    built = {name: make(size) for name, make in peers.PEERS.items()}
    prepare = peers.training_step if what == "training step" else peers.forward_pass
    calls = {name: prepare(peer, tokens(size)) for name, peer in built.items()}
    seconds, ratios = beside({**calls, "matrix product": matrix_product()}, TIMING)
    with torch.device("meta"):
        work = count(peers.ours(size).model, None, size.length).flops_per_token
    work *= size.length * size.batch * (3 if what == "training step" else 1)
    share = work / seconds["ours"] * seconds["matrix product"] / (2 * GEMM**3)
    with capsys.disabled():
        print(f"\n{what}, {size}, one core: time over ours, 95 % interval")
        for name, peer in built.items():
            told = against(AIMS.get((what, size, name), 1.0), ratios[name])
            print(f"  {name:<24}{told:<46}{peer.parameters:,} parameters, {peer.settings}")
            if not name.startswith("our"):  # x-transformers' attention has no biases: 0.7 % fewer
                assert peer.parameters == pytest.approx(built["ours"].parameters, rel=0.01)
        print(f"  ours: {share:.0%} of the rate of a matrix product (aim at 256x4: 60%)")


@pytest.mark.parametrize("batch", [1, 16])
def test_cached_greedy_generation_beside_hugging_face(
    beside: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
) -> None:
    size = peers.Size(128, 4, 4, 160, batch)
    mine, theirs = peers.ours(size), peers.hugging_face(size)
    prompt, new = tokens(size)[:, :32].contiguous(), 96

    monkeypatch.setattr("model.generate.EOS", -1)  # never chosen, so both write every token

    def ask_ours() -> None:
        greedy(mine.model, Question(prompt=prompt), new)

    def ask_theirs() -> None:
        theirs.model.eval()
        theirs.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, min_new_tokens=new,
            do_sample=False, use_cache=True, pad_token_id=0,
        )  # fmt: skip

    _, ratios = beside({"ours": ask_ours, "Hugging Face": ask_theirs}, TIMING)
    with capsys.disabled():
        told = against(GENERATION_AIM[batch], ratios["Hugging Face"])
        print(f"\n{new} tokens after 32, {size}: Hugging Face's time over ours {told}")
