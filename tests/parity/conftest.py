"""Other libraries are asked on one thread, as everything else is."""

import torch

torch.set_num_threads(1)
