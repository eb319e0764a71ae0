"""A model that cannot be built is refused before it is built, with the field that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from model.build import resolve
from model.config import ConfigError

IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "model.n_heads=7": {"n_heads": 7, "d_model": 64},
    "model.n_heads=0": {"n_heads": 0},
    "model.d_head=0": {"d_head": 0},
    "model.max_len=0": {"max_len": 0},
    "model.kind: ": {"kind": "both"},
    "model.position: no position 'rotray'": {"position": "rotray"},
    "model.residual.alpha: ": {"residual": {"name": "pre", "alpha": 2}},
    "model.mixer.dropout: no such option": {"mixer": {"name": "attention", "dropout": 0.5}},
    "model.attention_dropout=1.5": {"attention_dropout": 1.5},
    "model.attention_dropout=-0.5": {"attention_dropout": -0.5},
    "model.feedforward_dropout=1.0": {"feedforward_dropout": 1},
    "model.embedding_dropout=-0.5": {"embedding_dropout": -0.5},
    "model.tied: ": {"tied": "both"},
    "model.head.pool: ": {"head": {"name": "classes", "pool": "max"}},
    "model.feedforward.approximate: ": {"feedforward": {"name": "gelu", "approximate": "erf"}},
    "model.norm.eps=0.0": {"norm": {"name": "rms", "eps": 0}},
    "model.scale: no scale 'sqrt'": {"scale": "sqrt"},
    "model.similarity: no similarity 'cosin'": {"similarity": "cosin"},
    "model.mask: no mask 'inf'": {"mask": "inf"},
    "model.feedforward.ratio=0.0": {"feedforward": {"name": "gelu", "ratio": 0}},
    "model.norm.eps=-1.0": {"norm": {"name": "layer", "eps": -1}},
    "model.initial.std=-1.0": {"initial": {"name": "normal", "std": -1}},
    "model.position.base=0.0": {"position": {"name": "sinusoidal", "base": 0}},
}


def problems(name: str, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve({"name": name, **options})
    return caught.value.problems


@pytest.mark.parametrize("name", ["transformer", "recurrent"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("d_model", 0),
        ("depth", 0),
        ("depth", -1),
        ("dropout", 1),
        ("dropout", -0.1),
        ("dropout", float("nan")),
        ("d_model", "wide"),
        ("depth", 1.5),
    ],
)
def test_an_impossible_number_is_refused_by_name(name: str, field: str, value: Any) -> None:
    (problem,) = problems(name, **{field: value})
    assert problem.startswith((f"model.{field}=", f"model.{field}: "))


@pytest.mark.parametrize("place", IMPOSSIBLE)
def test_a_transformer_names_what_cannot_be(place: str) -> None:
    (problem,) = problems("transformer", **IMPOSSIBLE[place])
    assert problem.startswith(place)


def test_heads_that_do_not_divide_the_width_are_answered_with_both_ways_out() -> None:
    (problem,) = problems("transformer", n_heads=7, d_model=64)
    assert "does not divide d_model=64" in problem
    assert "choose a divisor or set d_head" in problem
    assert resolve({"name": "transformer", "n_heads": 7, "d_model": 64, "d_head": 9})["d_head"] == 9


def test_a_recurrent_model_has_an_even_width() -> None:
    (problem,) = problems("recurrent", d_model=7)
    assert problem.startswith("model.d_model=7: must be even")


def test_all_that_is_wrong_with_a_model_is_said_at_once() -> None:
    found = problems("transformer", depth=0, n_heads=7, dropout=2)
    assert [problem.split("=")[0] for problem in found] == [
        "model.depth",
        "model.dropout",
        "model.n_heads",
    ]


def test_a_width_of_heads_that_is_left_out_is_written_out() -> None:
    written = {"name": "transformer", "d_model": 64, "n_heads": 4}
    assert resolve(written) == resolve({**written, "d_head": 16})
    assert resolve(written)["d_head"] == 16


def test_a_resolved_model_resolves_to_itself() -> None:
    for name in ("transformer", "recurrent"):
        once = resolve(name)
        assert resolve(once) == once
