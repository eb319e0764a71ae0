"""Probes: what is computed or counted of an untrained model."""
