"""One section a question: everything that is known of it, in one place."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import tables
from analysis.curves import curves
from analysis.drawing import Drawn
from analysis.effects import told
from analysis.evidence import Evidence
from analysis.examples import examples
from analysis.limits import limits
from analysis.names import asked, safe
from analysis.sentences import answers

PACING = "A step towards the question of this name: it finds how long each arm trains."
ASIDE = ("parameters", "FLOPs/token", "p (Holm)", "could show", "tokens/s", "noise floor")
"""Columns that only the files have: the page has room for what they lead to."""


@dataclass(frozen=True)
class Section:
    """What the page shows of one question."""

    name: str
    entry: dict[str, Any]
    answer: str
    done: int
    planned: int
    claims: list[dict[str, Any]]
    figures: list[Drawn]
    tables: dict[str, pd.DataFrame]
    """What each is called → its rows; the one of its contrasts has no name."""
    examples: list[dict[str, Any]]
    limits: list[str]

    @property
    def anchor(self) -> str:
        return f"q-{safe(self.name)}"

    @property
    def question(self) -> str:
        return asked(self.entry)

    @property
    def command(self) -> str:
        """What one types to ask it again."""
        words = ["python", "-m", "ablations", "run", self.entry["name"]]
        words += ["--profile", self.entry["profile"], *self.entry["overrides"]]
        words += ["--tune"] if self.entry["arms"] == "tuned" else []
        return shlex.join(map(str, words))

    @property
    def verdicts(self) -> list[str]:
        return [claim["verdict"] for claim in self.claims]


def sections(
    evidence: Evidence, decided: Sequence[dict[str, Any]], drawn: Sequence[Drawn]
) -> list[Section]:
    """Every question of the plan, in its order; what is only timed on the way to one comes last."""
    answered = answers(evidence, decided)
    contrasts = tables.contrasts_views(evidence)
    return [
        Section(
            name=name,
            entry=entry,
            answer=answered.get(name, PACING),
            done=evidence.loaded.done(name)[0],
            planned=evidence.loaded.done(name)[1],
            claims=[
                {**claim, "told": told(claim, entry["metrics"])}
                for claim in decided
                if claim["scope"]["question"] == name
            ],
            figures=[each for each in drawn if each.placed.question == name],
            tables={"": _compared(evidence, name, contrasts[name]), **_timed(evidence, name)},
            examples=examples(evidence, name),
            limits=limits(evidence, name),
        )
        for name, entry in sorted(
            evidence.loaded.ablations.items(), key=lambda each: each[1]["arms"] == "pacing"
        )
    ]


def _compared(evidence: Evidence, name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The table of its contrasts; none where all has been run and there is nothing to compare."""
    done, planned = evidence.loaded.done(name)
    own = evidence.contrasts["ablation"] == name
    is_bare = done == planned and not (evidence.contrasts[own]["n"] > 0).any()
    return narrowed(table.iloc[:0] if is_bare else table)


def narrowed(table: pd.DataFrame) -> pd.DataFrame:
    """A table for the page: its verdict beside the name it is about, and no empty column."""
    kept = [
        name
        for name in table
        if name not in ASIDE and (name == "verdict" or (table[name] != "").any())
    ]
    if "verdict" in kept:
        kept.insert(1, kept.pop(kept.index("verdict")))
    return table[kept]


def _timed(evidence: Evidence, name: str) -> dict[str, pd.DataFrame]:
    """What of it was timed: at single places, and along a coordinate."""
    speeds, walked = evidence.speeds, curves(evidence)
    speeds, walked = speeds[speeds["ablation"] == name], walked[walked["ablation"] == name]
    if speeds.empty:
        return {}
    loaded = replace(evidence.loaded, kept={"curves": walked})
    own = Evidence(loaded, evidence.contrasts, speeds)
    single = tables.speed_view(tables.singles(own))
    found = {} if single.empty else {"Times": narrowed(single.drop(columns="ablation"))}
    return found | tables.curve_views(own)


def downloads(paths: Sequence[Path], root: Path) -> list[str]:
    """Files as links from the page, which stands in a folder of its own."""
    return [f"../{path.relative_to(root).as_posix()}" for path in paths]
