"""What can be trained: the family of whole models."""

from __future__ import annotations

from model.family import Family

MODEL = Family("model")
