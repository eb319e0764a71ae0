"""Where each figure stands: with the one question that it is about, or in the overview."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis import figures
from analysis.evidence import Evidence
from analysis.names import safe


@dataclass(frozen=True)
class Placed:
    """The panels of a figure that stand together."""

    figure: str
    question: str | None
    """Whose they are; None: of several questions, so the overview's."""
    frames: list[pd.DataFrame]

    @property
    def stem(self) -> str:
        """Its files without their endings, below DIR/figures: a name is never a path."""
        return self.figure if self.question is None else f"{safe(self.question)}/{self.figure}"


def placed(evidence: Evidence) -> list[Placed]:
    """Every figure that has something to show, the overview's among them."""
    return [
        each for name in figures.names() for each in place(name, figures.panels(name, evidence))
    ]


def place(figure: str, frames: list[pd.DataFrame]) -> list[Placed]:
    """A figure's panels, gathered by question."""
    found: dict[str | None, list[pd.DataFrame]] = {}
    for frame in frames:
        members = _questions(frame)
        found.setdefault(members[0] if len(members) == 1 else None, []).append(frame)
    return [Placed(figure, question, members) for question, members in found.items()]


def _questions(frame: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(frame["ablation"])) if "ablation" in frame else []
