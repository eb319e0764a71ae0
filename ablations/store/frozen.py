"""One text for equal settings."""

from __future__ import annotations

import json
from typing import Any


def freeze(plain: Any) -> str:
    """One text for equal settings, whatever the order they were written in."""
    return json.dumps(plain, sort_keys=True, allow_nan=False)
