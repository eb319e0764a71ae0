"""Published models: their sizes, and that their files say everything."""

from __future__ import annotations

import pytest
import torch

from model.build import build, resolve
from model.flops import parameters
from model.presets import load, names

PUBLISHED = {
    "gpt2": 124_439_808,
    "bert-base": 108_891_648,  # with two segments and the embedding's norm, without the pooler
    "bert-classifier": 109_483_778,
    "t5-small": 60_506_624,
    "tinyllama": 1_100_048_384,
    "bloom-560m": 559_214_592,
    "bart-base": 139_420_416 - 2 * 2 * 768,  # two tables of positions begin with two dead rows
}
PAPER = {"transformer-base": 65e6, "transformer-big": 213e6}  # Vaswani et al. 2017, table 3


def counted(name: str) -> int:
    preset = load(name)
    with torch.device("meta"):
        return parameters(build(preset.model, preset.source_size, preset.target_size, None))


def test_every_preset_has_as_many_parameters_as_the_published_checkpoint() -> None:
    assert sorted(PUBLISHED | PAPER) == names()
    for name in PUBLISHED:
        assert counted(name) == PUBLISHED[name]
    for name in PAPER:
        assert counted(name) == pytest.approx(PAPER[name], rel=0.035)


def test_a_preset_writes_out_every_value() -> None:
    """A d_head of null says that it follows from d_model and n_heads: change one, and it moves."""
    for name in names():
        written = load(name).model
        d_head = written["d_head"] or written["d_model"] // written["n_heads"]
        assert {**written, "d_head": d_head} == resolve(written)
