"""The recurrent baselines, as they were before the transformer."""

from __future__ import annotations

from model.family import Family

CELL = Family("cell")
SCORE = Family("score")
