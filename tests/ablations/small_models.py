"""Settings of small models that write, and a task that is only as large as they must know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

TEXT: Any = SimpleNamespace(source_size=None, target_size=13, per="token")
PAIRS: Any = SimpleNamespace(source_size=11, target_size=13, per="token")


def transformer(mixer: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """One block of a decoder, its products in the open; with this mixer in it."""
    model = {"name": "transformer", "kind": "decoder", "d_model": 8, "n_heads": 2, "depth": 1}
    model |= {"max_len": 64, "path": {"name": "explicit"}}
    return {"model": {**model, **({"mixer": mixer} if mixer else {}), **changes}, "seed": 0}
