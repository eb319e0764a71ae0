"""All that the pages, tables and figures are made from, gathered once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.contrasts import contrasts
from analysis.load import Loaded, load
from analysis.speed import speeds


@dataclass(frozen=True)
class Evidence:
    """A results folder with its contrasts of quality and of speed."""

    loaded: Loaded
    contrasts: pd.DataFrame
    speeds: pd.DataFrame


def gather(root: str | Path) -> Evidence:
    """Read a results folder and compare every variant with its control."""
    loaded = load(root)
    return Evidence(loaded, contrasts(loaded), speeds(loaded))
