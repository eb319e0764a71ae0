"""A table as Markdown, LaTeX or HTML, in which a name is a name, whatever it holds.

What is best, or tied with it, is bold and carries a mark in every form.
"""

from __future__ import annotations

import html as hypertext
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.tables.cells import mark_of

NOTHING = "Nothing yet."


@dataclass(frozen=True)
class TitledView:
    """A view with its title, what it asks, and what its marks mean."""

    title: str
    view: pd.DataFrame
    question: str = ""
    caption: str = ""

    @property
    def head(self) -> list[str]:
        return [str(name) for name in self.view.columns]

    @property
    def rows(self) -> list[list[tuple[str, str]]]:
        """Each cell with its mark: only scores have one, a name may merely end alike."""
        scores = [name in self.view.attrs.get("scores", ()) for name in self.view.columns]
        return [
            [_split(str(cell), is_score) for cell, is_score in zip(row, scores, strict=True)]
            for row in self.view.to_numpy().tolist()
        ]

    @property
    def told(self) -> str:
        return f"{self.title}: {self.question}" if self.question else self.title


def markdown(view: pd.DataFrame) -> str:
    """A table that pipes and tags in names do not break."""
    if view.empty:
        return f"{NOTHING}\n"
    table = TitledView("", view)
    rows = [
        [escape(name) for name in table.head],
        ["---"] * len(table.head),
        *([_markdown_cell(*cell) for cell in row] for row in table.rows),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def escape(text: str) -> str:
    """Text as a Markdown cell: no pipe ends it, no tag starts in it, no line breaks it."""
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace("|", "\\|")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "\\`")
    return text.replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")


def _markdown_cell(text: str, mark: str) -> str:
    return f"**{escape(text)}** {mark}" if mark else escape(text)


def _split(cell: str, is_score: bool) -> tuple[str, str]:
    mark = mark_of(cell) if is_score else ""
    return (cell.removesuffix(f" {mark}"), mark) if mark else (cell, "")


def latex(table: TitledView) -> str:
    """A `table` of booktabs, which a document takes with \\input."""
    caption = tex(" ".join(text for text in (table.told + ".", table.caption) if text))
    if table.view.empty:
        return f"% {tex(table.told)}: {NOTHING}\n"
    head = " & ".join(tex(name) for name in table.head)
    body = [" & ".join(_tex_cell(*cell) for cell in row) for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{{'l' * len(table.head)}}}",
            r"\toprule",
            rf"{_safe_start(head)} \\",
            r"\midrule",
            *(rf"{_safe_start(line)} \\" for line in body),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _safe_start(line: str) -> str:
    """After \\\\ or a rule, TeX takes a bracket or a star for an option."""
    return f"{{}}{line}" if line.startswith(("[", "*")) else line


def _tex_cell(text: str, mark: str) -> str:
    return rf"\textbf{{{tex(text)}}}\,{tex(mark)}" if mark else tex(text)


def tex(text: str) -> str:
    """Text as LaTeX shows it, with any engine; a character that it cannot is told by its code."""
    letters = "".join(map(_tex_letter, " ".join(text.split())))
    return letters.replace("--", "-{}-").replace("--", "-{}-")  # or they would become a dash


def _tex_letter(letter: str) -> str:
    if letter in _TEX:
        return _TEX[letter]
    first, *accents = list(unicodedata.normalize("NFD", letter))
    is_accented = ord(letter) < 0x100 and first.isascii() and accents
    return letter if letter.isascii() or is_accented else f"[U+{ord(letter):04X}]"


_TEX = {
    **{letter: f"\\{letter}" for letter in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": "$-$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "★": r"$\star$",
    "√": r"$\surd$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "…": r"\dots{}",
    "µ": r"$\mu$",
    "μ": r"$\mu$",
    "²": "$^2$",
    "³": "$^3$",
}


def html(table: TitledView) -> str:
    """A fragment: one `table` with its caption, and nothing of its own in style or script."""
    told = hypertext.escape(" ".join(text for text in (table.told + ".", table.caption) if text))
    if table.view.empty:
        return f"<p>{hypertext.escape(table.told)}: {NOTHING}</p>\n"
    head = "".join(f'<th scope="col">{hypertext.escape(name)}</th>' for name in table.head)
    body = "".join(
        f"<tr>{''.join(_html_cell(i == 0, *cell) for i, cell in enumerate(row))}</tr>\n"
        for row in table.rows
    )
    return (
        f"<table>\n<caption>{told}</caption>\n<thead>\n<tr>{head}</tr>\n</thead>\n"
        f"<tbody>\n{body}</tbody>\n</table>\n"
    )


def _html_cell(is_first: bool, text: str, mark: str) -> str:
    shown = hypertext.escape(text)
    if is_first:
        return f'<th scope="row">{shown}</th>'
    return f"<td><strong>{shown}</strong> {mark}</td>" if mark else f"<td>{shown}</td>"


def _markdown_file(tables: Sequence[TitledView]) -> str:
    captions = dict.fromkeys(table.caption for table in tables if table.caption)
    parts = [f"{escape(caption)}\n" for caption in captions]
    for table in tables:
        question = f": {escape(table.question)}" if table.question else ""
        parts.append(f"**{escape(table.title)}**{question}\n\n{markdown(table.view)}")
    return "\n".join(parts)


def _latex_file(tables: Sequence[TitledView]) -> str:
    return "\n".join([r"% \usepackage{booktabs}", *map(latex, tables)])


def _html_file(tables: Sequence[TitledView]) -> str:
    return "\n".join(map(html, tables))


FORMS: dict[str, Callable[[Sequence[TitledView]], str]] = {
    "md": _markdown_file,
    "tex": _latex_file,
    "html": _html_file,
}
"""How a file of several tables is written, by its suffix."""
