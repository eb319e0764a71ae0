"""A cell and a unit are called the same wherever they are written."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import figures, style, tables
from analysis.evidence import Evidence, gather
from analysis.names import cell_name
from analysis.provenance import failures
from analysis.sentences import answers

ACROSS, NAME = {"depth": "2", "data": "3k"}, "1 head [data=3k, depth=2]"


def crossed(folder: Any, unit: str = "fraction") -> Evidence:
    folder.ablation("heads", ["8 heads", "1 head"], seeds=[0, 1], crossings=[ACROSS])
    for label, score in (("8 heads", 0.2), ("1 head", 0.3)):
        timed = folder.timing(1.1)
        folder.record(label, 0, score, across=ACROSS, unit=unit, readings=timed)
        folder.record(label, 1, across=ACROSS, status="diverged")
    return gather(folder.root)


def test_a_cell_is_its_label_at_its_crossing() -> None:
    assert cell_name("1 head", "data=3k") == "1 head [data=3k]"
    assert cell_name("1 head", "") == "1 head"


def test_a_crossed_cell_has_one_name_in_every_place(folder: Any) -> None:
    evidence = crossed(folder)
    assert list(evidence.contrasts["name"]) == [NAME]
    assert evidence.speeds["name"].iloc[1] == NAME
    assert NAME in [failure["label"] for failure in failures(evidence.loaded.cells)]
    control, variant = tables.contrasts_views(evidence)["heads"]["variant"]
    assert (control, variant) == (f"{NAME.replace('1 head', '8 heads')} (control)", NAME)


@pytest.mark.parametrize("unit", ["1", "fraction", "ratio"])
def test_what_has_no_unit_is_given_none_anywhere(folder: Any, unit: str) -> None:
    evidence = crossed(folder, unit)
    (answer,) = answers(evidence).values()
    (ax,) = figures.compose("forest", figures.panels("forest", evidence)).axes
    assert ax.get_xlabel() == "variant − control"
    assert "0.100 higher" in answer
    assert "phone error rate" in tables.contrasts_views(evidence)["heads"]


def test_a_unit_is_named_in_every_place(folder: Any) -> None:
    evidence = crossed(folder, "nats/token")
    (answer,) = answers(evidence).values()
    (ax,) = figures.compose("forest", figures.panels("forest", evidence)).axes
    assert ax.get_xlabel() == "variant − control (nats/token)"
    assert "0.100 nats/token higher" in answer
    assert "phone error rate (nats/token)" in tables.contrasts_views(evidence)["heads"]


@pytest.mark.parametrize(
    "name", ["no residual connections [depth=2]", "no residual connections at all [depth=8]"]
)
def test_a_name_that_is_cut_keeps_its_crossing(name: str) -> None:
    told = style.fit_name(name, 1.1)
    assert told.endswith(f"… [{name.split('[')[1]}")
    assert style.width(told) <= 1.1
    assert style.fit_name(name, 9.0) == name


@pytest.mark.parametrize("name", ["a" * 90, "a [" + "b" * 90 + "]", "[tuned]", "one\n[two]", " [x"])
def test_any_other_name_is_cut_at_its_end(name: str) -> None:
    assert style.fit_name(name, 1.1) == style.fit(name, 1.1)
