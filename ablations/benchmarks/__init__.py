"""Benchmarks: models timed beside the baseline, with the machine to themselves."""
