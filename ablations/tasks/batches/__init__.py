"""How examples become batches."""
