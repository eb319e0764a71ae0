"""How answers are graded. Nothing here is used in training."""
