"""Training of one trial: the loop, optimizers, schedules, checkpoints, packs and DDP."""
