"""The fingerprint of the code that made a trial's numbers: code counts, prose does not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.config import resolve_trial
from ablations.expand import expand
from ablations.facts import source_code, training_code
from ablations.profile import read_profile
from ablations.spec import experiments, read_experiment
from ablations.store.identity import canonical_json
from ablations.store.stamp import changed, digest_of, stamp
from ablations.train.config import OPTIMIZER, SCHEDULE, SGD, ConstantRate

Rewrite = Callable[[str], str]

PART = '''
"""A part from elsewhere."""
from torch import nn
from model.residual import LayerNorm

class Part(nn.Module):
    """It doubles."""

    factor: int = 2
    """By how much."""

    def forward(self, x):
        """Doubled."""
        # every number
        return x * self.factor
'''


@pytest.fixture
def rewrite(tmp_path: Path) -> Rewrite:
    """Writes the part's file anew and gives its digest."""
    file = tmp_path / "part_from_elsewhere.py"

    def digest(text: str) -> str:
        file.write_text(text)
        return digest_of(file)

    return digest


def test_prose_and_layout_do_not_count(rewrite: Rewrite) -> None:
    first = rewrite(PART)
    assert re.fullmatch("[0-9a-f]{12}", first)
    for old, new in (
        ('"""A part from elsewhere."""', '"""Another sentence."""'),
        ('"""A part from elsewhere."""', ""),
        ('    """It doubles."""\n', ""),
        ('"""By how much."""', '"""Times."""'),
        ('        """Doubled."""\n', '        """Twice\n        as much."""\n'),
        ("# every number", "# each of them"),
        ("        # every number\n", "\n\n\n"),
        ("x * self.factor", "(x   *   self.factor)"),
    ):
        assert old in PART
        assert rewrite(PART.replace(old, new)) == first


def test_code_counts(rewrite: Rewrite) -> None:
    edited = [
        rewrite(PART.replace(old, new))
        for old, new in (
            ("= 2", "= 3"),
            ("x * self.factor", "self.factor * x"),
            ("factor: int", "factor: float"),
            ("return x", "return 'x'"),
            ("from model.residual import LayerNorm", "from model.residual import PreNorm"),
        )
    ]
    assert len({rewrite(PART), *edited}) == 6


def files(train: dict[str, Any] | None = None, **changes: Any) -> set[str]:
    """The files that count for a transformer with these choices."""
    written = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "n_heads": 2}
    small = {"words": 10, "valid_words": 1, "test_words": 1}
    chosen = changes.pop("model", {**written, **changes})
    tree = {"model": chosen, "task": {"name": "g2p", **small}, "train": train or {}}
    config = resolve_trial(tree)
    return set(
        training_code(*(canonical_json(config[part]) for part in ("model", "task", "train")))
    )


def test_what_a_trial_uses_counts_and_what_stores_or_shows_it_does_not() -> None:
    counted = files()
    assert counted >= {
        "model/transformer.py",
        "model/build.py",
        "model/mixers/__init__.py",
        "model/init.py",
        "model/batch.py",
        "ablations/train/loop.py",
        "ablations/train/config.py",
        "ablations/tasks/g2p.py",
    }
    beside = (
        "commands",
        "plan",
        "benchmarks",
        "evaluations",
        "probes",
        "store",
        "tasks/scoring.py",
    )
    assert not {name for name in counted for room in beside if f"ablations/{room}/" in name}
    assert "model/generate.py" not in counted


def test_a_part_or_a_model_that_is_not_used_does_not_count() -> None:
    assert not {name for name in files() if name.startswith("model/rnn")}
    assert "model/mixers/window.py" not in files()
    assert "model/mixers/window.py" in files(mixer={"name": "window", "reach": 2})
    counted = files(model={"name": "recurrent", "d_model": 8})
    assert "model/rnn.py" in counted
    assert not counted & {"model/transformer.py", "model/mixers/attention.py"}


def sections() -> list[str]:
    experiment = read_experiment(experiments()["norm/g2p"])
    trial, *_ = expand(experiment, read_profile("smoke"), {}, [0])
    return [trial.sections[name] for name in ("model", "task", "train")]


def test_the_code_that_takes_a_score_counts_for_its_measure_alone() -> None:
    trained_by, taken_by = training_code(*sections()), source_code("quality", *sections())
    assert set(taken_by) >= {"ablations/evaluations/quality.py", "model/generate.py"}
    assert not set(taken_by) & set(trained_by)
    timed_by = source_code("throughput", *sections())
    assert "ablations/benchmarks/session.py" in timed_by
    assert "ablations/evaluations/quality.py" not in timed_by


def test_the_users_own_optimizer_and_schedule_count_where_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for family, base in ((OPTIMIZER, SGD), (SCHEDULE, ConstantRate)):
        module = f"own_{family.word}"
        (tmp_path / f"{module}.py").write_text(PART)
        own = type("Own", (base,), {"__module__": module})
        monkeypatch.setitem(family.components, "own", own)
        assert module in files(train={family.word: {"name": "own"}})
        assert module not in files()


# Whether it is still the same.


def test_a_file_that_was_edited_or_is_gone_is_named() -> None:
    now = training_code(*sections())
    assert changed({**now, "model/norms.py": "0" * 12}) == ["model/norms.py"]
    assert changed({**now, "model/of_then.py": "0" * 12}) == ["model/of_then.py"]


def test_of_a_user_s_module_that_is_not_here_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert changed({"part_of_mine": "0" * 12}) == []
    (tmp_path / "part_of_mine.py").write_text(PART)
    monkeypatch.syspath_prepend(tmp_path)
    assert changed({"part_of_mine": "0" * 12}) == ["part_of_mine"]
    assert changed(stamp(["part_of_mine"])) == []


def test_a_file_that_is_edited_is_read_again_in_the_same_process(tmp_path: Path) -> None:
    file = tmp_path / "part.py"
    file.write_text(PART)
    first = digest_of(file)
    kept = file.stat()
    file.write_text(PART.replace("= 2", "= 3"))
    os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # of the same size and time
    assert digest_of(file) != first


def test_what_a_user_s_module_imports_of_the_user_s_own_counts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "parts_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("from . import near\n")
    (package / "near.py").write_text("import json, numpy\nfrom .far import FACTOR\n")
    (package / "far.py").write_text("from parts_helper import x\nFACTOR = 2\n")
    (tmp_path / "parts_helper.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    near = ["parts_of_mine", "parts_of_mine.far", "parts_of_mine.near"]
    assert sorted(stamp(["parts_of_mine"])) == ["parts_helper", *near]
