"""Many trials: who works on what, where it runs, and how it ends."""
