"""Lets the tests of the model import the formulas beside them."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself
torch.set_num_threads(1)
