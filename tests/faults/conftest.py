"""Toy sweeps stand beside the tests: importlib mode adds no folder by itself."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
