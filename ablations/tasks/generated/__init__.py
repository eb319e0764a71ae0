"""Tasks whose examples are drawn, not read."""
