"""Tables keep every digit in CSV and only the meaningful ones in Markdown."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis import tables
from analysis.evidence import Evidence, gather

TABLES = ("contrasts", "speed")


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory, sweep: Callable[[Path], Any]) -> Evidence:
    return gather(sweep(tmp_path_factory.mktemp("sweep")).root)


def columns(path: Path) -> dict[str, list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_csv_gives_back_the_very_numbers(evidence: Evidence) -> None:
    paths = {path.name: path for path in tables.write(evidence)}
    forms = {f"{name}.{form}" for name in TABLES for form in ("csv", "md", "tex", "html")}
    assert set(paths) == forms | {"readings.csv.gz", "readings.md"}
    read = columns(paths["contrasts.csv"])
    for name in ("difference", "low", "p_holm", "mean"):
        found = [float(text or "nan") for text in read[name]]
        assert found == pytest.approx(evidence.contrasts[name].tolist(), rel=0, abs=0, nan_ok=True)
    assert {"parameters", "flops_per_token", "failures", "step_time_ratio", "n"} <= set(read)
    ratios = [float(text or "nan") for text in columns(paths["speed.csv"])["ratio"]]
    assert ratios == pytest.approx(evidence.speeds["ratio"].tolist(), rel=0, abs=0, nan_ok=True)
    assert sum(map(math.isnan, ratios)) == 2, "one layer took too long, alone and by the budget"


def test_the_table_to_read_starts_with_the_control(evidence: Evidence) -> None:
    view = tables.contrasts_views(evidence)["position"].set_index("variant")
    assert view.index[0] == "sinusoidal (control)"
    row = view.loc["none"]
    assert row["parameters"] == "241 k"
    assert row["phone error rate"] == "0.450 (0.434 to 0.467)"
    assert row["difference (95 % interval)"] == "0.200 (0.195 to 0.206)"
    assert row["p (Holm)"] == "< 0.0001"
    assert row["n"] == "5 of 5"
    assert row["step time"] == "0.968 × (0.951 to 0.984)"
    assert view.loc["alibi", "failures"] == "1 of 5 diverged"


def test_each_crossing_has_its_own_control(evidence: Evidence) -> None:
    view = tables.contrasts_views(evidence)["heads"]
    assert list(view["variant"]) == [
        "8 heads [data=3k] (control)",
        "1 head [data=3k]",
        "8 heads [data=30k] (control)",
        "1 head [data=30k]",
    ]


def test_machines_get_a_column_only_where_there_are_several(
    evidence: Evidence, folder: Any
) -> None:
    assert "machine" not in tables.speed_view(evidence.speeds)
    folder.ablation("norm", ["pre", "post"], seeds=[0])
    for label, device in (("pre", "cpu"), ("post", "cuda")):
        folder.record(label, 0, 0.2, readings=folder.timing(1.1), env={"device": device})
    assert "machine" in tables.speed_view(gather(folder.root).speeds)


def test_several_timed_points_leave_the_single_ratio_empty(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0])
    for label in ("pre", "post"):
        points = [p for length in (16, 64) for p in folder.timing(1.1, length=length)]
        folder.record(label, 0, 0.2, readings=points)
    evidence = gather(folder.root)
    assert tables.with_speed(evidence)["step_time_ratio"].isna().all()
    assert len(tables.speed_view(evidence.speeds)) == 4


def test_only_the_time_of_a_step_is_called_step_time(folder: Any) -> None:
    folder.ablation("length", ["attention", "lstm"], seeds=[0])
    for label, ratio in (("attention", 1.0), ("lstm", 2.0)):
        folder.record(label, 0, 0.2, readings=folder.timing(ratio, metric="layer_time"))
    assert tables.with_speed(gather(folder.root))["step_time_ratio"].isna().all()


def test_a_question_asked_both_ways_shows_fixed_and_tuned_arms_beside_each_other(
    folder: Any,
) -> None:
    labels, seeds = ["adam", "sgd"], [0, 1, 2]
    folder.ablation("optimiser", labels, seeds=seeds)
    folder.ablation("optimiser [tuned]", labels, seeds=seeds, arms="tuned")
    folder.plan["ablations"]["optimiser [tuned]"]["name"] = "optimiser"
    for cell in folder.plan["ablations"]["optimiser [tuned]"]["cells"]:
        tuned, across = {"train.optimiser.rate": 0.3}, {"at": "best"}
        cell |= {"tuned": tuned, "trial": folder.trial(cell["label"], cell["seed"], across)}
        cell["settings"] = folder.described(cell["label"], cell["seed"], across).settings
    folder.results.write_plan(folder.plan)
    for seed, luck in enumerate((0.0, 0.01, 0.03)):
        for label, fixed, tuned in (("adam", 0.2, 0.19), ("sgd", 0.7, 0.23)):
            folder.record(label, seed, fixed + luck * (1 + fixed))
            folder.record(label, seed, tuned + luck * (1 + tuned), across={"at": "best"})
    evidence = gather(folder.root)
    views = tables.contrasts_views(evidence)
    fixed, tuned = views["optimiser"].iloc[1], views["optimiser [tuned]"].iloc[1]
    assert fixed["difference (95 % interval)"].startswith("0.507")
    assert fixed["difference, each tuned"] == tuned["difference (95 % interval)"]
    assert tuned["difference, fixed settings"] == fixed["difference (95 % interval)"]
    assert list(views["optimiser [tuned]"]["tuned to"]) == ["rate=0.3", "rate=0.3"]
    assert "tuned to" not in views["optimiser"]
    rows = tables.with_speed(evidence).set_index("arms")
    assert rows.loc["fixed", "tuned_difference"] == rows.loc["tuned", "difference"]
    assert rows.loc["tuned", "fixed_low"] == rows.loc["fixed", "low"]
    assert set(rows["question"]) == {"optimiser"}
