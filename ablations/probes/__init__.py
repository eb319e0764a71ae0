"""Probes: measurements of untrained models."""
