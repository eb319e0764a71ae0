"""Evaluations: what is measured of a trained model."""
