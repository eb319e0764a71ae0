"""In Markdown, LaTeX and HTML a name is a name, whatever it holds."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tables.forms import TitledView, html, latex, markdown, tex

HOSTILE = [
    "a|b\nc\\",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    r"\input{/etc/passwd} & 50 % #1 $x_1^2$ ~ {}",
    "**bold** _low_ [link](x) `code`",
    "[0pt] --- ★",
    "naïve √ 日本 😀",
]


def shown(name: str) -> TitledView:
    view = pd.DataFrame([{"variant": name, "score": "0.3 (0.2 to 0.4) ★", "note": name}])
    view.attrs["scores"] = ["score"]
    return TitledView("norm", view)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_stays_one_cell_of_markdown(name: str) -> None:
    row = markdown(shown(name).view).splitlines()[2]
    cells = re.split(r"(?<!\\)(?:\\\\)*\|", row)
    assert len(cells) == 5
    assert "<" not in row
    assert re.findall(r"(?<!\\)\*\*.*?\*\*", row) == ["**0.3 (0.2 to 0.4)**"]
    assert not re.search(r"(?<!\\)[`\[_]", row)


class Reader(HTMLParser):
    """The tags of a fragment, and the text of its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells and self.tags[-1] in ("td", "th", "strong"):
            self.cells[-1] += data


@given(st.text(max_size=30))
def test_whatever_a_name_holds_a_fragment_has_our_tags_alone(name: str) -> None:
    reader = Reader()
    reader.feed(html(shown(name)))
    assert set(reader.tags) == {"table", "caption", "thead", "tr", "th", "tbody", "td", "strong"}
    assert reader.tags.count("td") == 2


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_fragment_says_the_name_and_nothing_runs(name: str) -> None:
    text = html(shown(name))
    assert "<script" not in text
    assert "<img" not in text
    assert unescape(re.findall(r'<th scope="row">(.*?)</th>', text, re.DOTALL)[0]) == name
    assert "<td><strong>0.3 (0.2 to 0.4)</strong> ★</td>" in text


@given(st.text(max_size=30))
def test_latex_has_no_command_of_a_name(name: str) -> None:
    told = tex(name)
    bare = re.sub(
        r"\\(?:text(?:backslash|ascii(?:circum|tilde|grave)|less|greater|bar)|dots){}", "", told
    )
    bare = re.sub(
        r"\$(?:-|\^[23]|\\(?:times|pm|approx|star|surd|cdot|leq|geq|infty|to|mu))\$", "", bare
    )
    bare = re.sub(r"\\[{}$&#%_]|-{}", "", bare)
    assert not set(bare) & set("\\{}$&#%_^~<>|`")
    assert "--" not in told
    assert all(ord(letter) < 0x100 for letter in told)


def test_latex_takes_no_bracket_of_a_name_for_an_option() -> None:
    text = latex(shown("[0pt] x"))
    assert "\n{}[0pt] x & " in text
    assert r"\textbf{0.3 (0.2 to 0.4)}\,$\star$" in text
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1


def test_latex_says_what_it_can_and_tells_the_rest_by_its_code() -> None:
    assert tex("naïve 3 × √d -- 50 % 日") == r"naïve 3 $\times$ $\surd$d -{}- 50 \% [U+65E5]"


def test_a_name_that_ends_like_a_mark_is_not_made_bold() -> None:
    table = shown("mine ★")
    assert html(table).count("<strong>") == 1
    assert markdown(table.view).count("**") == 2
    assert latex(table).count(r"\textbf") == 1


def test_an_empty_table_says_so_in_every_form() -> None:
    nothing = TitledView("norm", pd.DataFrame())
    for text in (markdown(nothing.view), latex(nothing), html(nothing)):
        assert "Nothing yet." in text
