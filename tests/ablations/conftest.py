"""What tests of this folder share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself

from in_process import InProcess


@pytest.fixture
def here() -> InProcess:
    return InProcess()
