"""Evaluations: measurements of trained models."""
