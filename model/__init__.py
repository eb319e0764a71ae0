"""The models: one configurable transformer, and recurrent models to compare with it."""
