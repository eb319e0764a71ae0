"""Attention is drawn so that it can be seen, whatever its weights and symbols are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from rich.cells import cell_len

from ablations.commands.answer import Reply
from ablations.commands.drawing import drawn, picture


def reply(read: list[str], written: list[str], weights: list[list[float]] | None) -> Reply:
    return Reply("X", 0.5, read, written, weights, "here")


def test_shades_are_of_the_largest_weight_and_the_legend_names_it() -> None:
    faint = reply(["p", "q", "r"], ["X", "end"], [[0.0, 0.05, 0.1], [0.019, 0.09, 0.021]])
    header, first, second, _, legend = drawn(faint).splitlines()
    assert header == "    p q r"
    assert first == "  X   ▒ █"
    assert second == "end   █ ░"
    assert (
        legend == "░ 0.02 ▒ 0.04 ▓ 0.06 █ 0.08 to 0.1, the largest weight (here, mean over heads)"
    )


@pytest.mark.parametrize("columns", [12, 40, 80])
def test_a_drawing_is_broken_where_the_terminal_ends(columns: int) -> None:
    wide = reply([f"s{n}" for n in range(30)], ["X"], [[n / 435 for n in range(30)]])
    lines = drawn(wide, columns).splitlines()[:-1]
    assert max(map(len, lines)) <= columns
    assert re.findall(r"s\d+", "\n".join(lines)) == wide.read
    assert "".join(lines).count("█") == 3 * 6  # a fifth of 30 cells of three letters


def test_columns_stay_below_their_symbols_of_any_width() -> None:
    symbols = ["漢字", "t͡ʃ", "a"]
    header, row = drawn(reply(symbols, ["ã"], [[0.5, 0.0, 1.0]])).splitlines()[:2]
    assert cell_len(header) == cell_len("ã " + "漢字 " * 2 + "a")
    assert row == "ã ▒▒▒▒" + " " * 6 + "████"


def test_a_picture_is_black_at_the_largest_weight_and_hostile_symbols_are_inert() -> None:
    hostile = reply(["<b>", "&", "t"], ["</svg>"], [[0.0, 0.1, 0.2]])
    root = ET.fromstring(picture(hostile))
    fills = [each.get("fill") for each in root.iter() if each.get("stroke")]
    assert fills == ["rgb(255,255,255)", "rgb(128,128,128)", "rgb(0,0,0)"]
    texts = [each.text or "" for each in root.iter() if each.tag.endswith("text")]
    assert texts[:4] == ["<b>", "&", "t", "</svg>"]
    assert texts[4] == "white 0 to black 0.2, the largest weight (here, mean over heads)"


@pytest.mark.parametrize("longest", [1, 20])
def test_a_picture_holds_all_that_is_drawn(longest: int) -> None:
    root = ET.fromstring(picture(reply(["s" * longest] * 40, ["end"] * 9, [[0.1] * 40] * 9)))
    width, height = (float(root.get(side, 0)) for side in ("width", "height"))
    for each in root.iter():
        if each.get("stroke"):
            side = float(each.get("width", 0))
            assert 0 <= float(each.get("x", -1)) <= width - side
            assert 0 <= float(each.get("y", -1)) <= height - side


def test_a_model_without_attention_says_so() -> None:
    assert drawn(reply(["t"], ["X"], None)) == "This model attends to nothing."
