"""One trial: the loop, its optimizers and schedules, and what is kept to go on from."""
