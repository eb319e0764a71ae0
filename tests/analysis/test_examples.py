"""Decoded examples stand beside each other: one seed, the same inputs, the control first."""

from __future__ import annotations

from typing import Any

from analysis.evidence import gather
from analysis.examples import ARMS, INPUTS, examples


def wrote(*outputs: str) -> list[dict[str, str]]:
    return [
        {"input": f"word {i}", "target": f"W {i}", "output": output}
        for i, output in enumerate(outputs)
    ]


def test_the_control_is_first_and_then_those_that_differ_most(folder: Any) -> None:
    labels = ["control", "near", "far", "farther", "nearest", "silent"]
    folder.ablation("position", labels, seeds=[0, 1])
    for index, label in enumerate(labels):
        for seed in (0, 1):
            score = 0.2 + 0.1 * [0, 2, 3, 4, 1, 9][index]
            said = [] if label == "silent" else wrote(f"{label} {seed}", "W 1", "", "W 3")
            folder.record(label, seed, score, examples=said)
    found = examples(gather(folder.root), "position")
    assert [each["input"] for each in found] == ["word 0", "word 1", "word 2"][:INPUTS]
    names = [output["name"] for output in found[0]["outputs"]]
    assert names == ["control", "farther", "far", "near"][:ARMS]
    assert [output["text"] for output in found[0]["outputs"]] == [f"{name} 0" for name in names]
    assert [output["is_right"] for output in found[1]["outputs"]] == [True] * ARMS
    assert not any(output["is_right"] for output in found[0]["outputs"])
    assert found[0]["target"] == "W 0"


def test_only_inputs_that_all_have_answered_are_shown(folder: Any) -> None:
    folder.ablation("position", ["control", "none"], seeds=[0])
    folder.record("control", 0, 0.2, examples=wrote("a", "b"))
    folder.record("none", 0, 0.3, examples=wrote("a"))
    assert [each["input"] for each in examples(gather(folder.root), "position")] == ["word 0"]


def test_where_nothing_was_written_there_is_nothing_to_show(folder: Any) -> None:
    folder.ablation("position", ["control", "none"], seeds=[0])
    folder.record("control", 0, 0.2)
    assert examples(gather(folder.root), "position") == []
