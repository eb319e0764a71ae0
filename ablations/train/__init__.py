"""One trial: the loop, its optimisers and schedules, and what is kept to go on from."""
