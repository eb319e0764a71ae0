"""A figure stands with the question that it is about, under a name that is never a path."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.names import safe
from analysis.placing import place


def panel(*questions: str) -> pd.DataFrame:
    return pd.DataFrame({"ablation": list(questions), "name": list(questions)})


def test_panels_of_one_question_stand_with_it_and_those_of_several_in_the_overview() -> None:
    frames = [panel("norm", "norm"), panel("heads"), panel("norm", "heads"), panel("norm")]
    found = {each.question: each for each in place("curves", frames)}
    assert found["norm"].frames == [frames[0], frames[3]]
    assert found["heads"].frames == [frames[1]]
    assert found[None].frames == [frames[2]]
    assert [found[name].stem for name in ("norm", "heads", None)] == [
        "norm/curves",
        "heads/curves",
        "curves",
    ]


def test_a_panel_that_names_no_question_stands_in_the_overview() -> None:
    (found,) = place("curves", [pd.DataFrame({"name": ["a"]})])
    assert found.question is None


HOSTILE = ["../../etc/passwd", "/root", "a/b", "..", "", "con.", "<img>", "Norm", "norm ", "日本"]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_hostile_name_is_no_path(name: str) -> None:
    (found,) = place("curves", [panel(name)])
    folder = Path("/results/figures")
    assert (folder / found.stem).resolve().parent.parent == folder
    assert found.stem.isascii()


def test_no_two_names_are_alike() -> None:
    names = [*HOSTILE, "norm", "a-b", "x" * 50, "x" * 60, "norm [tuned]", "norm [fixed]"]
    assert len({safe(name) for name in names}) == len(names)
    assert safe("norm-kind") == "norm-kind"
