"""What the records mean: statistics, figures, tables and the report."""
