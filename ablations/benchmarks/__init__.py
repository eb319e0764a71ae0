"""Benchmarks: what is timed side by side with the baseline, alone on the machine."""
