"""Benchmarks: what is timed, beside the baseline, alone on the machine."""
