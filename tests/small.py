"""A small question, of which a trial trains in no time, and a pickle that tells when it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SETTINGS = {
    "task.words": 200,
    "task.valid_words": 40,
    "task.test_words": 40,
    "model.d_model": 16,
    "model.depth": 1,
    "train.steps": 4,
    "train.batch_tokens": 256,
    "train.parts": 1,
    "train.schedule": {"name": "linear", "warmup": 2},
    "train.evaluations": 2,
}


def question(**changes: Any) -> dict[str, Any]:
    return {
        "question": "Does the model need positions?",
        "task": "g2p",
        "fixed": "all else",
        "moves": "nothing",
        "metric": "per",
        "measures": ["quality"],
        "control": "with",
        "variants": {"with": {}, "without": {"model.position": "none"}},
        "settings": SETTINGS,
        **changes,
    }


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)
