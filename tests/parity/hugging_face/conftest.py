"""Lets the parity tests import the weight map beside them; everything runs on one thread."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself
torch.set_num_threads(1)
