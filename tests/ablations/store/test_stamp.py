"""The fingerprint of the code that made a trial's numbers: code counts, prose does not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ablations.plan.code import code
from ablations.plan.merge import expand
from ablations.plan.profile import read_profile
from ablations.plan.question import catalogue, read_ablation
from ablations.store import stamp
from ablations.store.frozen import freeze
from ablations.tasks.g2p import G2P
from model.build import build

Rewrite = Callable[[str], str]

PART = '''
"""A part from elsewhere."""
from torch import nn
from model.norm import LayerNorm

class Part(nn.Module):
    """It doubles."""

    factor: int = 2
    """By how much."""

    def forward(self, x):
        """Doubled."""
        # every number
        return x * self.factor
'''


def forget() -> None:
    for cached in vars(stamp).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


@pytest.fixture
def rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rewrite]:
    """Writes the part's file anew and gives the digest of a model that uses it."""
    file = tmp_path / "part_from_elsewhere.py"
    file.write_text(PART)
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("part_from_elsewhere").Part()
    monkeypatch.delitem(sys.modules, "part_from_elsewhere")

    def digest(text: str) -> str:
        file.write_text(text)
        forget()
        return stamp.digest(model, G2P(G2P.Config(words=10, valid_words=1, test_words=1)))

    yield digest
    forget()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A part from elsewhere."""', '"""Another sentence."""'),
        ('"""A part from elsewhere."""', ""),
        ('    """It doubles."""\n', ""),
        ('"""By how much."""', '"""Times."""'),
        ('        """Doubled."""\n', '        """Twice\n        as much."""\n'),
        ("# every number", "# each of them"),
        ("        # every number\n", "\n\n\n"),
        ("x * self.factor", "(x   *   self.factor)"),
    ],
)
def test_prose_and_layout_do_not_count(rewrite: Rewrite, old: str, new: str) -> None:
    assert old in PART
    assert rewrite(PART.replace(old, new)) == rewrite(PART)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= 2", "= 3"),
        ("x * self.factor", "self.factor * x"),
        ("factor: int", "factor: float"),
        ("return x", "return 'x'"),
        ("from model.norm import LayerNorm", "from model.residual import PreNorm"),
    ],
)
def test_code_counts(rewrite: Rewrite, old: str, new: str) -> None:
    assert old in PART
    assert rewrite(PART.replace(old, new)) != rewrite(PART)


def test_a_fingerprint_is_twelve_hex_digits_that_come_again(rewrite: Rewrite) -> None:
    first = rewrite(PART)
    assert rewrite(PART) == first
    assert len(first) == 12
    assert set(first) <= set("0123456789abcdef")


def modules(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> set[str]:
    """The modules that count for a transformer with these choices."""
    counted: set[str] = set()

    def note(name: str) -> str:
        counted.add(name)
        return ""

    monkeypatch.setattr(stamp, "_syntax", note)
    written = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "n_heads": 2}
    task = G2P(G2P.Config(words=10, valid_words=1, test_words=1))
    chosen = changes.pop("model", {**written, **changes})
    stamp.digest(build(chosen, task.source_size, task.target_size, seed=None), task)
    return counted


def test_what_a_trial_uses_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert modules(monkeypatch) >= {
        "model.transformer",
        "model.block",
        "model.attention",
        "model.embedding",
        "model.mixer.attention",
        "model.position.sinusoidal",
        "model.initialise",
        "model.loss",
        "model.batch",
        "model.generate",
        "ablations.train.loop",
        "ablations.train.optimiser",
        "ablations.tasks.g2p",
        "ablations.tasks.batches.padded",
        "ablations.tasks.data.stem",
    }


def test_how_parts_are_joined_to_a_model_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides, for one, what token vectors are multiplied by."""
    assert "model.build" in modules(monkeypatch)


def test_a_part_that_is_not_used_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = modules(monkeypatch)
    assert not {name for name in plain if name.startswith("model.recurrent")}
    assert "model.position.learned" not in plain
    assert "model.position.learned" in modules(monkeypatch, position="learned")


def test_a_rival_model_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = modules(monkeypatch, model={"name": "recurrent", "d_model": 8})
    assert "model.recurrent.seq2seq" in counted
    assert not counted & {"model.transformer", "model.block", "model.mixer.attention"}


def test_what_only_plans_shows_or_stores_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = {"commands", "plan", "expand", "runner", "progress", "worker", "timing", "config"}
    assert not modules(monkeypatch) & {f"ablations.{name}" for name in beside}


def test_variants_of_other_parts_are_made_by_other_code() -> None:
    ablation, source = read_ablation(catalogue()["position"])
    cells = expand(ablation, source, read_profile("smoke"), {}, [0, 1])
    made_by = {
        (cell.label, cell.seed): code(
            *(freeze(cell.config[part]) for part in ("model", "task", "train"))
        )
        for cell in cells
    }
    assert len(set(made_by.values())) == len(ablation.variants)
    assert all(made_by[label, 0] == made_by[label, 1] for label in ablation.variants)
