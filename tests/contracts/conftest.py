"""Lets the contract tests import the modules beside them."""

import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
# importlib mode adds no folder by itself; what launchers are given stands beside their tests.
sys.path[:0] = [str(HERE), str(HERE.parent / "ablations")]
pytest.register_assert_rewrite("contract_subjects", "contract_checks", "task_subjects")
torch.set_num_threads(1)
