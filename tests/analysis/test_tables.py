"""Tables keep every digit in CSV and only the meaningful ones in Markdown."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import tables
from analysis.evidence import Evidence, gather


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory, sweep: Callable[[Path], Any]) -> Evidence:
    return gather(sweep(tmp_path_factory.mktemp("sweep")).root)


def columns(path: Path) -> dict[str, list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_csv_gives_back_the_very_numbers(evidence: Evidence) -> None:
    paths = {path.name: path for path in tables.write(evidence)}
    assert set(paths) == {"contrasts.csv", "contrasts.md", "speed.csv", "speed.md"}
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


def test_a_pipe_in_a_label_does_not_open_a_column() -> None:
    view = pd.DataFrame([{"variant": "a|b\nc\\", "n": "<b>"}])
    text = tables.markdown(view)
    assert text.splitlines()[2] == "| a\\|b c\\\\ | &lt;b> |"


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
