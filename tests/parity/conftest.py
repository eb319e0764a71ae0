"""Lets the parity tests import the table of weights; other libraries run on one thread, too."""

import sys
from pathlib import Path

import torch

# importlib mode adds no folder by itself
sys.path.insert(0, str(Path(__file__).parent / "hugging_face"))
torch.set_num_threads(1)
