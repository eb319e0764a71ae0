"""Lets the contract tests import the modules beside them."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself
pytest.register_assert_rewrite(
    "contract_subjects", "contract_checks", "task_subjects", "task_batch_checks",
    "task_answer_checks",
)  # fmt: skip
torch.set_num_threads(1)
