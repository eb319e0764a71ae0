"""The best arm and those that cannot be told from it are marked, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.evidence import gather
from analysis.load import load
from analysis.tables import contrasts_views
from analysis.tables.best import standings

LUCK = (0.0, 0.01, -0.02, 0.015)


def fill(folder: Any, means: dict[str, float], seeds: int = 4, **fields: Any) -> None:
    """Arms that share their seeds' luck, each with a little of its own."""
    for place, (label, mean) in enumerate(means.items()):
        for seed in range(seeds):
            own = 0.001 * ((7 * seed + 3 * place) % 5 - 2)
            folder.record(label, seed, mean + LUCK[seed] + own, **fields)


def found(folder: Any, name: str = "norm") -> dict[str, str]:
    return {label: word for (label, _), word in standings(load(folder.root), name).items()}


def test_the_best_and_its_ties_are_marked_and_the_worse_are_not(folder: Any) -> None:
    means = {"pre": 0.3, "post": 0.3002, "none": 0.5}
    folder.ablation("norm", list(means), seeds=[0, 1, 2, 3])
    fill(folder, means)
    assert found(folder) == {"pre": "best", "post": "tied"}
    view = contrasts_views(gather(folder.root))["norm"].set_index("variant")["phone error rate"]
    assert view["pre (control)"].endswith(") ★")
    assert view["post"].endswith(") ≈")
    assert view["none"].endswith(")")


def test_where_more_is_better_the_highest_is_best(folder: Any) -> None:
    metric = {"name": "per", "split": "valid", "better": "higher", "label": "accuracy"}
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1, 2, 3], metric=metric)
    fill(folder, {"pre": 0.3, "post": 0.5})
    assert found(folder) == {"post": "best"}


def test_what_one_pair_would_resolve_many_pairs_do_not(folder: Any) -> None:
    """The best is chosen by the scores that test it, so that every pair of arms counts."""
    two = {"pre": 0.3, "post": 0.31}
    many = {**two, **{f"other {i}": 0.3 + 0.0001 * i for i in range(1, 9)}}
    folder.ablation("norm", list(two), seeds=[0, 1, 2, 3])
    folder.ablation("norms", list(many), seeds=[0, 1, 2, 3])
    fill(folder, many)
    assert "post" not in found(folder)
    assert found(folder, "norms")["post"] == "tied"


def test_an_arm_that_lost_seeds_to_divergence_is_not_ranked(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post", "none"], seeds=[0, 1, 2, 3])
    fill(folder, {"pre": 0.3, "post": 0.5, "none": 0.1})
    folder.record("none", 3, status="diverged", reason="loss is NaN")
    assert found(folder) == {"pre": "best"}


@pytest.mark.parametrize(
    ("seeds", "fields"), [(2, {}), (4, {"trained": False})], ids=["two seeds", "untrained"]
)
def test_without_three_scores_or_a_training_nobody_wins(
    folder: Any, seeds: int, fields: dict[str, Any]
) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1, 2, 3], **fields)
    fill(folder, {"pre": 0.3, "post": 0.5}, seeds, **fields)
    assert not load(folder.root).unreadable
    assert found(folder) == {}


def test_where_the_control_is_stuck_nobody_wins(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post", "none"], seeds=[0, 1, 2, 3])
    fill(folder, {"pre": 0.9, "post": 0.5, "none": 0.6})
    folder.record("pre", 3, 0.9, status="stuck")
    assert found(folder) == {}


def test_each_crossing_has_its_own_best(folder: Any) -> None:
    levels = [{"data": "3k"}, {"data": "30k"}]
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1, 2, 3], crossings=levels)
    fill(folder, {"pre": 0.3, "post": 0.5}, across=levels[0])
    fill(folder, {"pre": 0.5, "post": 0.3}, across=levels[1])
    assert standings(load(folder.root), "norm") == {
        ("pre", "data=3k"): "best",
        ("post", "data=30k"): "best",
    }
