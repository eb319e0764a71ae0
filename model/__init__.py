"""What is trained: one configurable transformer and its recurrent rivals."""
